"""Runs selects that are composed from filters on the driver connection that all other queries use."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy.dialects.postgresql import psycopg as dialect
from sqlalchemy.sql import Select

from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_all

T = TypeVar("T")
_DIALECT = dialect.dialect()  # type: ignore[no-untyped-call]


async def fetch_selected(conn: Connection, row_type: type[T], query: Select[Any]) -> list[T]:
    """Return the rows of a select as instances of `row_type`."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return await fetch_all(conn, row_type, str(compiled), compiled.params)
