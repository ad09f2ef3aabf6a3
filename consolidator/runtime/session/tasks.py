"""Tasks: what a session works at, from a start to an end with an outcome. One at a time; the log knows which is open.

The nights learn from outcomes: what the tasks that succeeded have in common is worth repeating.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Literal, get_args

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import check_reach, find_session
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import PlannedChange, SessionChange, apply_change, check_open
from consolidator.store.sessions import sessions
from consolidator.store.sessions import tasks as store
from consolidator.store.sessions.tasks import TaskRow as TaskRow

log = logging.getLogger("consolidator.runtime")
TaskOutcome = Literal["success", "failure", "cancelled"]
OUTCOMES: tuple[TaskOutcome, ...] = get_args(TaskOutcome)
MAX_TITLE_LENGTH = 2000  # characters
MAX_NOTE_LENGTH = 4000
PROGRAM = Role.OPERATOR.value  # who works at a task in a block


@dataclass(frozen=True, slots=True)
class StartTask(SessionChange):
    """The start of a task; refused while another one is open."""

    title: str

    async def plan(self, conn: Connection, session: SessionRow, principal: str) -> PlannedChange:
        """Return the task's start."""
        check_open(session)
        title = self.title.strip()
        if not 0 < len(title) <= MAX_TITLE_LENGTH:
            raise UsageError(f"a task's title has 1 to {MAX_TITLE_LENGTH:,} characters, not {len(title):,}")
        if session.open_task is not None:
            raise UsageError(f"{await _describe_open(conn, session)}; finish it before another one starts")
        task_id = str(ULID())
        start = NewEvent(EventType.TASK_START, {"task_id": task_id, "goal": title}, principal=principal)
        return PlannedChange([start], f"The task is open: {title}", {"task_id": task_id})


@dataclass(frozen=True, slots=True)
class FinishTask(SessionChange):
    """The end of the open task; with a `task_id`, of that one only."""

    outcome: TaskOutcome
    note: str | None = None
    task_id: str | None = None

    async def plan(self, conn: Connection, session: SessionRow, principal: str) -> PlannedChange:
        """Return the task's end."""
        if self.outcome not in OUTCOMES:
            raise UsageError(f"{str(self.outcome)[:80]!r} is no outcome of a task: {', '.join(OUTCOMES)}")
        note = (self.note or "").strip()
        if len(note) > MAX_NOTE_LENGTH:
            raise UsageError(f"a task's note has at most {MAX_NOTE_LENGTH:,} characters, not {len(note):,}")
        task_id = session.open_task
        if task_id is None or self.task_id not in (None, task_id):
            raise UsageError(await _describe_not_open(conn, session, self.task_id))
        data = {"task_id": task_id, "outcome": self.outcome, **({"note": note} if note else {})}
        end = NewEvent(EventType.TASK_END, data, principal=principal)
        return PlannedChange([end], f"The task has ended: {self.outcome}.", {"task_id": task_id})


async def list_tasks(database: Database, session: str, *, limit: int = 50, viewer: Viewer = OWNER) -> list[TaskRow]:
    """Return the tasks of a session, the latest first, with how often people steered in each.

    `session` is an id or the beginning of one. Raises Forbidden and NotFound.
    """
    async with database.connection() as conn:
        row = await find_session(conn, viewer, session, "read")
        return await store.with_steers(conn, row, await store.list_tasks(conn, row.id, limit=limit))


async def start_task(
    database: Database, session_id: str, title: str, *, principal: str | None = None, viewer: Viewer = OWNER
) -> TaskRow:
    """Start a task in a session, as a person does, or another principal, and return it.

    Raises Forbidden, NotFound, and UsageError while another one is open.
    """
    with boundary("commit task"):
        async with database.transaction() as conn:
            await check_reach(conn, viewer, session_id, "write")
            change, by = StartTask(title), principal or viewer.user
            planned, _ = await apply_change(conn, session_id, change, principal=by, now=database.clock.now())
            started = await store.find_task(conn, session_id, planned.details["task_id"])
    assert started is not None
    return started


async def finish_task(
    database: Database,
    session_id: str,
    outcome: TaskOutcome,
    *,
    note: str | None = None,
    task_id: str | None = None,
    principal: str | None = None,
    viewer: Viewer = OWNER,
) -> TaskRow:
    """End a session's open task, as a person does, or another principal, and return it.

    Raises Forbidden, NotFound, and UsageError if none is open, or another than `task_id` is.
    """
    with boundary("commit task"):
        async with database.transaction() as conn:
            await check_reach(conn, viewer, session_id, "write")
            was_open = await store.get_open_task(conn, session_id)
            change, by = FinishTask(outcome, note, task_id), principal or viewer.user
            planned, _ = await apply_change(conn, session_id, change, principal=by, now=database.clock.now())
            ended = await store.find_task(conn, session_id, planned.details["task_id"]) or was_open
    assert ended is not None
    return ended if ended.outcome else replace(ended, outcome=outcome, note=note)  # its start is pruned


class Task:
    """A task as a block: `async with session.task("...") as task:`.

    Its end is its outcome: success; failure where the block raised or called `fail`; cancelled where it was cancelled
    or called `cancel`. What ended it meanwhile (the agent's tool, a person) stays its outcome.
    """

    def __init__(self, database: Database, session_id: str, title: str, *, resume: bool) -> None:
        self._database = database
        self._session_id = session_id
        self._resume = resume
        self._outcome: TaskOutcome = "success"
        self._note: str | None = None
        self.title = title
        self.id = ""  # known within the block

    def fail(self, note: str | None = None) -> None:
        """Say that the task fails, whatever else the block does."""
        self._outcome, self._note = "failure", note

    def cancel(self, note: str | None = None) -> None:
        """Say that the task is given up."""
        self._outcome, self._note = "cancelled", note

    def succeed(self, note: str | None = None) -> None:
        """Say that the task succeeds, and why; without it, so does a block that ends without an error."""
        self._outcome, self._note = "success", note

    async def __aenter__(self) -> Task:
        self.id = (await self._start()).id
        return self

    async def _start(self) -> TaskRow:
        if self._resume:
            async with self._database.connection() as conn:
                task = await store.get_open_task(conn, self._session_id)
            if task is not None and task.title == self.title.strip():
                return task
        return await start_task(self._database, self._session_id, self.title, principal=PROGRAM)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self.fail(redact(f"{type(error).__name__}: {error}")[:MAX_NOTE_LENGTH])
        elif error is not None:
            self.cancel(redact(f"{type(error).__name__}: {error}".removesuffix(": "))[:MAX_NOTE_LENGTH])
        try:
            await asyncio.shield(self._finish())
        except Exception as failure:
            if error is None:
                raise
            log.warning("task %s could not be ended: %s", self.id, redact(str(failure)))  # the block's error goes on

    async def _finish(self) -> None:
        try:
            await finish_task(
                self._database, self._session_id, self._outcome, note=self._note, task_id=self.id, principal=PROGRAM
            )
        except UsageError:
            async with self._database.connection() as conn:
                if (await sessions.get(conn, self._session_id)).open_task == self.id:
                    raise


async def _describe_open(conn: Connection, session: SessionRow) -> str:
    task = await store.find_task(conn, session.id, session.open_task or "")
    if task is None:
        return f"task {session.open_task} is open"
    return f"task {task.id} ({task.title[:80]!r}) is open since {_format_time(task.started_at)}"


async def _describe_not_open(conn: Connection, session: SessionRow, task_id: str | None) -> str:
    """Return in words why no task can be finished."""
    task = None if task_id is None else await store.find_task(conn, session.id, task_id)
    if task is not None and task.ended_at is not None:
        return f"task {task.id} has ended already: {task.outcome}, at {_format_time(task.ended_at)}"
    if task_id is not None and session.open_task is not None:
        return f"task {task_id!r} is not open: {await _describe_open(conn, session)}"
    return f"no task is open in session {session.id}: start one first"


def _format_time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "before what is kept of the log"
