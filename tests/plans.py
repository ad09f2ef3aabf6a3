"""The plans of queries: how PostgreSQL reads each table, by which index."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from psycopg import AsyncClientCursor, AsyncCursor

from consolidator.database import Database
from consolidator.database.partitions import Connection

INDEXED = {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
Plan = list[dict[str, Any]]  # its nodes, from the top down


async def plan_of(conn: Connection, query: str, values: Mapping[str, Any], *, analyze: bool = False) -> Plan:
    """The nodes of a query's plan; with `analyze` it is run, and they tell what they came to."""
    cursor = AsyncClientCursor(conn)
    await cursor.execute(f"explain ({'analyze, ' * analyze}format json) {query}".encode(), values)
    row = await cursor.fetchone()
    assert row is not None
    lines = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(nodes(lines[0]["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes, from the top down."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def indexes(plan: Plan) -> set[str]:
    """The indexes that a plan uses."""
    return {node["Index Name"] for node in plan if "Index Name" in node}


def relations(plan: Plan) -> dict[str, str]:
    """How each relation is read: by an index of it, or as a whole."""
    return {node["Relation Name"]: node["Node Type"] for node in plan if "Relation Name" in node}


async def plans_of_action(database: Database, action: Callable[[], Awaitable[Any]]) -> dict[str, Plan]:
    """The plans of all that an action asks, by query, where an index is used wherever one can be."""
    asked: dict[str, Any] = {}
    execute = AsyncCursor.execute

    async def note(cursor: Any, query: Any, values: Any = None, **options: Any) -> Any:
        if isinstance(query, str) and not query.startswith("set "):
            asked[query] = values
        return await execute(cursor, query, values, **options)

    with patch.object(AsyncCursor, "execute", note):
        await action()
    async with database.connection() as conn, conn.transaction():
        await conn.execute("set local enable_seqscan = off")
        return {query: await plan_of(conn, query, values) for query, values in asked.items()}
