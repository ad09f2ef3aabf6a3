"""Loads the named queries of the .sql files beside the modules that run them, and fetches rows as dicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

from psycopg.rows import dict_row

from consolidator.database.partitions import Driver

Row = dict[str, Any]
_INCLUDE = re.compile(r"^ *-- include: (\w+)\s*$", re.MULTILINE)
_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(name: str) -> dict[str, LiteralString]:
    """Return the queries of store/<name>.sql by their names; one may include another that stands before it."""
    text = (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    queries: dict[str, LiteralString] = {}
    for key, body in zip(parts[1::2], parts[2::2], strict=True):
        queries[key] = _INCLUDE.sub(lambda found: queries[found[1]], body.strip())
    return queries


async def rows(conn: Driver, query: LiteralString, values: Mapping[str, Any] | None = None) -> list[Row]:
    """Run a query and return all its rows."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


async def row(conn: Driver, query: LiteralString, values: Mapping[str, Any] | None = None) -> Row | None:
    """Run a query and return its first row, if there is one."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchone()


async def run_each(conn: Driver, query: LiteralString, values: Sequence[Mapping[str, Any]]) -> int:
    """Run a statement for each of several values in one round trip; return how many rows all of them touched."""
    if not values:
        return 0
    async with conn.cursor() as cursor:
        await cursor.executemany(query, values)
        return cursor.rowcount


async def rows_each(conn: Driver, query: LiteralString, values: Sequence[Mapping[str, Any]]) -> list[list[Row]]:
    """Run a query for each of several values in one round trip; return the rows of each."""
    if not values:
        return []
    found: list[list[Row]] = []
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.executemany(query, values, returning=True)
        async for result in cursor.results():
            found.append(await result.fetchall())
    return found


async def run(conn: Driver, query: LiteralString, values: Mapping[str, Any] | None = None) -> int:
    """Run a statement and return how many rows it touched."""
    cursor = await conn.execute(query, values)
    return cursor.rowcount
