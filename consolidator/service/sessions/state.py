"""The state of a session: the sum of its tools' changes, the open task, and the totals of its row."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from consolidator.database import Database
from consolidator.service.sessions.access import find_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions import tasks
from consolidator.store.sessions.tasks import TaskRow


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's state as of an event."""

    session_id: str
    seq: int  # the last event
    status: str  # open | ended
    state: dict[str, Any]
    open_task: TaskRow | None
    turns: int
    compactions: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD


async def read_state(database: Database, session: str, *, viewer: Viewer = OWNER) -> SessionState:
    """Return a session's state; `session` is an id or the beginning of one. Raises NotFound."""
    async with database.connection() as conn:
        row = await find_session(conn, viewer, session, "read")
        open_task = await tasks.get_open_task(conn, row.id)
    return SessionState(
        row.id, row.head, row.status, row.state, open_task, row.turns, row.compactions, row.input_tokens,
        row.output_tokens, row.cached_tokens, row.cost,
    )  # fmt: skip
