"""The demo: sample sessions of three agents, four weeks of them, and the story of what the nights make of these."""
