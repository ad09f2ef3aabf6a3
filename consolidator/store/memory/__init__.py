"""What memory shows, over all kinds: lists, lookups, what is new, injections.

A night writes digests, error records and candidates, and the scopes that have to be merged; then, of each agent under
its lock, procedures, solutions and facts (`calls`, `facts`). `lookup` and `learned` read; `derived`
deletes. No module decides anything, and none opens a transaction: the caller's holds all its queries.
"""
