"""One turn with a tool's call, done by consolidator and by other libraries, each in a process of its own.

The other libraries' modules run under a Python that has them, not under ours: here only `consolidator_side` imports the
product. `python -m benchmarks.runtime.turn_sides NAME` reads requests on standard input.
"""
