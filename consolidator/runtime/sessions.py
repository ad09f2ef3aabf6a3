"""What people do to sessions: open them, say something, steer, answer for a call, end them. At any time, lease or no.

A person's word bypasses the lease's epoch, never the log's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from psycopg.types.json import Jsonb
from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.database.jsonb import dumps, escape
from consolidator.errors import NotFound, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.boundaries import around
from consolidator.runtime.budget import check_cap
from consolidator.store.log import events, sessions
from consolidator.store.log import lease as marks
from consolidator.store.queries import Row, execute, load, row

Mode = Literal["message", "steer", "follow_up"]
_SQL = load("log/lease")
_LONGEST_KEY = 300


def parts_of(key: str) -> tuple[str, str | None, str | None]:
    """Return agent, channel and peer of a key; raise UsageError for what is none."""
    agent, _, rest = key.partition(":")
    channel, _, peer = rest.partition(":")
    if not agent.strip() or len(key) > _LONGEST_KEY or escape(key) != key:  # NUL, half a character
        raise UsageError(f"{key[:80]!r} is no key of a session, such as main:cli:mara")
    return agent, channel or None, peer or None


async def open_session(
    database: Database,
    key: str,
    *,
    model: str | None,
    max_cost: Decimal | None,
    config: Mapping[str, Any],
    project: str | None = None,
) -> Row:
    """Return the row of the session that a key names now, made where there is none; what is given is set.

    Raises UsageError for a key that is none, and for a cap in money that cannot be held.
    """
    check_cap(model, max_cost)
    agent, channel, peer = parts_of(key)
    values = {"id": str(ULID()), "key": key, "agent": agent, "channel": channel, "peer": peer, "project": project}
    now = database.clock.now()
    with around("commit session"):
        async with database.connection() as conn:
            name = await sessions.open_current(conn, values, now=now)
    with around("commit configuration"):
        async with database.transaction() as conn:
            return await _opened(conn, name, database, model=model, max_cost=max_cost, config=config, project=project)


async def _opened(
    conn: Connection,
    name: str,
    database: Database,
    *,
    model: str | None,
    max_cost: Decimal | None,
    config: Mapping[str, Any],
    project: str | None,
) -> Row:
    """Set what is given of a session, log that, and return its row."""
    await sessions.lock(conn, [name])  # of two openings at once neither undoes what the other sets
    found = await sessions.get(conn, name)
    changed = await _configure(conn, found, model=model, max_cost=max_cost, config=config)
    if found["head"] == 0:
        told = {"model": model, "system_prompt": config.get("system"), "cwd": project}
        start = NewEvent(EventType.SESSION_START, {k: v for k, v in told.items() if v is not None})
        await _began(conn, name, start, database)
    elif changed:
        told = {"decision": "configuration_changed", "changed": changed}
        await events.append(conn, name, [NewEvent(EventType.POLICY_DECISION, told)], now=database.clock.now())
    return await sessions.get(conn, name)


async def _began(conn: Connection, name: str, start: NewEvent, database: Database) -> None:
    """Log a session's beginning; nobody has to look at that, so that its marks move with it."""
    done = await events.append(conn, name, [start], now=database.clock.now())
    await execute(conn, _SQL["began"], {"id": name, "seq": done.last_seq})


async def _configure(
    conn: Connection, found: Row, *, model: str | None, max_cost: Decimal | None, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Set what is given and differs, and return that."""
    given = {name: value for name, value in config.items() if value is not None}
    changed = {name: value for name, value in given.items() if found["config"].get(name) != value}
    if model is not None and model != found["model"]:
        changed["model"] = model
    if max_cost is not None and max_cost != found["max_cost"]:
        changed["max_cost"] = str(max_cost)
    if changed:
        values = {
            "id": found["id"],
            "model": model,
            "max_cost": max_cost,
            "config": Jsonb({**found["config"], **given}, dumps=dumps),
        }
        await execute(conn, _SQL["configure"], values)
    return changed


async def say(
    database: Database, session_id: str, text: str, *, mode: Mode = "message", speaker: str | None = None
) -> int:
    """Append a person's message, for a harness to see to, and return its seq.

    Raises UsageError for one that says nothing, which no model would take, and in an ended session.
    """
    if not text.strip():
        raise UsageError("the message says nothing: there would be nothing to answer")
    told = {"text": text, "mode": mode, "origin": "user", **({"speaker": speaker} if speaker else {})}
    with around("commit message"):
        async with database.transaction() as conn:
            now = database.clock.now()
            done = await events.append(conn, session_id, [NewEvent(EventType.USER_MESSAGE, told)], now=now)
            if not await marks.pend(conn, session_id):
                raise UsageError(f"session {session_id} has ended; open its key again for a new one")
    return done.last_seq


async def decide(database: Database, call_id: str, *, allow: bool, reason: str | None = None) -> str:
    """Allow or deny a call that waits for it, and return its session; raise NotFound where none waits."""
    kind = EventType.APPROVAL_GRANTED if allow else EventType.APPROVAL_DENIED

    def told(asked: Mapping[str, Any]) -> NewEvent:
        return NewEvent(kind, {"call_id": call_id, "tool": asked.get("tool"), "reason": reason})

    return await _said_of(database, call_id, "approval", told, pending=True)


async def resolve(database: Database, call_id: str, outcome: Literal["ok", "failed"]) -> str:
    """Say how an uncertain call went, and return its session; raise NotFound where the call is not uncertain."""

    def told(asked: Mapping[str, Any]) -> NewEvent:
        decision = {"decision": "call_settled", "call_id": call_id, "tool": asked.get("tool"), "outcome": outcome}
        return NewEvent(EventType.POLICY_DECISION, decision)

    return await _said_of(database, call_id, "uncertain", told, pending=False)


async def _said_of(database: Database, call_id: str, kind: str, told: Any, *, pending: bool) -> str:
    """Log a person's word on a call that waits for one of this kind."""
    with around("commit word"):
        async with database.transaction() as conn:
            found = await marks.asking(conn, call_id)
            if found is None or found["asked"].get("kind") != kind:
                waiting = "`consolidator sessions --attention` lists the calls that wait for a person"
                raise NotFound(f"no call {call_id!r} waits for that; {waiting}")
            now = database.clock.now()
            await events.append(conn, found["id"], [told(found["asked"])], now=now)
            await marks.heed(conn, found["id"], asked={}, settled=[call_id])
            if pending:
                await marks.pend(conn, found["id"])
    return str(found["id"])


async def end(database: Database, session_id: str, *, reason: str, hide: bool = False) -> None:
    """End a session, so that its key names none; with `hide` it is not listed either. Nothing is deleted."""
    with around("commit end"):
        async with database.transaction() as conn:
            if (await sessions.get(conn, session_id))["status"] == "open":
                told = NewEvent(EventType.SESSION_END, {"reason": reason})
                await events.append(conn, session_id, [told], now=database.clock.now())
            await execute(conn, _SQL["retire"], {"id": session_id, "hide": hide})


async def resume(database: Database, session_id: str) -> Row:
    """Make a session the one that its key names, in place of any other; raise UsageError for one that has ended."""
    with around("commit current"):
        async with database.transaction() as conn:
            await execute(conn, _SQL["lock_key"], {"id": session_id})
            found = await row(conn, _SQL["lay_aside"], {"id": session_id})
            if found is None:
                await sessions.get(conn, session_id)
                raise UsageError(f"session {session_id} has ended: `consolidator replay {session_id}` shows it again")
            await execute(conn, _SQL["take_up"], {"id": session_id})
            return await sessions.get(conn, session_id)


async def release_key(database: Database, session_id: str) -> None:
    """Have a session's key name none, so that the next opening makes a new one; the session stays open."""
    with around("commit current"):
        async with database.connection() as conn:
            await execute(conn, _SQL["aside"], {"id": session_id})


async def attention(database: Database, *, limit: int = 50) -> Sequence[Row]:
    """Return sessions with calls that wait for a person's word, the latest first."""
    async with database.connection() as conn:
        return await marks.attentive(conn, limit=limit)
