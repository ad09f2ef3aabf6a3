"""The command line: one module a command, each thin over the service. Tables for people, --json for programs.

Commands parse arguments, call one service function, and print its result. They import neither the store nor the jobs.
"""

import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line; a plain question is asked of the hook service, before anything else is loaded."""
    if sys.argv[1:2] == ["recall"]:
        from consolidator.hooks.asking import ask_recall

        if (answer := ask_recall(sys.argv[2:])) is not None:
            with suppress(BrokenPipeError):
                os.write(1, answer.encode())
            return
    from consolidator.cli import app

    app.main()
