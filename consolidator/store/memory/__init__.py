"""Queries on what was learned, a module and a .sql file for each noun.

A night writes digests, error_records, candidates (facts), and the scopes that have to be merged; then, of each agent
under its lock (agent_locks), sums, procedures, solutions and facts. lookup, learned and published read; rederive and
erasures delete. No module here decides anything, and none opens a transaction: the caller's holds all its queries.
"""
