"""Commands for agents built on the runtime: chat, wake, approve, deny, resolve, context, compact, replay, cost."""
