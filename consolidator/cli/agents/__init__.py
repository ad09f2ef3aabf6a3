"""Commands for agents and their sessions: chat, agent, call, cost, and those of `session` that drive one.

They call `service.sessions`, or drive sessions through `runtime`. No event is written here: the
runtime appends.
"""
