"""Runs selects that are composed from filters on the driver connection that all other queries use."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import and_, func, or_
from sqlalchemy.dialects.postgresql import psycopg as dialect
from sqlalchemy.sql import Select

from consolidator.database.partitions import Connection
from consolidator.models.memory_filter import ALL_AGENTS, MemoryScope
from consolidator.store.queries import fetch_all

T = TypeVar("T")
_DIALECT = dialect.dialect()  # type: ignore[no-untyped-call]


async def fetch_selected(conn: Connection, row_type: type[T], query: Select[Any]) -> list[T]:
    """Return the rows of a select as instances of `row_type`."""
    compiled = query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return await fetch_all(conn, row_type, str(compiled), compiled.params)


def in_memories(statement: Any, table: Any, scope: MemoryScope) -> Any:
    """Return a select of what the memories hold that a question is about."""
    if scope.memories is None:
        return statement
    is_shared = and_(table.agent == ALL_AGENTS, func.coalesce(table.project, "").in_(scope.shared_in or ()))
    return statement.where(or_(table.agent.in_(scope.memories), is_shared))
