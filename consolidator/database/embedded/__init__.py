"""The embedded PostgreSQL: its binaries, its cluster below the home, and the server that processes on a machine share.

`server` is what the engine uses; it finds or starts a server through `cluster` and `startup`, under file locks, and a
keeper process stops it after its last user. Nothing here knows the schema; the only SQL is what creates the database.
"""
