"""Reads a long list page by page: a page begins after the sort key of the last row, not after a count of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, LiteralString, TypeVar

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.errors import InvalidCursor
from consolidator.models.memory_filter import MemoryFilter, Page
from consolidator.store.queries import fetch_all, like_pattern

T = TypeVar("T")
FEW = 1000  # rows with a text in them, up to which they are sorted; more of them are found soon in the list's order


@dataclass(frozen=True, slots=True)
class SortedList(Generic[T]):
    """What a list is sorted by: some columns, the largest first, then the id; and in which column words are sought."""

    row_type: type[T]
    columns: Mapping[LiteralString, LiteralString]  # the type of each, by what it is in SQL
    read: Callable[[T], Sequence[Any]]  # the columns' values of a row
    searched: LiteralString

    @property
    def order(self) -> LiteralString:
        """What `order by` takes."""
        return ", ".join([*(f"{column} desc" for column in self.columns), "id"])

    @property
    def after(self) -> LiteralString:
        """The condition of the rows after one; the first part of it is what an index is asked for."""
        place = ", ".join(self.columns)
        mark = ", ".join(f"%(mark_{number})s::{kind}" for number, kind in enumerate(self.columns.values()))
        return f"({place}) <= ({mark}) and (({place}) < ({mark}) or id > %(last_id)s)"

    def position(self, row: T) -> list[Any]:
        """Return a row's place in the list, as JSON."""
        values = [value.isoformat() if isinstance(value, datetime) else value for value in self.read(row)]
        return [*values, row.id]  # type: ignore[attr-defined] # every row has one


@dataclass(frozen=True, slots=True)
class _Id:
    id: str


async def fetch_page(
    conn: Connection,
    listed: SortedList[T],
    select: LiteralString,
    conditions: Sequence[LiteralString],
    values: Mapping[str, Any],
    *,
    parts: Sequence[LiteralString] = (),
    filters: MemoryFilter,
) -> Page[T]:
    """Return a page of a list; `parts` divide it, and the rows of each come after those of the part before.

    `select` ends with a condition, to which the others are added. Its query narrows it to the rows whose column
    `searched` holds the words, by the index; if no row does, to those that hold it as a substring. A position is [which
    of these two, the part, *the key, the id]. Raises InvalidCursor.
    """
    after, limit, values = filters.after, filters.limit, dict(values)
    select = " and ".join([select, *conditions])
    ways: list[LiteralString] = ["true"]
    if filters.query:
        values |= {"words": escape(filters.query), "pattern": like_pattern(filters.query)}
        words: LiteralString = f"to_tsvector('simple', {listed.searched}) @@ plainto_tsquery('simple', %(words)s)"
        ways = [words, f"lower({listed.searched}) like lower(%(pattern)s)"]
    way, part, mark = 0, 0, None
    if after is not None:
        way, part, *mark = after
        if not (0 <= way < len(ways) and 0 <= part < len(parts or ways[:1])):
            raise InvalidCursor("the cursor is of another list")
        values |= {f"mark_{number}": _read_mark(value) for number, value in enumerate(mark[:-1])} | {
            "last_id": mark[-1]
        }
    for number in range(way, len(ways)):
        condition = ways[number]
        if number > 0:  # by a substring, which no index finds
            found = f"select id from ({select} and {condition} limit {FEW}) as few"
            ids = [row.id for row in await fetch_all(conn, _Id, found, values)]
            if not ids:
                break
            if len(ids) < FEW:
                condition, values["ids"] = "id = any(%(ids)s)", ids
        rows: list[T] = []
        for place in range(part, len(parts) or 1):
            of_part = [select, condition, *parts[place : place + 1], *([listed.after] if mark is not None else [])]
            mark, values["most"] = None, limit + 1 - len(rows)
            query = f"{' and '.join(of_part)} order by {listed.order} limit %(most)s"
            rows_of_part = await fetch_all(conn, listed.row_type, query, values)
            if len(rows) + len(rows_of_part) > limit:
                last_of_part = place if len(rows) < limit else place - 1
                page = [*rows, *rows_of_part][:limit]
                return Page(page, [number, last_of_part, *listed.position(page[-1])] if page else None)
            rows += rows_of_part
        if rows or after is not None:
            return Page(rows)
    return Page()


def _read_mark(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
