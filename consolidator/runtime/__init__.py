"""The session runtime: step, wake, generation, tools, context and money, over the log and nothing else.

No state between calls, no database connection held while a model or a tool works, no effect before its event.
"""
