"""Whether a tool failed, decided from its output alone."""

from __future__ import annotations

import pytest

from consolidator.formats.common.drafts import is_failure, is_timeout

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'


@pytest.mark.parametrize(
    "output",
    [
        TRACEBACK + "ValueError: no",
        "starting\n" + TRACEBACK + "app.errors.NotFoundError: no such user\n",
        "starting\n" + TRACEBACK + "KeyboardInterrupt",
        "/bin/bash: line 1: sudo: command not found\n",
        "bash: foo: command not found",
        "cat: /etc/shadow: Permission denied",
        "ls: cannot access 'May': No such file or directory",
        "/root/x/*: cannot open `/root/x/*' (No such file or directory)",
        "rm: missing operand\nTry 'rm --help' for more information.\n",
        "/bin/bash: -c: line 1: syntax error near unexpected token `('\n/bin/bash: -c: line 1: `f('",
        "awk: line 1: syntax error at or near ;\n",
        "File missing.py not found",
        "built 3 files\nCommand exited with code 2",
        "make: *** [all] Error 1\nExit code: 2\n",
        "\nEXECUTION TIMED OUT",
        "The command 'sleep 99' was cancelled because it took more than 30 seconds.",
    ],
)
def test_a_clear_failure_is_one(output: str) -> None:
    assert is_failure(output)
    assert is_failure(output.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Script completed successfully, no errors. Result: True",
        "12:Traceback (most recent call last):\n13:  ValueError",
        "caught:\n" + TRACEBACK + "ValueError: no\nwent on\nall good",
        "src/a.py:10: raise OSError('No such file or directory')\nsrc/b.py:1: pass",
        "a.txt\nfind: '/root': Permission denied\nb.txt",
        "exit code: 0",
        "The error handling chapter says: command not found is printed by the shell.",
        "Function main not found! Instead, here is FUN_0040",
        "usage: tool [-h]",
        "Execution timed out is what the test prints",
    ],
)
def test_what_only_speaks_of_errors_is_no_failure(output: str) -> None:
    assert not is_failure(output)


def test_a_timeout_is_told_from_other_failures() -> None:
    assert is_timeout("partial\nEXECUTION TIMED OUT BECAUSE NO OUTPUT WAS PRODUCED FOR MORE THAN 60.0 SECONDS.")
    assert not is_timeout("bash: foo: command not found")
