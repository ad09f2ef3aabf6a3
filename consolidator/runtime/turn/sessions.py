"""What people do to sessions: send messages, steer, decide on calls, end them. No lease is needed for it.

A person's event bypasses the lease's epoch, but never the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, SessionClosed, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.models.session import SessionRow
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import (
    PlannedChange,
    SessionChange,
    apply_change,
    check_driven_here,
    check_open,
    session_ended,
)
from consolidator.runtime.turn.harness import DRIVER_ERRORS
from consolidator.runtime.turn.sub_agents import cancel_sub_agents, finish_sub_agent
from consolidator.store.log import events
from consolidator.store.log.events import AppendRefused
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease as store
from consolidator.store.turns import turns
from consolidator.store.turns.lease import AttentionRow

MessageMode = Literal["message", "steer", "follow_up"]
LIBRARY = "library"  # the surface of a program that embeds the runtime
_OPERATOR = Role.OPERATOR.value


def no_waiting_call(call_id: str) -> NotFound:
    """Return the error for a call that does not wait for a person."""
    hint = "`consolidator session list --attention` lists the calls that wait for a person"
    return NotFound(f"no call {call_id!r} waits for that; {hint}")


async def send_message(
    database: Database,
    session_id: str,
    text: str,
    *,
    mode: MessageMode = "message",
    speaker: str | None = None,
    surface: str = LIBRARY,
) -> int:
    """Append a person's message for a harness to answer, and return its seq; `surface` is where the person wrote it.

    Raises UsageError for a blank message, which no model accepts, and SessionClosed if the session has ended or is
    not driven here.
    """
    new = create_message(text, mode=mode, speaker=speaker, surface=surface)
    with boundary("commit message"):
        async with database.connection() as conn:
            return await append_message(conn, session_id, new, now=database.clock.now())


def create_message(
    text: str, *, mode: MessageMode = "message", speaker: str | None = None, surface: str = LIBRARY
) -> NewEvent:
    """Return a person's message as an event. Raises UsageError for a blank one."""
    if not text.strip():
        raise UsageError("the message is blank: there is nothing to answer")
    data = {"text": text, "mode": mode, "origin": "user", **({"speaker": speaker} if speaker else {})}
    return NewEvent(EventType.USER_MESSAGE, data, principal=name_principal(Role.USER, surface))


async def append_message(conn: Connection, session_id: str, message: NewEvent, *, now: datetime) -> int:
    """Append a message, have drivers look at it, and return its seq; in one statement that commits by itself."""
    while True:
        try:
            statement = turns.message(driver_errors=DRIVER_ERRORS)  # of the message before: a driver looks anew
            appended = await events.append(conn, session_id, [message], now=now, statement=statement)
        except AppendRefused:
            check_open(await sessions.get(conn, session_id))
        else:
            return appended.last_seq


async def stop_turn(database: Database, session_id: str, *, surface: str = LIBRARY) -> int | None:
    """Ask that what is under way in a session ends, and return the seq of that; None where nothing is.

    It is in the log when this returns: whoever drives the session stops within a second, or at its next wake if the
    process dies. What was written of an answer stays, calls that did not run are aborted, and nothing that was said
    before is answered any more, follow-ups included; what is said next goes on from there. Raises SessionClosed.
    """
    with boundary("commit verdict"):
        async with database.transaction() as conn:
            session = await sessions.get(conn, session_id)
            check_open(session)
            if not (session.pending or session.attention or session.lease_owner):
                return None
            stop = NewEvent(
                EventType.POLICY_DECISION, {"decision": "turn_stopped"}, principal=name_principal(Role.USER, surface)
            )
            now = database.clock.now()
            appended = await events.append(conn, session_id, [stop], now=now, open_task=session.open_task)
            if not await store.mark_pending(conn, session_id, now=now):
                raise session_ended(session_id)
            await store.add_turns(conn, session_id, 0)  # the error of a turn that is given up
            return appended.last_seq


async def decide_approval(
    database: Database,
    call_id: str,
    *,
    allow: bool,
    reason: str | None = None,
    surface: str = LIBRARY,
    session_id: str | None = None,
) -> str:
    """Allow or deny a call that waits for approval, and return its session's id: of `session_id` alone, where given.

    Raises NotFound if none waits.
    """
    kind = EventType.APPROVAL_GRANTED if allow else EventType.APPROVAL_DENIED

    def create_event(request: Mapping[str, Any]) -> NewEvent:
        data = {"call_id": call_id, "tool": request.get("tool"), "reason": reason}
        return NewEvent(kind, data, principal=name_principal(Role.USER, surface))

    return await _log_verdict(database, call_id, "approval", create_event, pending=True, session_id=session_id)


async def resolve_call(
    database: Database,
    call_id: str,
    outcome: Literal["ok", "failed"],
    *,
    surface: str = LIBRARY,
    session_id: str | None = None,
) -> str:
    """Record how an uncertain call went, and return its session's id: of `session_id` alone, where given.

    Raises NotFound if the call is not uncertain.
    """

    def create_event(request: Mapping[str, Any]) -> NewEvent:
        decision = {"decision": "call_settled", "call_id": call_id, "tool": request.get("tool"), "outcome": outcome}
        return NewEvent(EventType.POLICY_DECISION, decision, principal=name_principal(Role.USER, surface))

    return await _log_verdict(database, call_id, "uncertain", create_event, pending=False, session_id=session_id)


async def _log_verdict(
    database: Database,
    call_id: str,
    kind: Literal["approval", "uncertain"],
    create_event: Callable[[Mapping[str, Any]], NewEvent],
    *,
    pending: bool,
    session_id: str | None,
) -> str:
    """Log a person's verdict on a call that waits for one of this kind."""
    with boundary("commit verdict"):
        async with database.transaction() as conn:
            call = await store.lock_waiting_call(conn, call_id, session_id=session_id)
            if call is None or call.requested.get("kind") != kind:
                raise no_waiting_call(call_id)
            now = database.clock.now()
            await events.append(conn, call.session_id, [create_event(call.requested)], now=now)
            await store.set_attention(conn, call.session_id, requested={}, settled=[call_id])
            if pending:
                await store.mark_pending(conn, call.session_id, now=now)
    return call.session_id


@dataclass(frozen=True, slots=True)
class EndSession(SessionChange):
    """The end of a session, and of the task that is open in it; nothing where it has ended before."""

    reason: str

    async def plan(self, conn: Connection, session: SessionRow, principal: str) -> PlannedChange:
        """Return the events that end a session."""
        new = []
        if session.status == "open":
            new = [NewEvent(EventType.SESSION_END, {"reason": self.reason}, principal=principal)]
            if (task := session.open_task) is not None:
                abandoned = {
                    "task_id": task,
                    "outcome": "abandoned",
                    "note": "the session ended while the task was open",
                }
                new.insert(0, NewEvent(EventType.TASK_END, abandoned, principal=principal))
        return PlannedChange(new, f"session {session.id} has ended", {})


async def end_session(
    database: Database, session_id: str, *, reason: str, hide: bool = False, principal: str = _OPERATOR
) -> None:
    """End a session: its key names none then. With `hide` it is not listed either. Nothing is deleted."""
    await cancel_sub_agents(database, session_id)
    with boundary("commit end"):
        async with database.transaction() as conn:
            end = EndSession(reason)
            await apply_change(conn, session_id, end, principal=principal, now=database.clock.now())
            await sessions.retire(conn, session_id, hide=hide)
    await cancel_sub_agents(database, session_id)  # those of a call that was made meanwhile
    await finish_sub_agent(database, session_id, error=reason)  # of a sub-agent its parent is told


async def resume_session(database: Database, session_id: str) -> SessionRow:
    """Make a session the one that its key names, in place of any other. Raises SessionClosed if it has ended."""
    with boundary("commit key"):
        async with database.transaction() as conn:
            if not await sessions.make_current(conn, session_id):
                check_driven_here(await sessions.get(conn, session_id))
                raise SessionClosed(
                    f"session {session_id} has ended: `consolidator session replay {session_id}` shows it again"
                )
            return await sessions.get(conn, session_id)


async def release_key(database: Database, session_id: str) -> None:
    """Release a session's key, so that the next opening creates a new session. This one stays open."""
    with boundary("commit key"):
        async with database.connection() as conn:
            await sessions.release_key(conn, session_id)


async def list_attention(database: Database, *, limit: int = 50) -> Sequence[AttentionRow]:
    """Return the sessions with calls that wait for a person, the latest first."""
    async with database.connection() as conn:
        return await store.list_attention(conn, limit=limit)


_LOOKBACK = 500  # events in which the arguments of a waiting call are looked for


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person."""

    call_id: str
    tool: str
    kind: Literal["approval", "uncertain"]
    arguments: Any = None


async def load_pending_calls(database: Database, session_id: str) -> list[PendingCall]:
    """Return the calls of a session that wait for a person, in the log's order."""
    async with database.connection() as conn:
        session = await sessions.get(conn, session_id)
        attention: dict[str, dict[str, Any]] = session.attention
        if not attention:
            return []
        after = max(session.pruned_to, min(session.settled_to, session.head - _LOOKBACK))
        log = await events.read(conn, session_id, after=after, upto=session.head, bounds=session.ingest_bounds)
    calls = {str(event.data["call_id"]): event.data for event in log if event.type is EventType.TOOL_CALL}
    order = {call_id: number for number, call_id in enumerate(calls)}
    return [
        PendingCall(call_id, str(request.get("tool") or ""), request["kind"], calls.get(call_id, {}).get("arguments"))
        for call_id, request in sorted(attention.items(), key=lambda item: order.get(item[0], -1))
    ]
