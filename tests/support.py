"""Helpers that most tests use: events, sessions, jobs, the command line, and all of memory for comparison."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ulid import ULID

from consolidator.cli.app import main
from consolidator.database import Connection, Database
from consolidator.jobs.nightly import Job, JobRunner
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionFilter, SessionRow
from consolidator.settings import Settings
from consolidator.store import checks
from consolidator.store.log import events, verification
from consolidator.store.log.events import BEGINNING
from consolidator.store.sessions import sessions
from consolidator.store.sessions.sessions import list_page
from tests.forks import Fork

PATIENCE = 300  # seconds until a test gives up waiting, also on a slow machine
FULL = bool(os.environ.get("CONSOLIDATOR_TEST_FULL"))  # set by `make matrix`: test every case instead of a sample
QUICK = bool(os.environ.get("CONSOLIDATOR_TEST_QUICK"))  # set by `.ci/run`: a smaller sample still


def count_examples(count: int) -> int:
    """Return how many examples of a property are tried of a usual `count`."""
    return max(2, count * 3 // 10) if QUICK else count


class SimulatedKill(BaseException):
    """Stands for the death of the process; no `except Exception` catches it."""


def user_message(text: str, **fields: Any) -> NewEvent:
    """A person's message."""
    return NewEvent(EventType.USER_MESSAGE, {"text": text, **fields})


def assistant_response(text: str) -> NewEvent:
    """The assistant's answer."""
    return NewEvent(EventType.ASSISTANT_RESPONSE, {"text": text})


def tool_call(call_id: str, tool: str, arguments: Any, **fields: Any) -> NewEvent:
    """A tool call."""
    return NewEvent(EventType.TOOL_CALL, {"call_id": call_id, "tool": tool, "arguments": arguments, **fields})


def tool_result(call_id: str, content: Any, status: str = "ok", **fields: Any) -> NewEvent:
    """A tool's result."""
    return NewEvent(EventType.TOOL_RESULT, {"call_id": call_id, "content": content, "status": status, **fields})


def call_and_result(call_id: str, tool: str, arguments: Any, content: Any = "ok", status: str = "ok") -> list[NewEvent]:
    """A call with its result."""
    return [tool_call(call_id, tool, arguments), tool_result(call_id, content, status)]


async def log_events(
    database: Database, session: str, new_events: Sequence[NewEvent], *, agent: str = "coder", **columns: Any
) -> None:
    """Append events to a session at the clock's time; open it first if it does not exist."""
    now = database.clock.now()
    async with database.transaction() as conn:
        await sessions.open_session(conn, {"id": session, "agent": agent, **columns}, now=now)
        if new_events:
            await events.append(conn, session, new_events, now=now)


async def list_latest(conn: Connection, *, hidden: bool = False) -> list[SessionRow]:
    """Return sessions, the latest first; with `hidden` also those that a person deleted."""
    wanted = SessionFilter(hidden=hidden)
    return await list_page(conn, wanted, order="latest", limit=1000, now=BEGINNING)


async def run_job(database: Database, settings: Settings, job: Job = "consolidation") -> dict[str, Any]:
    """Run a job now."""
    return await JobRunner(database, settings).run_now(job)


async def assert_invariants(database: Database) -> None:
    """Assert all invariants that `consolidator db verify` checks, but that a session's row is the fold of its log."""
    async with database.transaction() as conn:
        violations = await checks.find_violations(conn) | await verification.find_tampering(conn)
    broken = {name: cases for name, cases in violations.items() if cases}
    assert not broken, broken


MEMORY = {
    "procedure": "select id, title, support, rank, body, audience from procedure where retired_at is null order by id",
    "tool_profile": "select agent, project, audience, tool, body from tool_profile order by 1, 2, 3, 4",
    "solution": "select id, project, confirmed, sessions, occurrences, body, audience from solution order by id",
    "lesson": "select id, person, project, line, score, body from lesson where retired_at is null order by id",
    "fact": (
        "select id, sentence, valid_from, valid_to, superseded_by, superseded_reason, sessions, evidence, "
        "steers, steers_succeeded, steers_failed from fact order by id"
    ),
}


async def read_memory(database: Database) -> dict[str, list[Any]]:
    """Return everything that is published, for comparison; without times and run ids."""
    async with database.connection() as conn:
        return {name: await (await conn.execute(query)).fetchall() for name, query in MEMORY.items()}


def later(moment: datetime, **span: float) -> datetime:
    """Return a moment after another."""
    return moment + timedelta(**span)


def run_cli(
    *arguments: str, environment: Mapping[str, str], code: int | None = 0, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own; `code` is the required exit code, None for any."""
    with Fork(arguments, environment=environment, cwd=cwd) as process:
        output, errors = process.communicate(timeout=300)
    exit_code = process.wait()
    assert code is None or exit_code == code, f"exit {exit_code}\n{output}\n{errors}"
    return subprocess.CompletedProcess(arguments, exit_code, output, errors)


def run_here(
    *arguments: str, environment: Mapping[str, str], code: int | None = 0, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as `run_cli` does, in a thread: to start a process takes longer than most commands."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "argv", ["consolidator", *arguments]),
        patch.object(logging, "basicConfig"),  # it would hold on to the captured stream
        patch.object(asyncio.SelectorEventLoop, "add_signal_handler"),  # only the main thread may
        redirect_stdout(output),
        redirect_stderr(errors),
        chdir(cwd or Path.cwd()),
        ThreadPoolExecutor(1) as thread,
    ):
        ended = thread.submit(main).exception()
    assert ended is None or isinstance(ended, SystemExit), ended
    exit_code: Any = (ended and ended.code) or 0
    assert code is None or exit_code == code, f"exit {exit_code}\n{output.getvalue()}\n{errors.getvalue()}"
    return subprocess.CompletedProcess(arguments, exit_code, output.getvalue(), errors.getvalue())


@contextmanager
def free_port() -> Iterator[int]:
    """Reserve a loopback port that the command line can listen on, so that no other process gets it."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


async def in_thread(function: Any, *arguments: Any, **options: Any) -> Any:
    """Run a blocking function in a thread."""
    return await asyncio.to_thread(function, *arguments, **options)


async def learn_nothing(
    conn: Connection, spans: Sequence[events.Span], *, now: datetime, dead: Sequence[Sequence[int]] = ()
) -> None:
    """Stamp spans as a night does that found nothing in them: with a run, its counts and empty digests."""
    async with conn.transaction():
        run_id = str(ULID())
        await conn.execute(
            "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
            "values (%s, 'consolidation', clock_timestamp(), %s, %s, 'test')",
            [run_id, now, now],
        )
        for span in spans:
            await conn.execute(
                "insert into claim (run_id, kind, unit, seen, nothing) values (%s, 'session', %s, %s, %s)",
                [run_id, span.session, span.upto - span.after, span.upto - span.after],
            )
            await conn.execute(
                "insert into digest (session_id, agent, last_at, version) values (%s, 'coder', %s, 'none') "
                "on conflict (session_id) do update set last_at = excluded.last_at",
                [span.session, now],
            )
        dead_by_span = dead or [()] * len(spans)
        learned = [
            events.LearnedSpan(span, span.upto, list(seqs)) for span, seqs in zip(spans, dead_by_span, strict=True)
        ]
        await events.stamp(conn, learned, run_id=run_id, now=now)
