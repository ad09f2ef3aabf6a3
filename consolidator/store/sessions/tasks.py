"""Tasks of a session: pairs of a TaskStart and the TaskEnd with the same id, by the index over these events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from consolidator.database import Connection
from consolidator.database.jsonb import escape, unescape
from consolidator.models import ESCAPED
from consolidator.models.lineage import Lineage
from consolidator.models.session import SessionRow
from consolidator.store.queries import FirstRow, Rows, fetch_column, fetch_one, load

_SQL = load("sessions/tasks")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of a session, as its log has it."""

    id: str = field(metadata=ESCAPED)
    title: str = field(metadata=ESCAPED)
    started_seq: int | None  # None, as the time, where its start was pruned
    started_at: datetime | None
    started_by: str | None  # a principal
    ended_seq: int | None
    ended_at: datetime | None
    ended_by: str | None
    outcome: str | None  # success | failure | cancelled | abandoned | unknown; None while it is open
    note: str | None = field(metadata=ESCAPED)
    steers: int | None = None  # how often people steered meanwhile; counted in lists alone


async def find_task(conn: Connection, session_id: str, task_id: str) -> TaskRow | None:
    """Return a task of a session; None if its log has no start of it."""
    return next(iter(await list_tasks(conn, session_id, task=escape(task_id), limit=1)), None)


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """The start or the end of a task, or the end of its session."""

    seq: int
    event_type: str
    task_id: str | None


async def find_open_task(conn: Connection, session: SessionRow, lineage: Lineage, position: int) -> str | None:
    """Return the task that was open after an event of a session's past; `session` may be newer."""
    if position >= session.head and not session.is_driven_elsewhere:  # a foreign log's row has none
        return session.open_task
    for part in reversed(lineage.slice(lineage.readable_after, position)):
        values = {"session": part.session_id, "after": part.after_seq, "upto": part.upto_seq}
        latest = await fetch_one(conn, TaskEvent, _SQL["find_last_task_event"], values)
        if latest is not None:
            return unescape(latest.task_id) if latest.event_type == "TaskStart" and latest.task_id else None
    return None


async def with_steers(conn: Connection, session: SessionRow, rows: Sequence[TaskRow]) -> list[TaskRow]:
    """Return tasks of a session with how often people steered in each, as far as their part of the log is there."""
    started = [row for row in rows if row.started_seq is not None]
    values = {
        "session": session.id,
        "head": session.head,
        "started": [row.started_seq for row in started],
        "ended": [row.ended_seq for row in started],
    }
    counts = await fetch_column(conn, _SQL["count_steers"], values)
    counted = {row.id: count for row, count in zip(started, counts, strict=True)}
    return [replace(row, steers=counted.get(row.id)) for row in rows]


read_task_events = Rows[TaskEvent, str, int, int, int](TaskEvent, _SQL["read_task_events"], "session after upto limit")
get_open_task = FirstRow[TaskRow, str](TaskRow, _SQL["get_open_task"])
list_tasks = Rows[TaskRow, str](TaskRow, _SQL["list_tasks"], "session", task=None, limit=50)  # the latest first
