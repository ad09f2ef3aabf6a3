"""Every query of the product: SQL files, each beside the module that runs it, and functions that return typed rows.

Callers above pass a driver connection and own its transaction; functions here run statements on it and return frozen
dataclasses, never dicts. Nothing here opens a connection, commits, calls a model, or decides what memory becomes: it
imports only `database`, `models` and what is below them.
"""
