"""What people do to sessions: send messages, steer, decide on calls, end them. No lease is needed for it.

A person's event bypasses the lease's epoch, but never the order of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, SessionClosed, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.process import owner_name
from consolidator.runtime.session.access import check_reach, find_session, get_session
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import (
    PlannedChange,
    SessionChange,
    apply_change,
    check_driven_here,
    check_open,
    session_ended,
)
from consolidator.runtime.session.lease import Lease, open_end, uptime
from consolidator.runtime.session.safe_points import Recovery, find_recovery
from consolidator.runtime.turn.harness import DRIVER_ERRORS, Harness
from consolidator.runtime.turn.sub_agents import cancel_sub_agents, finish_sub_agent
from consolidator.store.log import events
from consolidator.store.log.events import AppendRefused, AppendResult
from consolidator.store.queries import fetch_together
from consolidator.store.sessions import sessions
from consolidator.store.turns import lease as store
from consolidator.store.turns import turns
from consolidator.store.turns.lease import AttentionRow

MessageMode = Literal["message", "steer", "follow_up"]
LIBRARY = "library"  # the surface of a program that embeds the runtime


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
    viewer: Viewer = OWNER,
) -> int:
    """Append a person's message, said by `user:NAME` of who asks, and return its seq; a driver answers it.

    Raises Forbidden, also for a speaker whom the credential may not name, NotFound, UsageError for a blank message,
    which no model accepts, and SessionClosed if the session has ended or is not driven here.
    """
    viewer.check_speaker(speaker)
    with boundary("commit message"):
        async with database.connection() as conn:
            await check_reach(conn, viewer, session_id, "write")
            new = create_message(text, mode=mode, speaker=speaker, viewer=viewer)
            return (await append_message(conn, session_id, new, now=database.clock.now())).last_seq


def create_message(
    text: str, *, mode: MessageMode = "message", speaker: str | None = None, viewer: Viewer = OWNER
) -> NewEvent:
    """Return a person's message as an event. Raises UsageError for a blank one."""
    if not text.strip():
        raise UsageError("the message is blank: there is nothing to answer")
    data = {"text": text, "mode": mode, "origin": "user", **({"speaker": speaker} if speaker else {})}
    return NewEvent(EventType.USER_MESSAGE, data, principal=viewer.user)


async def append_message(
    conn: Connection, session_id: str, message: NewEvent, *, now: datetime, holder: tuple[str, datetime] | None = None
) -> AppendResult:
    """Append a message and have drivers look at it, in one statement that commits by itself.

    A `holder` (owner, until) acquires the session in it if nobody holds it, and reads what a step reads first.
    """
    reads = [] if holder is None else open_end(session_id)
    while True:
        try:
            statement = turns.message(DRIVER_ERRORS, holder)  # of the message before: a driver looks anew
            statement = replace(statement, reads=reads)
            return await events.append(conn, session_id, [message], now=now, statement=statement)
        except AppendRefused:
            check_open(await sessions.get(conn, session_id))


async def send_and_hold(
    harness: Harness, session_id: str, text: str, *, mode: MessageMode, viewer: Viewer
) -> tuple[int, Lease | None]:
    """Send a message as `send_message` does; return its seq, and the session's lease if nobody held it."""
    database, seconds = harness.database, harness.settings.session_lease_seconds
    since, now = uptime(), database.clock.now()
    holder = (owner_name(), now + timedelta(seconds=seconds))
    with boundary("commit message"):
        async with database.connection(for_step=True) as conn:
            await check_reach(conn, viewer, session_id, "write")
            new = create_message(text, mode=mode, viewer=viewer)
            appending = asyncio.create_task(append_message(conn, session_id, new, now=now, holder=holder))
            try:
                appended = await asyncio.shield(appending)
                [is_held] = appended.details
                rows = appended.rows or (await fetch_together(conn, open_end(session_id)) if is_held else ())
            except BaseException:  # whoever asked is gone: another driver answers what was committed
                [committed] = await asyncio.gather(appending, return_exceptions=True)
                if not isinstance(committed, BaseException):
                    await store.release_held(conn, session_id, *holder)
                raise
    return appended.last_seq, Lease(database, rows, seconds=seconds, since=since) if is_held else None


async def stop_turn(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> int | None:
    """Ask that what is under way in a session ends, and return the seq of that; None where nothing is.

    It is in the log when this returns: whoever drives the session stops within a second, or at its next wake if the
    process dies. What was written of an answer stays, calls that did not run are aborted, and nothing that was said
    before is answered any more, follow-ups included; what is said next goes on from there. Raises Forbidden, NotFound
    and SessionClosed.
    """
    with boundary("commit verdict"):
        async with database.transaction() as conn:
            session = await get_session(conn, viewer, session_id, "write")
            check_open(session)
            if not (session.pending or session.attention or session.lease_owner):
                return None
            stop = NewEvent(EventType.POLICY_DECISION, {"decision": "turn_stopped"}, principal=viewer.user)
            now = database.clock.now()
            appended = await events.append(conn, session_id, [stop], now=now, open_task=session.open_task)
            if not await store.mark_pending(conn, session_id, now=now):
                raise session_ended(session_id)
            await store.add_turns(conn, session_id, 0)  # the error of a turn that is given up
            return appended.last_seq


async def request_wake(database: Database, session_id: str, *, viewer: Viewer = OWNER) -> tuple[SessionRow, Recovery]:
    """Have a driver look at a session, though nothing new was said. Raises Forbidden, and NotFound.

    Return its row, and what the driver will find; where that is nothing, as in one that has ended, no driver is asked.
    Raises SessionClosed for one that another harness drives.
    """
    async with database.transaction() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        check_driven_here(session)
        recovery = await find_recovery(conn, session)
        is_needed = recovery.action not in ("idle", "noop")
        if is_needed and not await store.mark_pending(conn, session.id, now=database.clock.now()):
            raise session_ended(session.id)
        return await sessions.get(conn, session.id), recovery


async def decide_approval(
    database: Database,
    call_id: str,
    *,
    allow: bool,
    reason: str | None = None,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Allow or deny a call that waits for approval, and return its session's id.

    Raises Forbidden, NotFound if none within reach waits for it, and UsageError if calls of several sessions have this
    id and `session_id` names none of them.
    """
    kind = EventType.APPROVAL_GRANTED if allow else EventType.APPROVAL_DENIED

    def create_event(request: Mapping[str, Any]) -> NewEvent:
        data = {"call_id": call_id, "tool": request.get("tool"), "reason": reason}
        return NewEvent(kind, data, principal=viewer.user)

    return await _log_verdict(database, call_id, "approval", create_event, session_id, viewer)


async def resolve_call(
    database: Database,
    call_id: str,
    outcome: Literal["ok", "failed"],
    *,
    session_id: str | None = None,
    viewer: Viewer = OWNER,
) -> str:
    """Record how an uncertain call went, and return its session's id. Raises as `decide_approval` does."""

    def create_event(request: Mapping[str, Any]) -> NewEvent:
        decision = {"decision": "call_settled", "call_id": call_id, "tool": request.get("tool"), "outcome": outcome}
        return NewEvent(EventType.POLICY_DECISION, decision, principal=viewer.user)

    return await _log_verdict(database, call_id, "uncertain", create_event, session_id, viewer)


async def _log_verdict(
    database: Database,
    call_id: str,
    kind: Literal["approval", "uncertain"],
    create_event: Callable[[Mapping[str, Any]], NewEvent],
    session_id: str | None,
    viewer: Viewer,
) -> str:
    """Log a person's verdict on a call that waits for one of this kind."""
    viewer.check_may("write")
    with boundary("commit verdict"):
        async with database.transaction() as conn:
            waiting_in = await _find_waiting_session(conn, call_id, session_id, viewer)
            call = await store.lock_waiting_call(conn, call_id, session_id=waiting_in)
            if call is None or call.requested.get("kind") != kind:
                raise no_waiting_call(call_id)
            now = database.clock.now()
            await events.append(conn, call.session_id, [create_event(call.requested)], now=now)
            await store.set_attention(conn, call.session_id, requested={}, settled=[call_id])
            if kind == "approval":
                await store.mark_pending(conn, call.session_id, now=now)
    return call.session_id


async def _find_waiting_session(conn: Connection, call_id: str, session_id: str | None, viewer: Viewer) -> str:
    """Return the one session within reach in which a call waits. Raises NotFound, and UsageError for several."""
    matching = []
    for waiting_id in await store.find_waiting_sessions(conn, call_id):
        if session_id in (None, waiting_id):
            with suppress(NotFound):
                matching.append((await get_session(conn, viewer, waiting_id, "write")).id)
    if not matching:
        raise no_waiting_call(call_id)
    if len(matching) > 1:
        names = ", ".join(matching)
        raise UsageError(f"calls of several sessions are called {call_id!r}: name the session, of {names}")
    return matching[0]


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
    database: Database, name: str, *, reason: str | None = None, hide: bool = False, viewer: Viewer = OWNER
) -> SessionRow:
    """End a session, and return it: its key names none then. With `hide` it is not listed either; nothing is deleted.

    It is named as a person types it. Raises Forbidden, NotFound, and SessionClosed for one that is driven elsewhere.
    """
    async with database.connection() as conn:
        session = await find_session(conn, viewer, name, "write")
    check_driven_here(session)
    session_id, why = session.id, reason or "ended by the user"
    await cancel_sub_agents(database, session_id)
    with boundary("commit end"):
        async with database.transaction() as conn:
            end = EndSession(why)
            await apply_change(conn, session_id, end, principal=viewer.operator, now=database.clock.now())
            await sessions.retire(conn, session_id, hide=hide)
    await cancel_sub_agents(database, session_id)  # those of a call that was made meanwhile
    await finish_sub_agent(database, session_id, error=why)  # of a sub-agent its parent is told
    async with database.connection() as conn:
        return await sessions.get(conn, session_id)


async def resume_session(database: Database, session_id: str) -> SessionRow:
    """Make a session the one that its key names, in place of any other. Raises SessionClosed if it has ended."""
    with boundary("commit key"):
        async with database.transaction() as conn:
            if not await sessions.make_current(conn, session_id):
                check_driven_here(await sessions.get(conn, session_id))
                raise SessionClosed(
                    f"session {session_id} has ended: "
                    f"`consolidator session events {session_id} --as replay` shows it again"
                )
            return await sessions.get(conn, session_id)


async def release_key(database: Database, session_id: str) -> None:
    """Release a session's key, so that the next opening creates a new session. This one stays open."""
    with boundary("commit key"):
        async with database.connection() as conn:
            await sessions.release_key(conn, session_id)


async def list_attention(
    database: Database, *, after: tuple[datetime, str] | None = None, limit: int = 50, viewer: Viewer = OWNER
) -> list[AttentionRow]:
    """Return the sessions within reach in which calls wait for a person, the latest first. Raises Forbidden.

    `after` is the last event's moment and the id of the session that a page ended with.
    """
    viewer.check_may("read")
    async with database.connection() as conn:
        return await store.list_attention(
            conn, agent=viewer.agent, project=viewer.project, peer=viewer.peer, after=after, limit=limit
        )


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
