"""How often and how much memory asks a model, beside mem0."""
