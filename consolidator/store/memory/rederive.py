"""Taking back what was derived: to derive it again, or because a person wants to be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from ulid import ULID

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("memory/rederive")


async def chosen(
    conn: Connection,
    *,
    session: str | None,
    agent: str | None,
    since: datetime | None,
    until: datetime | None,
    learned_too: bool,
) -> list[Row]:
    """Return the sessions that fit the filters; only those with something new, unless `learned_too`."""
    values = {"session": session, "agent": agent, "since": since, "until": until, "all": learned_too}
    return await rows(conn, _SQL["chosen"], values)


async def forget(
    conn: Connection,
    session: str,
    *,
    after: int,
    digest: bool,
    errors: bool,
    candidates: bool,
    models_too: bool = False,
) -> int:
    """Delete what was derived from a session's events after a seq; return how many rows that were.

    What a model read is kept, unless `models_too`: it is read again in a generation of its own.
    """
    gone = 0
    values = {"session": session, "after": after, "generation": 2**31 - 1 if models_too else 0}
    if digest:
        gone += await execute(conn, _SQL["forget_digest"], values)
    if errors:
        gone += await _count(conn, _SQL["forget_errors"], values)
    if candidates:
        gone += await _count(conn, _SQL["forget_candidates"], values)
        await execute(conn, _SQL["kept_candidates"], values)
    return gone


async def _count(conn: Connection, query: LiteralString, values: dict[str, Any]) -> int:
    found = await row(conn, query, values)
    assert found is not None
    return int(found["count"])


async def sweep(conn: Connection, agent: str) -> int:
    """Delete facts and solutions that nothing supports any more; return how many went."""
    values = {"agent": agent}
    return await execute(conn, _SQL["orphan_facts"], values) + await execute(conn, _SQL["orphan_solutions"], values)


async def family(conn: Connection, ids: Sequence[str]) -> list[Row]:
    """Return sessions and everything that hangs from them."""
    return await rows(conn, _SQL["family"], {"ids": list(ids)})


async def of_peer(conn: Connection, peer: str) -> list[str]:
    """Return the sessions with a peer."""
    return [r["id"] for r in await rows(conn, _SQL["of_peer"], {"peer": peer})]


async def erase(conn: Connection, session: str, *, reason: str, now: datetime) -> int:
    """Erase a session and what was derived from it, and log that; return how many events went."""
    values = {"session": session}
    await execute(conn, _SQL["allow_erasure"], values)
    blobs = {bytes(r["sha256"]) for r in await rows(conn, _SQL["erase_refs"], values)}
    await execute(conn, _SQL["erase_blobs"], {"shas": sorted(blobs)})
    events = await execute(conn, _SQL["erase_events"], values)
    await execute(conn, _SQL["unmake"], values)
    derived = await forget(conn, session, after=0, digest=True, errors=True, candidates=True, models_too=True)
    await execute(conn, _SQL["erase_models"], values)
    await execute(conn, _SQL["erase_rest"], values)
    log = {"id": str(ULID()), "session": session, "events": events, "derived": derived, "reason": reason, "now": now}
    await execute(conn, _SQL["log_erasure"], log)
    return events


async def erase_words(conn: Connection, peer: str) -> None:
    """Erase what a person told memory of a peer."""
    await execute(conn, _SQL["erase_words"], {"peer": peer})


async def forget_retired(conn: Connection, agent: str) -> int:
    """Delete an agent's retired procedures; return how many there were."""
    return await execute(conn, _SQL["forget_retired"], {"agent": agent})


async def stamp_some(conn: Connection, session: str, *, seqs: Sequence[int], now: datetime) -> int:
    """Stamp single events whose dead letters are settled."""
    return await execute(conn, _SQL["stamp_some"], {"session": session, "seqs": list(seqs), "now": now})


async def erased_so_far(conn: Connection) -> int:
    """Return how many sessions were erased ever, to be compared later."""
    return await _count(conn, _SQL["erased_so_far"], {})


async def erasures(conn: Connection, *, limit: int = 50) -> list[Row]:
    """Return what was erased when and why, the latest first."""
    return await rows(conn, _SQL["erasures"], {"limit": limit})
