"""Runs the selects that people compose (listing by filters) on the driver connection everything else uses."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy.dialects.postgresql import psycopg as dialect
from sqlalchemy.sql import Select

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, fetch_all, rows

T = TypeVar("T")
_DIALECT = dialect.dialect()  # type: ignore[no-untyped-call]


async def fetch_selected(conn: Connection, row_type: type[T], query: Select[Any]) -> list[T]:
    """Return the rows of a select as instances of `row_type`."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return await fetch_all(conn, row_type, str(compiled), compiled.params)


async def fetch(conn: Connection, query: Select[Any]) -> list[Row]:
    """Return the rows of a select as dicts by column name."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return await rows(conn, str(compiled), compiled.params)
