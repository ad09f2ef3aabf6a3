"""Sums over digests as they are kept between two nights, by scope, and the texts that name what they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, execute, load, row

_SQL = load("memory/sums")


async def _read(conn: Connection, query: LiteralString, values: Mapping[str, Any]) -> list[Row]:
    """Return rows, their bytes as they are sent; much cheaper than bytes as text."""
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(query, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, one, strict=True)) for one in await cursor.fetchall()]


async def news(conn: Connection, agent: str, *, every: bool = False) -> list[Row]:
    """Return and lock the digests that an agent's sums do not hold yet, or `every` one."""
    return await _read(conn, _SQL["news"], {"agent": agent, "every": every})


async def counted(conn: Connection, ids: Sequence[str]) -> list[Row]:
    """Return what an agent's sums hold of some digests."""
    return await _read(conn, _SQL["counted"], {"sessions": list(ids)}) if ids else []


async def placed(conn: Connection, agent: str) -> list[Row]:
    """Return the sequences of all digests of an agent, in order of session."""
    return await _read(conn, _SQL["placed"], {"agent": agent})


async def mark(conn: Connection, outcomes: Mapping[str, int]) -> None:
    """Say that the sums hold these digests as they are now."""
    values = {"sessions": list(outcomes), "outcomes": list(outcomes.values())}
    await execute(conn, _SQL["mark"], values)


async def ledger(conn: Connection, agent: str) -> Row | None:
    """Return of which sessions an agent's sums are, as one number, and by which version of us."""
    return await row(conn, _SQL["ledger"], {"agent": agent})


async def save_ledger(conn: Connection, agent: str, *, version: str, lineage: int) -> None:
    """Say of which sessions an agent's sums are."""
    await execute(conn, _SQL["save_ledger"], {"agent": agent, "version": version, "lineage": lineage})


async def forget(conn: Connection, agent: str) -> None:
    """Drop an agent's sums and names."""
    await execute(conn, _SQL["forget"], {"agent": agent})


async def sums(conn: Connection, agent: str, project: str) -> Row | None:
    """Return the packed sums of a scope; "" is all that the agent does."""
    found = await _read(conn, _SQL["sums"], {"agent": agent, "project": project})
    return found[0] if found else None


async def save_sums(conn: Connection, agent: str, project: str, packed: Mapping[str, bytes]) -> None:
    """Store the packed sums of a scope."""
    await execute(conn, _SQL["save_sums"], {"agent": agent, "project": project, **packed})


async def names(conn: Connection, agent: str) -> list[Row]:
    """Return the packed names of what an agent's sums count, in the parts in which they came."""
    return await _read(conn, _SQL["names"], {"agent": agent})


async def save_names(conn: Connection, agent: str, part: int, packed: Mapping[str, bytes]) -> None:
    """Add a part to an agent's names; part 0 takes the place of all."""
    if part == 0:
        await execute(conn, _SQL["forget_names"], {"agent": agent})
    await execute(conn, _SQL["save_names"], {"agent": agent, "part": part, **packed})
