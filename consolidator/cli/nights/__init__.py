"""Commands that run the nights: serve, run, runs, retry, backfill. An exit code of 7 means dead letters."""
