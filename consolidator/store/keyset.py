"""Reads a long list page by page: a page begins after the sort key of the last row, not after a count of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.errors import InvalidCursor
from consolidator.models.memory_filter import ALL_AGENTS, MemoryFilter, MemoryScope, Page
from consolidator.store.queries import fetch_all, fetch_column

T = TypeVar("T")
FEW = 1000  # rows with a text in them, up to which they are sorted; more of them are found soon in the list's order


@dataclass(frozen=True, slots=True)
class Select:
    """The rows of a table that conditions select: texts of ours, whose parameters are `values`."""

    table: str
    conditions: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    columns: str = ""  # all of the table, unless they are named
    joined: str = ""

    def where(self, *conditions: str, **values: Any) -> Select:
        """Return it with further conditions, and their parameters."""
        return replace(self, conditions=(*self.conditions, *conditions), values={**self.values, **values})

    def equal(self, filters: object, *names: str) -> Select:
        """Return the rows whose columns are what the filters of these names are, where they are set."""
        given = {name: value for name in names if (value := getattr(filters, name))}
        return self.where(*(f"{self.table}.{name} = %({name})s" for name in given), **given)

    def in_memories(self, scope: MemoryScope) -> Select:
        """Return what the memories hold that a question is about."""
        if scope.memories is None:
            return self
        names = {f"memory_{number}": memory for number, memory in enumerate(scope.memories)}
        owned = f"{self.table}.agent in ({', '.join(f'%({name})s' for name in names)})"
        shared = f"{self.table}.agent = '{ALL_AGENTS}' and coalesce({self.table}.project, '') = any(%(shared_in)s)"
        return self.where(f"({owned} or {shared})", **names, shared_in=list(scope.shared_in or ()))

    def containing(self, text: str, *columns: str) -> Select:
        """Return the rows one of whose columns has a text in it, in letters of any case."""
        pattern = re.sub(r"([%_/])", r"/\1", escape(text))
        conditions = " or ".join(f"{column} ilike %(pattern)s escape '/'" for column in columns)
        return self.where(f"({conditions})", pattern=f"%{pattern}%")

    def query(self, columns: str = "", order: str = "") -> str:
        """Return the text of the query; it ends with a `limit`."""
        text = f"select {columns or self.columns or self.table + '.*'} from {self.table} {self.joined}"
        text += f" where {' and '.join(self.conditions)}" if self.conditions else ""
        return text + (f" order by {order}" if order else "") + " limit %(limit)s"

    async def fetch(self, conn: Connection, row_type: type[T], order: str, limit: int) -> list[T]:
        """Return the first rows in an order."""
        return await fetch_all(conn, row_type, self.query(order=order), {**self.values, "limit": limit})


@dataclass(frozen=True, slots=True)
class SortKey(Generic[T]):
    """What a list is sorted by: some columns, the largest first, then the id."""

    columns: Sequence[str]
    id: str
    read: Callable[[T], Sequence[Any]]  # the columns' values of a row

    @property
    def order(self) -> str:
        """What ORDER BY takes."""
        return ", ".join([*(f"{column} desc" for column in self.columns), self.id])

    def after(self, statement: Select, values: Sequence[Any], last_id: str) -> Select:
        """Return the rows after one; the first of the conditions is what an index is asked for."""
        marks = {
            f"mark_{number}": datetime.fromisoformat(value) if isinstance(value, str) else value
            for number, value in enumerate(values)
        }
        place, mark = ", ".join(self.columns), ", ".join(f"%({name})s" for name in marks)
        conditions = f"({place}) <= ({mark})", f"(({place}) < ({mark}) or {self.id} > %(last_id)s)"
        return statement.where(*conditions, **marks, last_id=last_id)

    def position(self, row: T) -> list[Any]:
        """Return a row's place in the list, as JSON."""
        values = [value.isoformat() if isinstance(value, datetime) else value for value in self.read(row)]
        return [*values, row.id]  # type: ignore[attr-defined] # every row has one


async def fetch_page(
    conn: Connection,
    row_type: type[T],
    statement: Select,
    key: SortKey[T],
    *,
    parts: Sequence[str] = (),
    searched: str,
    filters: MemoryFilter,
) -> Page[T]:
    """Return a page of a list; `parts` divide it, and the rows of each come after those of the part before.

    Its query narrows it to the rows whose column `searched` holds the words, by the index; if no row does, to those
    that hold it as a substring. A position is [which of these two, the part, *the key, the id]. Raises InvalidCursor.
    """
    after, limit = filters.after, filters.limit
    ways = [statement] if not filters.query else _list_ways(statement, searched, filters.query)
    way, part, mark = 0, 0, None
    if after is not None:
        way, part, *mark = after
        if not (0 <= way < len(ways) and 0 <= part < max(len(parts), 1)):
            raise InvalidCursor("the cursor is of another list")
    for number in range(way, len(ways)):
        found = ways[number]
        if number > 0:  # by a substring, which no index finds
            ids = await fetch_column(conn, found.query(key.id), {**found.values, "limit": FEW})
            if not ids:
                break
            found = statement.where(f"{key.id} = any(%(few)s)", few=ids) if len(ids) < FEW else found
        selects = [found.where(condition) for condition in parts] or [found]
        rows: list[T] = []
        for place in range(part, len(selects)):
            select = selects[place]
            if mark is not None:
                select, mark = key.after(select, mark[:-1], mark[-1]), None
            rows_of_part = await select.fetch(conn, row_type, key.order, limit + 1 - len(rows))
            if len(rows) + len(rows_of_part) > limit:
                last_of_part = place if len(rows) < limit else place - 1
                page = [*rows, *rows_of_part][:limit]
                return Page(page, [number, last_of_part, *key.position(page[-1])] if page else None)
            rows += rows_of_part
        if rows or after is not None:
            return Page(rows)
    return Page()


def _list_ways(statement: Select, searched: str, query: str) -> list[Select]:
    """Return the ways to search, in turn."""
    words = f"to_tsvector('simple'::regconfig, {searched}) @@ plainto_tsquery('simple'::regconfig, %(query)s)"
    return [statement.where(words, query=escape(query)), statement.containing(query, searched)]
