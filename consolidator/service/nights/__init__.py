"""The nights on request: imports, runs and their ledger, backfill, and the scheduler."""
