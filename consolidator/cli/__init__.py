"""The command line: thin over jobs and store. Tables for people, --json for programs, errors in one place."""

import gc

gc.disable()  # what is loaded here stays: to look through it for garbage again and again takes a sixth of the start
from consolidator.cli.app import main  # noqa: E402

gc.enable()

__all__ = ["main"]
