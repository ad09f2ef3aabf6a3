"""Commands that run the nights: serve, run, runs, retry, backfill."""
