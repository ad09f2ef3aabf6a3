"""The session runtime: drives agents' sessions from their log, so that any process can take over at any time.

Flow: `sessions` appends what people do. `wake` acquires the lease and steps until nothing is open. A step (`step`)
folds the open end of the log (`fold`), plans one request (`planning`, `compaction`), reserves money (`budget`), streams
the answer (`generation`), runs tool calls (`tool_calls`, `tools`) and sends committed chunks to the channel
(`delivery`). `agent` is the API for authors. `attention`, `cost` and `replay` only read.

What may not happen here: state that outlives a call and is not in the log; an effect (a tool call, a chunk sent) before
its event is committed; a database connection held while a model, a tool or a channel works; a write by a harness that
does not name its lease epoch; a write outside of a named boundary.
"""
