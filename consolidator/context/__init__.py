"""What a model is shown of a session: a query's result, folded into messages before each call.

Data flows from `store` through `reader` (events from the log's end, chosen by `strategies`) and `conversation` (turns
whose calls have results, as many as fit into the budget) to `messages` (the API's format); `build` joins these.
`history` folds the past that a context leaves out, and `compaction` plans how a summary replaces it.

What may not happen here: a call to a model, a state kept in the process, a read that grows with the length of the log,
or a context with a call that has no result. Only `build.advance_history` writes.
"""
