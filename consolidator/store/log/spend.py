"""What model calls of sessions cost: set aside before, settled after, summed by whatever people ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consolidator.database import Connection
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("log/spend")


async def reserve(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Set money aside for a call; False where the cap would be passed, the session is another's, or is not there."""
    return await row(conn, _SQL["reserve"], values) is not None


async def refusal(conn: Connection, session: str) -> Row | None:
    """Return what a refused reserve met."""
    return await row(conn, _SQL["refusal"], {"session": session})


async def call(conn: Connection, call_id: str) -> Row | None:
    """Return a call's row."""
    return await row(conn, _SQL["call"], {"call": call_id})


async def settle_spend(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Put what a call took in the place of its reserve; False where that was done before."""
    return await execute(conn, _SQL["settle"], values) > 0


async def settle_open(conn: Connection, session: str, now: Any) -> int:
    """Settle every open call of a session at its reserve; return how many there were."""
    found = await row(conn, _SQL["settle_open"], {"session": session, "now": now})
    return int(found["calls"]) if found else 0


async def costs(conn: Connection, values: Mapping[str, Any]) -> list[Row]:
    """Return what calls cost, summed by what `values` name."""
    return await rows(conn, _SQL["costs"], values)
