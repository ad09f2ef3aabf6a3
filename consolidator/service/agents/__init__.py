"""Sessions of agents built on the runtime: their context, costs and replay.

Front ends call in; `context` and `runtime` do the work. Reading here changes no session, except a compaction on
request.
"""
