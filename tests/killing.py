"""Runs the command line in children that kill themselves, with SIGKILL, just before their n-th commit.

A process of its own, which forks a child for each line of JSON it is given and answers with the child's exit code.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from tests.support import PATIENCE

KILLED = -signal.SIGKILL
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_WRITES = re.compile(r"(?i)\b(insert|update|delete|alter|drop|comment|create_\w+|truncate)\b")
_LOCKS = re.compile(r"(?i)\bfor (no key )?update\b")


def arm(number: int) -> None:
    """Die before the n-th commit: of a transaction, or of a statement that writes outside of one."""
    leave, execute = psycopg.AsyncTransaction.__aexit__, psycopg.AsyncCursor.execute
    commits = itertools.count(1)

    def commit() -> None:
        if next(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def leaving(self: psycopg.AsyncTransaction, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None and not self.savepoint_name:
            commit()
        return await leave(self, kind, error, trace)

    async def executing(self: psycopg.AsyncCursor[Any], query: Any, *values: Any, **more: Any) -> Any:
        if self.connection.info.transaction_status == TransactionStatus.IDLE and writes(query):
            commit()
        return await execute(self, query, *values, **more)

    finish = psycopg.Connection.commit

    def committing(self: psycopg.Connection[Any]) -> None:
        if self.info.transaction_status != TransactionStatus.IDLE:
            commit()
        finish(self)

    mock.patch.object(psycopg.Connection, "commit", committing).start()  # of an upgrade
    mock.patch.object(psycopg.AsyncTransaction, "__aexit__", leaving).start()
    mock.patch.object(psycopg.AsyncCursor, "execute", executing).start()


def writes(query: str | sql.Composable) -> bool:
    """Tell whether a statement changes anything."""
    text = query if isinstance(query, str) else query.as_string(None)
    return _WRITES.search(_LOCKS.sub("", _COMMENT.sub("", text))) is not None


class Killer:
    """The process that forks, as a test talks to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # A forked child can use no thread of its parent's, so none are made.
        quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**environment, **quiet},
            cwd=Path(__file__).parents[1],
        )  # fmt: skip

    def run(self, *words: str, environment: Mapping[str, str], number: int = 0) -> tuple[int, str]:
        """Run a command to its end, or to its death at a commit; return its exit code and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = {"words": words, "environment": dict(environment), "number": number}
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        code, output = json.loads(self._process.stdout.readline())
        return code, output

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _child(told: dict[str, Any], output: int) -> None:
    """Become the command."""
    from consolidator.cli import main

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(told["environment"])
    warnings.simplefilter("error")
    sys.argv = ["consolidator", *told["words"]]
    arm(told["number"])
    main()


def _serve() -> None:
    """Fork a child for each line, and answer with how it ended."""
    import consolidator.cli  # noqa: F401 - so that no child has to import it again

    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(json.loads(line), writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8", errors="replace") as printed:
            output = printed.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), output]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
