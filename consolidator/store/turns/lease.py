"""Leases of sessions, and the marks that a harness leaves: settled, delivered, pending, waiting for a person.

Writes of a holder are fenced by its lease epoch: with an old epoch they change no row and raise StaleEpoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.errors import StaleEpoch
from consolidator.models.session import SessionRow
from consolidator.store.queries import Attempt, Column, FirstRow, Rows, Statement, Value, execute, load

_SQL = load("turns/lease")


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for a person, in its locked session."""

    session_id: str
    requested: dict[str, Any]  # kind (approval | uncertain), tool and what else was noted about the call


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """A session with calls that wait for a person."""

    id: str
    key: str | None
    agent: str
    attention: dict[str, dict[str, Any]]  # call_id -> kind (approval | uncertain), tool
    last_event_at: datetime


async def renew(conn: Connection, session_id: str, epoch: int, *, until: datetime) -> None:
    """Extend a lease; raise StaleEpoch if another harness has acquired the session."""
    if not await execute(conn, _SQL["renew"], {"id": session_id, "epoch": epoch, "until": until}):
        raise stale(session_id, epoch)


async def poll_steering(conn: Connection, session_id: str, epoch: int, *, seen_seq: int, low: datetime) -> bool:
    """Return whether a person steered after `seen`, not before `low`; raise StaleEpoch if the lease is over."""
    is_steered = await _poll_steering(conn, session_id, epoch=epoch, seen=seen_seq, low=low)
    if is_steered is None:
        raise stale(session_id, epoch)
    return is_steered


def stale(session_id: str, epoch: int) -> StaleEpoch:
    """Return the error of a holder whose lease is over."""
    return StaleEpoch(f"session {session_id}: epoch {epoch} is over")


_poll_steering = Value[bool | None, str](_SQL["poll_steering"], "id")
get_holder = Column[str | None, str](_SQL["get_holder"])  # the owner, none if nobody holds the session
release = Statement[str, int](_SQL["release"], "id epoch")
release_held = Statement[str, str, datetime](_SQL["release_held"], "id owner until")
# Releases a session with its marks and what its channel acknowledged last, and returns whether it stays pending.
# `head` is how far the caller knows the log: events after it leave the session pending. None: it is not released, since
# another harness has acquired it, or its sub-agents were not `reviewed` and one may be at work.
release_settled = Value[bool | None, str, int](
    _SQL["release_settled"], "id epoch", reviewed=True, message=None, channel=None, upto=None, started=None, now=None
)
find_waiting_sessions = Column[str, str](_SQL["find_waiting_sessions"])
add_turns = Statement[str, int](_SQL["add_turns"], "id turns")
PENDING_CHANNEL = "consolidator_pending"  # of PostgreSQL's notifications; the payload is a session's id


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session that a driver can take, and how many wakes in a row failed."""

    id: str
    owner: str | None  # of a lease that is not released
    failures: int


@dataclass(frozen=True, slots=True)
class SessionWithoutTools:
    """A session that waits for a driver with more tools."""

    id: str
    key: str | None
    error: str | None  # that stands in its row
    missing: list[str]


@dataclass(frozen=True, slots=True)
class FailingSession:
    """A session whose last wakes failed, and when it is tried again; None: now."""

    id: str
    key: str | None
    failures: int
    next_at: datetime | None


note_missing_tools = Statement[str, str, datetime](_SQL["note_missing_tools"], "id error now")
note_missing_model = Column[str, str, datetime, int](_SQL["note_missing_model"], "error now limit")
list_failing = Rows[FailingSession, int](FailingSession, _SQL["list_failing"])
begin_wake = Statement[str, datetime](_SQL["begin_wake"], "id after")
fail_wake = Statement[str, datetime](_SQL["fail_wake"], "id after")
clear_missing = Statement[str, str](_SQL["clear_missing"], "id error")
end_wake = Statement[str](_SQL["end_wake"])
undo_wake = Statement[str](_SQL["undo_wake"])
announce = Statement[str](_SQL["announce"])
acquire = FirstRow[SessionRow, str, str](SessionRow, _SQL["acquire"], "session_id owner", dead_owner=None)
mark_pending = Attempt[str](_SQL["mark_pending"], "session_id", now=None)
list_pending = Column[str](_SQL["list_pending"], limit=1000)
set_attention = Statement[str](_SQL["set_attention"], "session_id", settled=())
lock_waiting_call = FirstRow[WaitingCall, str](WaitingCall, _SQL["lock_waiting_call"], "call_id", session_id=None)
patch_state = Statement[str, Mapping[str, Any]](_SQL["patch_state"], "session_id change")
list_due = Rows[DueSession](DueSession, _SQL["list_due"])
list_without_tools = Rows[SessionWithoutTools](SessionWithoutTools, _SQL["list_without_tools"])
# The sessions with calls that wait for a person, the latest first; of one agent, project or person.
list_attention = Rows[AttentionRow](
    AttentionRow, _SQL["list_attention"], agent=None, project=None, peer=None, after=None, limit=50
)
