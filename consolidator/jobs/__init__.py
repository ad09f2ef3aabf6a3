"""What runs at night or by hand: import, consolidation, retention, backfill, and the ledger that proves it."""
