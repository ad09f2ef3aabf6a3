"""The session runtime: drives agents' sessions from their log, so that any process can take over at any time.

Its rooms stand on one another, the lowest first: `session` (who drives one, what it may cost, what is open in its log),
`tools`, `lineage` (children and checkpoints), `turn` (wake, step, generation, delivery), `live` (the driver, and those
who follow), `rerun` (branches, reruns, replays). `agent` is the API for authors.

Flow: `turn/sessions` appends what people do. `turn/wake` acquires the lease and steps until nothing is open. A step
folds the open end of the log (`session/fold`), plans one request (`turn/planning`), reserves money (`session/budget`),
streams the answer (`turn/generation`), runs tool calls (`turn/tool_calls`) and sends committed chunks to the channel
(`turn/delivery`).

What may not happen here: state that outlives a call and is not in the log; an effect (a tool call, a chunk sent) before
its event is committed; a database connection held while a model, a tool or a channel works; a write by a harness that
does not name its lease epoch; a write outside of a named boundary.
"""
