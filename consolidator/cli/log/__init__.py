"""Commands on the log and its database: sessions, events, export, erase, db.

Arguments in, one function of `service.log` called, tables or JSON out. What a log holds is printed as data: control
characters never reach a terminal.
"""
