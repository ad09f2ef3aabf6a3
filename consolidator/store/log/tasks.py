"""Tasks of a session: pairs of a TaskStart and the TaskEnd with the same id, by the index over these events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from consolidator.database import Connection
from consolidator.database.jsonb import escape, unescape
from consolidator.store.queries import fetch_all, fetch_one, load

_SQL = load("log/tasks")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of a session, as its log has it."""

    id: str
    title: str
    started_seq: int | None  # None, as the time, where its start was pruned
    started_at: datetime | None
    started_by: str | None  # a principal
    ended_seq: int | None
    ended_at: datetime | None
    ended_by: str | None
    outcome: str | None  # success | failure | cancelled | abandoned | unknown; None while it is open
    note: str | None


async def find_task(conn: Connection, session_id: str, task_id: str) -> TaskRow | None:
    """Return a task of a session; None if its log has no start of it."""
    values = {"session": session_id, "task": escape(task_id), "limit": 1}
    return _readable(await fetch_one(conn, TaskRow, _SQL["list_tasks"], values))


async def get_open_task(conn: Connection, session_id: str) -> TaskRow | None:
    """Return the task that is open in a session; None if none is."""
    return _readable(await fetch_one(conn, TaskRow, _SQL["get_open_task"], {"session": session_id}))


async def list_tasks(conn: Connection, session_id: str, *, limit: int = 50) -> list[TaskRow]:
    """Return a session's tasks, the latest first."""
    values = {"session": session_id, "task": None, "limit": limit}
    return [task for row in await fetch_all(conn, TaskRow, _SQL["list_tasks"], values) if (task := _readable(row))]


def _readable(row: TaskRow | None) -> TaskRow | None:
    """Return a row with its texts as they were written."""
    if row is None:
        return None
    note = None if row.note is None else unescape(row.note)
    return replace(row, id=unescape(row.id), title=unescape(row.title), note=note)
