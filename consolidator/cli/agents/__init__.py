"""Commands for agents: chat, wake, approve, deny, resolve, context, compact, replay, cost.

chat, wake and the answers to calls drive sessions through `runtime`; the others call `service.agents`. No event is
written here: the runtime appends.
"""
