"""Reads what a context shows of a session's log, and what was folded of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database import Connection
from consolidator.database.jsonb import dumps, escape, unescape
from consolidator.errors import NotFound
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("log/context")
_NOTE = 100  # bytes of the note on what was cut
Bounds = tuple[datetime, datetime]


async def view(conn: Connection, session: str) -> Row:
    """Return what is folded of a session's past, with the marks of its row; raise NotFound where there is none."""
    found = await row(conn, _SQL["view"], {"session": session})
    if found is None:
        raise NotFound(f"no session {session!r}; `consolidator sessions` lists them")
    if found["scratchpad"] is not None:
        found["scratchpad"] = unescape(found["scratchpad"])
    return found


async def keep(conn: Connection, session: str, values: Mapping[str, Any]) -> None:
    """Keep what was folded, where it goes further than what is kept."""
    documents = {name: Jsonb(dict(values[name]), dumps=dumps) for name in ("summary", "compaction")}
    notes = None if values["scratchpad"] is None else escape(values["scratchpad"])
    await execute(conn, _SQL["keep"], {**values, **documents, "session": session, "scratchpad": notes})


async def landmarks(conn: Connection, session: str, upto: int) -> list[Event]:
    """Return the latest compaction and the latest notes up to an event; it reads all of the session's decisions."""
    return await events.complete(conn, await rows(conn, _SQL["landmarks"], {"session": session, "upto": upto}))


async def compactions(conn: Connection, session: str) -> list[Event]:
    """Return a session's compactions, the latest last."""
    return await events.complete(conn, await rows(conn, _SQL["compactions"], {"session": session}))


async def compacted(conn: Connection, session: str) -> None:
    """Count a compaction in its session."""
    await execute(conn, _SQL["compacted"], {"session": session})


async def window(conn: Connection, session: str, *, after: int, upto: int, bounds: Bounds, longest: int) -> list[Event]:
    """Return events with after < seq <= upto; results of tools beyond `longest` bytes are cut in their middle."""
    found = await events.read_rows(conn, events.Span(session, after, upto, bounds))
    await _cut(conn, found, longest)
    return await events.complete(conn, found)


async def asked(conn: Connection, session: str, *, after: int, upto: int, bounds: Bounds) -> Event | None:
    """Return a person's last message with after < seq <= upto."""
    values = {"session": session, "after": after, "upto": upto, "low": bounds[0], "high": bounds[1]}
    found = await events.complete(conn, await rows(conn, _SQL["asked"], values))
    return found[0] if found else None


async def pieces(conn: Connection, session: str, *, after: int, upto: int, low: datetime, channel: str) -> list[Row]:
    """Return the pieces of messages that began with after < seq <= upto, and how far each reached a channel."""
    values = {"session": session, "after": after, "upto": upto, "low": low, "channel": channel}
    found = await rows(conn, _SQL["pieces"], values)
    return [{**piece, "delta": unescape(piece["delta"])} for piece in found]


async def has_reached(conn: Connection, session: str, channel: str) -> bool:
    """Tell whether anything of a session reached a channel."""
    found = await row(conn, _SQL["has_reached"], {"session": session, "channel": channel})
    return found is not None and bool(found["reached"])


async def _cut(conn: Connection, found: list[Row], longest: int) -> None:
    """Put the ends of large results in their place, so that nobody waits for what is not shown."""
    large = {}
    for event in found:
        ref = (event["data"].get("data_ref") or {}).get("content")
        if ref is not None and ref["size"] > longest and event["event_type"] == EventType.TOOL_RESULT:
            large[bytes.fromhex(ref["ref"].rpartition("/")[2])] = ref["size"]
    if not large:
        return
    head = longest * 2 // 3
    values = {"shas": list(large), "head": head, "tail": longest - head - _NOTE}
    ends = {bytes(one["sha256"]): one for one in await rows(conn, _SQL["ends"], values)}
    for event in found:
        refs = event["data"].get("data_ref") or {}
        sha = bytes.fromhex(refs["content"]["ref"].rpartition("/")[2]) if "content" in refs else b""
        if sha in ends and event["event_type"] == EventType.TOOL_RESULT:
            gap = large[sha] - len(ends[sha]["head"]) - len(ends[sha]["tail"])
            parts = (bytes(ends[sha][end]).decode("utf-8", "ignore") for end in ("head", "tail"))
            event["data"]["content"] = f"\n[… {gap} bytes left out; the log has them …]\n".join(parts)
            event["data"]["data_ref"] = {name: ref for name, ref in refs.items() if name != "content"}
