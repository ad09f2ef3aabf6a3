"""Recall: how turns and facts are indexed, ranked and shown in a prompt.

Indexing: `episodes` extracts a turn from an event, and `postings` packs its words. Answering: `query` judges the query,
`ranking` ranks the documents of one channel by their words, `fusion` fuses the channels, and `block` writes the items
that fit into the token budget. `documents` are the turns and facts in between.

Nothing here reads the index or asks for vectors: `service.recall` does. No text that others wrote goes into a block
unquoted, and none may end a block or forge a citation.
"""
