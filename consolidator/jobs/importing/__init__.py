"""Imports foreign logs into the session log.

`source_files` reads items from the files of a source, `intake` writes them in bounded transactions, `report` counts
every line; `importer` connects them. A reader's error never stops the other files, nothing is written twice, and
nothing erased comes back.
"""
