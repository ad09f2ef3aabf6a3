"""Runs the command line in children that kill themselves, with SIGKILL, just before their n-th commit.

This module is also the process that forks: it reads a line of JSON for each child, and answers with its exit code.
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


def kill_before_commit(number: int) -> None:
    """Kill this process before its n-th commit: of a transaction, or of a statement that writes outside of one."""
    exit_transaction, execute = psycopg.AsyncTransaction.__aexit__, psycopg.AsyncCursor.execute
    commits = itertools.count(1)

    def count_commit() -> None:
        if next(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def exit_and_count(self: psycopg.AsyncTransaction, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None and not self.savepoint_name:
            count_commit()
        return await exit_transaction(self, kind, error, trace)

    async def execute_and_count(self: psycopg.AsyncCursor[Any], query: Any, *values: Any, **options: Any) -> Any:
        if self.connection.info.transaction_status == TransactionStatus.IDLE and is_write(query):
            count_commit()
        return await execute(self, query, *values, **options)

    commit_transaction = psycopg.Connection.commit

    def commit_and_count(self: psycopg.Connection[Any]) -> None:
        if self.info.transaction_status != TransactionStatus.IDLE:
            count_commit()
        commit_transaction(self)

    mock.patch.object(psycopg.Connection, "commit", commit_and_count).start()  # of an upgrade
    mock.patch.object(psycopg.AsyncTransaction, "__aexit__", exit_and_count).start()
    mock.patch.object(psycopg.AsyncCursor, "execute", execute_and_count).start()


def is_write(query: str | sql.Composable) -> bool:
    """Tell whether a statement writes."""
    text = query if isinstance(query, str) else query.as_string(None)
    return _WRITES.search(_LOCKS.sub("", _COMMENT.sub("", text))) is not None


class Killer:
    """The process that forks, as tests see it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # A forked child has none of its parent's threads, so the parent starts none.
        quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**environment, **quiet},
            cwd=Path(__file__).parents[1],
        )  # fmt: skip

    def run(self, *arguments: str, environment: Mapping[str, str], kill_at: int = 0) -> tuple[int, str]:
        """Run a command to its end, or kill it before a commit (0: never); return its exit code and its output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": arguments, "environment": dict(environment), "kill_at": kill_at}
        self._process.stdin.write(json.dumps(request) + "\n")
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


def _run_child(request: dict[str, Any], output: int) -> None:
    """Become the command."""
    from consolidator.cli import main

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    warnings.simplefilter("error")
    sys.argv = ["consolidator", *request["arguments"]]
    kill_before_commit(request["kill_at"])
    main()


def _serve_requests() -> None:
    """Fork a child for each line, and answer with how it ended."""
    import consolidator.cli.app  # noqa: F401 - so that no child has to import it again

    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _run_child(json.loads(line), writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8", errors="replace") as printed:
            output = printed.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), output]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve_requests()
