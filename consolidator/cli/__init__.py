"""The command line: one module a command, each thin over the service. Tables for people, --json for programs.

Commands parse arguments, call one service function, and print its result. They import neither the store nor the jobs.
"""

import gc

gc.disable()  # what is imported here stays: cyclic GC during the imports takes a sixth of the start-up
from consolidator.cli.app import main  # noqa: E402

gc.enable()

__all__ = ["main"]
