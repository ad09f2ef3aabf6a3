"""The jobs: import, consolidation, retention, backfill, retry and reindex, and the ledger that accounts for them.

The scheduler asks the ledger what is due and starts jobs; a job claims units, reads the log through `store`, computes
with `memory`, and writes memory back in the transaction that records the unit's progress. Nothing outside `cli`,
`service` and `demo` calls jobs. No connection is held while a model is asked, and a step commits only while its
replica holds the unit's lease.
"""
