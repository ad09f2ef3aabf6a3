"""The demo: logs of three agents over four weeks, and what the nights learn from them.

`logs` writes the files as they stood at a moment, into `story`, which runs the jobs of each night through `service` and
collects what is new for the command line.

What may not happen here: a result that was not learned from the files, a difference between two runs at the same time,
or a change to a database that holds other sessions.
"""
