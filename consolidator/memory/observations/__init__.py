"""Observations: what agents found out about the code, the tools or the machine, as a model says it; no orders.

`origins` reads from a session's events where an agent's words come from, `doubts` says why an observation is none or is
held for a person, and `observation` makes candidates of a model's answer.
"""
