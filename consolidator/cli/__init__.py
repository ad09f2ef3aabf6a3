"""The command line: one module a command, each thin over the service. Tables for people, --json for programs.

Commands parse arguments, call one service function, and print its result. They import neither the store nor the jobs.
"""

from consolidator.cli.app import main

__all__ = ["main"]
