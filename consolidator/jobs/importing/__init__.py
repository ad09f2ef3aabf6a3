"""Imports foreign logs into the session log.

`importer` reads items from the files of a source; `intake` writes them in bounded transactions and counts every line.
A reader's error never stops the other files, nothing is written twice, and nothing erased comes back.
"""
