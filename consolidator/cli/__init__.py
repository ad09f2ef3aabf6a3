"""The command line: thin over jobs and store. Tables for people, --json for programs, errors in one place."""

from consolidator.cli.app import main

__all__ = ["main"]
