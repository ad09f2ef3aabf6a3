"""The command line: one module a command, each thin over the service. Tables for people, --json for programs.

Commands parse arguments, call one service function, and print its result. They import neither the store nor the jobs.
"""

import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line; the hook service is asked where it can answer, before anything else is loaded."""
    words = sys.argv[1:]
    if words:
        from consolidator.hooks import asking

        if words[0] == "recall" and (answer := asking.ask_recall(words[1:])) is not None:
            with suppress(BrokenPipeError):
                os.write(1, answer.encode())
            return
        if (code := asking.run_command(words)) is not None:
            sys.exit(code)
    from consolidator.cli import app

    app.main()
