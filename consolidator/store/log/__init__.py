"""The log: events behind one door, blobs, the hash chain and its seals, what was imported, and retention.

Events enter through `events.append` and `events.load_each` only, which move the session's head in the same transaction;
they leave in order of seq, with their blobs followed. Nothing here updates an event but to stamp it, and only
`retention` deletes any. Nothing here reads what memory was made of them.
"""
