"""Reads a long list page by page: a page begins after the sort key of the last row, not after a count of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, func, literal, literal_column, or_, tuple_
from sqlalchemy.dialects.postgresql import psycopg as dialect
from sqlalchemy.sql import Select

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.errors import InvalidCursor
from consolidator.models.memory_filter import ALL_AGENTS, MemoryFilter, MemoryScope, Page
from consolidator.store.queries import fetch_all

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


T = TypeVar("T")
Condition = ColumnElement[bool]
_SIMPLE: Any = literal_column("'simple'::regconfig")
FEW = 1000  # rows with a text in them, up to which they are sorted; more of them are found soon in the list's order


@dataclass(frozen=True, slots=True)
class SortKey(Generic[T]):
    """What a list is sorted by: some columns, the largest first, then the id."""

    columns: Sequence[Any]
    id: Any
    read: Callable[[T], Sequence[Any]]  # the columns' values of a row

    def order(self) -> list[Any]:
        """Return what ORDER BY takes."""
        return [*(column.desc() for column in self.columns), self.id]

    def after(self, values: Sequence[Any], last_id: str) -> list[Condition]:
        """Return the conditions of the rows after one; the first of them is what an index is asked for."""
        place = tuple_(*self.columns)
        mark = tuple_(
            *(
                literal(datetime.fromisoformat(value) if isinstance(value, str) else value, column.type)
                for column, value in zip(self.columns, values, strict=True)
            )
        )
        return [place <= mark, or_(place < mark, self.id > last_id)]

    def position(self, row: T) -> list[Any]:
        """Return a row's place in the list, as JSON."""
        values = [value.isoformat() if isinstance(value, datetime) else value for value in self.read(row)]
        return [*values, row.id]  # type: ignore[attr-defined] # every row has one


@dataclass(frozen=True, slots=True)
class _Id:
    id: str


async def fetch_page(
    conn: Connection,
    row_type: type[T],
    statement: Any,
    key: SortKey[T],
    *,
    parts: Sequence[Condition] = (),
    searched: Any,
    filters: MemoryFilter,
) -> Page[T]:
    """Return a page of a list; `parts` divide it, and the rows of each come after those of the part before.

    Its query narrows it to the rows whose column `searched` holds the words, by the index; if no row does, to those
    that hold it as a substring. A position is [which of these two, the part, *the key, the id]. Raises InvalidCursor.
    """
    after, limit = filters.after, filters.limit
    ways = _list_ways(searched, filters.query)
    selects = [statement.where(condition) for condition in parts] or [statement]
    way, part, mark = 0, 0, None
    if after is not None:
        way, part, *mark = after
        if not (0 <= way < len(ways) and 0 <= part < len(selects)):
            raise InvalidCursor("the cursor is of another list")
    for number in range(way, len(ways)):
        conditions = ways[number]
        if number > 0:  # by a substring, which no index finds
            ids = await _find_few(conn, statement.where(*conditions), key)
            if ids == []:
                break
            conditions = conditions if ids is None else [key.id.in_(ids)]
        rows: list[T] = []
        for place in range(part, len(selects)):
            select = selects[place].where(*conditions).order_by(*key.order()).limit(limit + 1 - len(rows))
            if mark is not None:
                select, mark = select.where(*key.after(mark[:-1], mark[-1])), None
            rows_of_part = await fetch_selected(conn, row_type, select)
            if len(rows) + len(rows_of_part) > limit:
                last_of_part = place if len(rows) < limit else place - 1
                page = [*rows, *rows_of_part][:limit]
                return Page(page, [number, last_of_part, *key.position(page[-1])] if page else None)
            rows += rows_of_part
        if rows or after is not None:
            return Page(rows)
    return Page()


async def _find_few(conn: Connection, statement: Any, key: SortKey[Any]) -> list[str] | None:
    """Return the ids of the rows that a select finds; None if they are more than a few."""
    ids = await fetch_selected(conn, _Id, statement.with_only_columns(key.id.label("id")).limit(FEW))
    return [row.id for row in ids] if len(ids) < FEW else None


def _list_ways(searched: Any, query: str | None) -> list[list[Condition]]:
    """Return the conditions of the ways to search, in turn."""
    if not query:
        return [[]]
    query = escape(query)
    words = func.to_tsvector(_SIMPLE, searched).op("@@")(func.plainto_tsquery(_SIMPLE, query))
    return [[words], [searched.icontains(query, autoescape=True)]]
