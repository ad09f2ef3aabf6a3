"""What is new in memory since a moment: the answer to what the agents learned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, load, row, rows

_SQL = load("memory/learned")
KINDS = ("facts", "changed", "procedures", "solutions")


async def latest(conn: Connection) -> datetime | None:
    """Return when the latest night began that learned something."""
    found = await row(conn, _SQL["latest"])
    return found["since"] if found else None


async def learned(
    conn: Connection, since: datetime, *, agent: str | None = None, project: str | None = None, limit: int = 10
) -> dict[str, Any]:
    """Return what was learned since then: the nights' ledger, each kind's best with how many there are, and what waits.

    Of the ledger's `sessions`, one that several `nights` have read counts in each. The kinds are `facts`, `changed`
    (facts that took another's place, with `instead_of` and `before`), `procedures` and `solutions`; `more` says how
    many of each are left out.
    """
    values = {"since": since, "agent": agent or None, "project": project or None, "limit": limit}
    told: dict[str, Any] = {"since": since, **(await row(conn, _SQL["ledger"], values) or {})}
    more: dict[str, int] = {}
    for kind in KINDS:
        found = await rows(conn, _SQL[kind], values)
        more[kind] = found[0]["of_all"] - len(found) if found else 0
        told[kind] = [_without_count(one) for one in found]
    return {**told, "limit": limit, "more": more, "waiting": await row(conn, _SQL["waiting"])}


def _without_count(found: Row) -> Row:
    return {name: value for name, value in found.items() if name != "of_all"}
