"""Readers and writers of session logs: our own export and the logs of other systems.

A reader turns a file into a stream of sessions and events that the import stores; a writer turns a stored session's
events into lines. One module or package per format; `registry` lists them all, `base` defines what they share.

Formats are pure: they read the files they are given and never touch the database, the network or memory. They know
nothing of each other; what several need is in `common`. A bad line is reported, and never stops the ones after it.
"""
