"""Keeps recall's index: postings, sizes of scopes, and vectors.

`indexer` changes the index in the transaction that changes episodes or facts; `embeddings` adds vectors afterwards; and
`reindex` rebuilds everything. Text flows in from episodes and facts only, never from the index back into memory.
"""
