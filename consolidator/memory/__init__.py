"""What can be learned from the log: pure functions from events to proposals, which `jobs` stores and publishes.

Data flows from `text` (the wording of a message) and `calls` (what a tool call does) into four results: `facts` (what
people said that lasts), `procedures` (what agents do again and again), `solutions` (what failed, and what fixed it)
and `recall` (turns and facts, as they are searched and shown). `summary` folds a session into a short text.

Nothing here reads a database, a network, a clock or a file, and equal events give equal results in whatever parts
they come. A model's answer comes in as data, and goes out as candidates.
"""
