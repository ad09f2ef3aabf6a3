"""The commands that a newcomer needs first: demo, install, import, learned and their like."""
