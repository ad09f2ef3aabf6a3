"""Consolidation: events that nobody has learned from become memory, in units that commit all or nothing.

A night (pipeline) works in three phases, each on claimed units of the ledger:

- late extraction: a model reads what was consolidated before there was one (late_extraction, model_access).
- sessions: session_worker reads a session_window up to its safe_point; learning turns its events into results, without
  a database; persistence stores the results and stamps the events, in one transaction.
- merges: `jobs.merging` publishes what is new of each agent.

A person starts the rest: recorded_run says for which sessions; backfill learns or derives again, dead_letters retries
what was set aside, revisions read again with another model.

Rules: an event's stamp moves only in the transaction that stores what was learned from it. No transaction and no
connection is open while a model is asked. Locks are taken in one order: agents, sessions, digests and records, sorted.
"""
