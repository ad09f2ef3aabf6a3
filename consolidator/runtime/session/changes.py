"""Changes of a session that depend on how it stands: planned on what was read, and appended only if that still holds.

A person and the agent may change the same session at the same moment: whoever comes second plans again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.errors import HeadConflict, SessionClosed, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.session import SessionRow
from consolidator.store.log import events
from consolidator.store.log.events import AppendResult
from consolidator.store.sessions import sessions

_MAX_ATTEMPTS = 50  # to append before anything else is
CreateResult = Callable[[str | None, str | None], NewEvent]  # of a tool's result, given an answer or a refusal


class SessionChange(ABC):
    """A change that a tool or a person asks for."""

    @abstractmethod
    async def plan(self, conn: Connection, session: SessionRow, principal: str) -> PlannedChange:
        """Return what to append to a session as it stands; raise UsageError, in words for who asked, if it cannot."""

    async def save(self, conn: Connection, session: SessionRow, planned: PlannedChange, seq: int) -> None:  # noqa: B027
        """Store what is kept beside the log, if anything is; `seq` is of the last event that was appended."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The events of a change, and what to tell who asked for it."""

    events: Sequence[NewEvent]
    answer: str
    details: Mapping[str, Any]


async def apply_change(
    conn: Connection, session_id: str, change: SessionChange, *, principal: str, now: datetime
) -> tuple[PlannedChange, AppendResult | None]:
    """Append a change to a session in the caller's transaction; None where there was nothing to append.

    Raises what the change's plan raises, and HeadConflict if the session never stands still.
    """
    planned, appended = await plan_and_append(conn, session_id, change, principal, now)
    assert planned is not None
    return planned, appended


async def plan_and_append(
    conn: Connection,
    session_id: str,
    change: SessionChange,
    principal: str,
    now: datetime,
    epoch: int | None = None,
    create_result: CreateResult | None = None,
) -> tuple[PlannedChange | None, AppendResult | None]:
    """Plan a change on a session as it stands, and append it if the session still stands so.

    With `create_result` a tool's result comes before it, both or neither: what that returns, given what the change
    answers or else why it was refused.
    """
    for _ in range(_MAX_ATTEMPTS):
        session = await sessions.get(conn, session_id)
        planned: PlannedChange | None = None
        results = []
        try:
            planned = await change.plan(conn, session, principal)
            results = [] if create_result is None else [create_result(planned.answer, None)]
        except UsageError as error:
            if create_result is None:
                raise
            results = [create_result(None, str(error))]
        changes = planned.events if planned is not None else ()
        if not (results or changes):
            return planned, None
        try:
            appended = await events.append(
                conn, session_id, [*results, *changes], now=now, expected_head=session.head, epoch=epoch,
                open_task=session.open_task,
            )  # fmt: skip
        except HeadConflict:
            continue
        if planned is not None and changes:
            await change.save(conn, session, planned, appended.last_seq)
        return planned, appended
    raise HeadConflict(f"session {session_id} changes too fast: try again")


def check_driven_here(session: SessionRow) -> None:
    """Raise SessionClosed for a session that another harness drives: nothing in its record is acted on."""
    if session.is_driven_elsewhere:
        by = f"recorded by {session.recorded_by}" if session.recorded_by else f"imported ({session.origin})"
        raise SessionClosed(f"session {session.id} was {by}: it can be read, but not continued here; open another key")


def session_ended(session_id: str) -> SessionClosed:
    """Return the error for a session that has ended."""
    return SessionClosed(f"session {session_id} has ended; open its key again for a new one")


def check_open(session: SessionRow) -> None:
    """Raise SessionClosed for a session that is driven elsewhere or has ended."""
    check_driven_here(session)
    if session.status != "open":
        raise session_ended(session.id)
