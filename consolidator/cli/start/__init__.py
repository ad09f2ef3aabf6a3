"""The commands a newcomer needs first: demo, import, learned."""
