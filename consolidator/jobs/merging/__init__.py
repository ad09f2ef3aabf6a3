"""Merging: what sessions left behind becomes what is published, one agent at a time, under the agent's lock.

agent_merge runs the merges of an agent in one transaction, and publishes its solutions and lessons:

- procedure_merge publishes procedures and tool profiles of each scope with news, from its latest digests.
- deciding compares a model's candidates with similar facts, by code and one question to the model, before the
  transaction; reconciling then makes facts of the candidates of every attribute that changed.

What was added, changed and retired is counted for the ledger. Merging is a function of what sessions left: it can
be repeated, and the order of nights does not matter. No connection is held while a model is asked.
"""
