"""The demo: sample sessions of three agents over four weeks, and what the nights learn from them.

Data flows from the scripts in `samples` through `script` (parsed sessions) and `logs` (the files their agents would
write) into `story`, which runs the jobs of each night through `service` and collects what is new for the command line.

What may not happen here: a result that was not learned from the files, a difference between two runs at the same time,
or a change to a database that holds other sessions.
"""
