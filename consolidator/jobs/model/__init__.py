"""Calls of a model by the nightly jobs: reading sessions for facts, comparing facts, embedding.

Requests flow from `extraction` and the consolidation jobs to `calls`, which reserves, sends, retries and settles them,
or queues them for `batches`. Answers return validated; memory/facts decides what they mean. Nothing here writes memory,
and no database connection is held while a model is asked.
"""
