"""Databases of the tests' own: copied from a migrated one, and dropped whoever still uses them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo


@contextmanager
def copied(server_dsn: str, template: str) -> Iterator[str]:
    """Yield the address of a copy of `template`."""
    name = f"consolidator_test_{os.getpid()}_{os.urandom(4).hex()}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
