"""Commands that run the nights: serve, run, runs, retry, backfill.

Arguments in, one function of `service.nights` called, a report out; an exit code of 7 means dead letters. No job
logic here.
"""
