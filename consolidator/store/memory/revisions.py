"""Generations of memory: drafts, how far they have read, and which one is believed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.partitions import Connection
from consolidator.errors import NotFound, UsageError
from consolidator.store.memory import digests
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("memory/revisions")


async def current(conn: Connection) -> int:
    """Return the generation that nights read for; 1 before any other was promoted."""
    found = await row(conn, _SQL["current"])
    assert found is not None
    return int(found["id"])


async def draft(conn: Connection, *, model: str, choice: Mapping[str, Any], now: datetime) -> int:
    """Return the draft of a model over some sessions: the one that was begun, else a new one."""
    await execute(conn, _SQL["lock"])
    values = {"model": model, "choice": Jsonb(dict(choice)), "now": now}
    found = await row(conn, _SQL["draft_of"], values) or await row(conn, _SQL["begin"], values)
    assert found is not None
    return int(found["id"])


async def get(conn: Connection, generation: int) -> Row:
    """Return a generation; raise NotFound where there is none."""
    found = await row(conn, _SQL["get"], {"id": generation})
    if found is None:
        raise NotFound(f"there is no generation {generation}; `consolidator generations` lists them")
    return found


async def listing(conn: Connection, limit: int) -> list[Row]:
    """Return generations, the latest first."""
    return await rows(conn, _SQL["listing"], {"limit": limit})


async def reached(conn: Connection, generation: int, session: str) -> int | None:
    """Return up to where a generation has read a session."""
    found = await row(conn, _SQL["reached"], {"generation": generation, "session": session})
    return None if found is None else int(found["upto"])


async def reach(conn: Connection, generation: int, session: str, *, after: int, before: int | None, upto: int) -> bool:
    """Say that a generation has read a session up to a seq; False where another run has moved that, or it is erased."""
    values = {"generation": generation, "session": session, "after": after, "before": before, "upto": upto}
    return await execute(conn, _SQL["reach"], values) == 1


async def promote(conn: Connection, generation: int, now: datetime) -> None:
    """Let a draft be believed in place of what was read before; raise UsageError where it is no draft."""
    await execute(conn, _SQL["lock"])
    await _is(conn, generation, "draft")
    await digests.lock_agents(conn, await agents(conn, generation))
    await turn_to(conn, generation)
    await execute(conn, _SQL["demote"], {"status": "former"})
    await execute(conn, _SQL["promote"], {"id": generation, "now": now})


async def agents(conn: Connection, generation: int) -> set[str]:
    """Return the agents whose sayings move where a generation is turned to, or back."""
    return {r["agent"] for r in await rows(conn, _SQL["agents"], {"id": generation})}


async def turn_to(conn: Connection, generation: int) -> None:
    """Let a generation's sayings count in place of those that were read before, where it has read.

    Whoever calls it holds their agents: a merge locks sayings one by one.
    """
    await execute(conn, _SQL["retire"], {"id": generation})
    await execute(conn, _SQL["activate"], {"id": generation})


async def restore(conn: Connection, *, since: datetime) -> int:
    """Undo the last promotion: its generation is a draft again; return which that is.

    Raises UsageError where nothing was promoted, or what it took the place of is past retention.
    """
    await execute(conn, _SQL["lock"])
    promoted = await current(conn)
    if promoted == 1:
        raise UsageError("no generation was promoted, so there is none to restore")
    if (await get(conn, promoted))["promoted_at"] < since:
        raise UsageError(f"what generation {promoted} took the place of is past retention and gone")
    await digests.lock_agents(conn, await agents(conn, promoted))
    await execute(conn, _SQL["deactivate"], {"id": promoted})
    await execute(conn, _SQL["bring_back"], {"id": promoted})
    former = await row(conn, _SQL["former"])
    await execute(conn, _SQL["demote"], {"status": "draft"})
    await execute(conn, _SQL["unpromote"], {"id": promoted})
    if former is not None:
        await execute(conn, _SQL["promote"], {"id": former["id"], "now": None})
    return promoted


async def discard(conn: Connection, generation: int) -> None:
    """Give a draft up, with all that it read; raise UsageError where it is no draft."""
    await execute(conn, _SQL["lock"])
    await _is(conn, generation, "draft")
    await execute(conn, _SQL["discard"], {"id": generation})


async def forget_outdated(conn: Connection, cutoff: datetime) -> int:
    """Delete what generations took the place of before a time; return how many sayings went."""
    return await execute(conn, _SQL["forget_outdated"], {"cutoff": cutoff})


async def _is(conn: Connection, generation: int, status: str) -> None:
    found = await get(conn, generation)
    if found["status"] != status:
        raise UsageError(f"generation {generation} is no {status}, it is {found['status']}")
