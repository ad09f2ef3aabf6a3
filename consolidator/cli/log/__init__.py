"""Commands on the log and its database: export, erase, token, db, and those of `session` that read the log.

What a log holds is printed as data: control characters never reach a terminal.
"""
