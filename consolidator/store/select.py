"""Runs the selects that people compose (listing by filters) on the driver connection everything else uses."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.postgresql import psycopg as dialect
from sqlalchemy.sql import Select

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, rows

_DIALECT = dialect.dialect()  # type: ignore[no-untyped-call]


async def fetch(conn: Connection, query: Select[Any]) -> list[Row]:
    """Return the rows of a select as dicts by column name."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return await rows(conn, str(compiled), compiled.params)
