"""Reader of Claude Code's session logs.

`reader` streams a file and calls the other modules, which turn parts of a line into event drafts. Text that nobody
typed must not become a person's message, and a message that the log repeats must not become two events.
"""
