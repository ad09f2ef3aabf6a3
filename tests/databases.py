"""Databases for tests: copied from a migrated template, dropped even if somebody still uses them, and read as dicts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from consolidator.database import Connection

Row = dict[str, Any]


@contextmanager
def database_copy(server_dsn: str, template: str) -> Iterator[str]:
    """Yield the address of a copy of `template`."""
    name = f"consolidator_test_{os.getpid()}_{os.urandom(4).hex()}"
    # A copy of files takes a third of the processor time of the default strategy, which logs each of their pages.
    query = sql.SQL("create database {} template {} strategy file_copy")
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(query.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


async def fetch_dicts(conn: Connection, query: LiteralString, values: Mapping[str, Any] | None = None) -> list[Row]:
    """Run a query and return its rows as dicts by column."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
