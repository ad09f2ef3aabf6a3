"""Sessions: opening them, finding them by what a person types, listing them, moving their watermark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlmodel import col, select
from ulid import ULID

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.errors import NotFound, UsageError
from consolidator.models.session import SessionTable
from consolidator.store.log.events import Span
from consolidator.store.queries import Row, execute, execute_each, load, row, rows
from consolidator.store.select import fetch

_SQL = load("log/sessions")


def session_id_of(format_name: str, origin: str) -> str:
    """Return the id of an imported session: always the same for the same foreign name."""
    return str(
        ULID.from_bytes(
            hashlib.blake2b(f"{format_name}:{origin}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        )
    )


async def open_session(conn: Connection, values: Mapping[str, Any], *, now: datetime) -> None:
    """Create a session if it is not there; `values` are columns by name, `id` and `agent` at least.

    With `pruned_to` its log begins after that seq, as where the beginning was pruned before the session came here.
    """
    columns = ("origin", "key", "conversation_id", "channel", "peer", "project", "parent_id", "parent_seq", "model")
    full = {name: values.get(name) for name in columns}
    full |= {
        "id": values["id"],
        "agent": values["agent"],
        "kind": values.get("kind", "root"),
        "root_id": values.get("root_id") or values["id"],
        "simulated": values.get("simulated", False),
        "status": values.get("status", "open"),
        "pruned_to": values.get("pruned_to", 0),
        "details": Jsonb(values.get("details") or {}, dumps=dumps),
        "now": now,
    }
    await execute(conn, _SQL["open"], full)


async def open_current(conn: Connection, values: Mapping[str, Any], *, now: datetime) -> str:
    """Return the id of the one session that a key names now, made of `values` where there is none."""
    full = {**values, "now": now}
    await execute(conn, _SQL["end_current"], full)
    while (found := await row(conn, _SQL["open_current"], full)) is None:
        continue  # somebody else is just making it
    return str(found["id"])


async def lock(conn: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Lock the rows of sessions in order of id, and return the heads of those that are there."""
    return {r["id"]: r["head"] for r in await rows(conn, _SQL["lock"], {"ids": list(ids)})}


async def keep(conn: Connection, ids: Sequence[str]) -> set[str]:
    """Let nobody erase sessions until the transaction ends; return those that are there."""
    return {r["id"] for r in await rows(conn, _SQL["keep"], {"ids": list(ids)})}


async def get(conn: Connection, session: str) -> Row:
    """Return a session's row; raise NotFound where there is none."""
    found = await row(conn, _SQL["get"], {"id": session})
    if found is None:
        raise NotFound(f"no session {session!r}; `consolidator sessions` lists them")
    return found


async def current(conn: Connection, key: str) -> Row | None:
    """Return the row of the session that a key names now."""
    return await row(conn, _SQL["current"], {"key": key})


async def get_each(conn: Connection, ids: Sequence[str]) -> list[Row]:
    """Return several sessions' rows, in the order of `ids`; those that are not there are left out."""
    found = {r["id"]: r for r in await rows(conn, _SQL["get_each"], {"ids": list(ids)})}
    return [found[one] for one in ids if one in found]


async def find(conn: Connection, word: str) -> str:
    """Return the id of the session a person means by an id, a foreign name, or the beginning of one."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    found = await rows(conn, _SQL["find"], {"word": word, "like": escaped + "%"})
    if not found:
        raise NotFound(f"no session is named or begins with {word!r}; `consolidator sessions` lists them")
    # A sub-agent's name begins with its parent's, so the whole of a name goes before the beginning of others.
    if len(found) > 1 and found[0]["whole"] == found[1]["whole"]:
        raise UsageError(f"{word!r} names several sessions ({', '.join(r['id'] for r in found)}): type more of it")
    return str(found[0]["id"])


async def listing(
    conn: Connection,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    since: datetime | None = None,
    hidden: bool = False,
    limit: int = 50,
) -> list[Row]:
    """Return sessions, the latest first; with `hidden` also those that a person has deleted."""
    query = select(SessionTable).order_by(col(SessionTable.last_occurred_at).desc(), col(SessionTable.id)).limit(limit)
    if not hidden:
        query = query.where(col(SessionTable.hidden).is_(False))
    if agent:
        query = query.where(SessionTable.agent == agent)
    if project:
        query = query.where(col(SessionTable.project).contains(project, autoescape=True))
    if peer:
        query = query.where(SessionTable.peer == peer)
    if since:
        query = query.where(SessionTable.last_occurred_at >= since)
    return await fetch(conn, query)


async def all_ids(conn: Connection) -> list[str]:
    """Return every session's id, roots first; in the same order wherever an export of them was imported."""
    return [r["id"] for r in await rows(conn, _SQL["all_ids"])]


async def due(conn: Connection) -> list[Row]:
    """Return id, agent and events of each session that has something not learned from."""
    return await rows(conn, _SQL["due"])


async def advance(conn: Connection, spans: Sequence[Span]) -> bool:
    """Move sessions' watermarks from `after` to `upto` of their spans; say whether all were still there."""
    values = [{"id": span.session, "after": span.after, "upto": span.upto} for span in spans]
    return await execute_each(conn, _SQL["advance"], values) == len(spans)
