"""The nights on request: imports, runs and their ledger, backfill, and the scheduler.

Front ends call in; the jobs do the work and report. Nothing here decides what is due: the ledger does.
"""
