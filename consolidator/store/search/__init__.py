"""Tables of recall's index: episodes, indexed facts, postings, sizes of scopes, and vectors.

`index` stores documents and their words, `scope_sizes` the counts that weigh them, `vectors` their embeddings.
jobs/indexing writes here; service/recall and the comparison of facts read. Nothing is ranked here: queries return
candidates, and memory/recall ranks them.
"""
