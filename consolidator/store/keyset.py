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
from consolidator.store.queries import fetch_all, fetch_column, row_values

T = TypeVar("T")
FEW = 1000  # rows with a text in them, up to which they are sorted; more of them are found soon in the list's order


@dataclass(frozen=True, slots=True)
class SortedList(Generic[T]):
    """A list that is read page by page."""

    row_type: type[T]
    columns: Sequence[LiteralString]  # what it is sorted by, the largest first, then the id
    read: Callable[[T], Sequence[Any]]  # the columns' values of a row
    searched: LiteralString  # the column in which words are looked for

    @property
    def order(self) -> LiteralString:
        """What ORDER BY takes."""
        return ", ".join([*(f"{column} desc" for column in self.columns), "id"])

    @property
    def after(self) -> LiteralString:
        """The condition of the rows after the one at `mark`; its first half is what an index is asked for."""
        place = f"({', '.join(self.columns)})"
        mark = f"({', '.join(f'%(mark_{number})s' for number in range(len(self.columns)))})"
        return f"{place} <= {mark} and ({place} < {mark} or id > %(last_id)s)"

    def position(self, row: T) -> list[Any]:
        """Return a row's place in the list, as JSON."""
        values = [value.isoformat() if isinstance(value, datetime) else value for value in self.read(row)]
        return [*values, row.id]  # type: ignore[attr-defined] # every row has one


async def fetch_page(
    conn: Connection,
    listed: SortedList[T],
    query: LiteralString,
    filters: MemoryFilter,
    values: Mapping[str, Any] = {},
    *,
    parts: Sequence[Mapping[str, Any]] = ({},),
) -> Page[T]:
    """Return a page of a list; its query ends in conditions, and takes the filter's fields and further values.

    `parts` are values that divide it, and the rows of each part come after those of the part before. The filter's words
    narrow it to the rows whose column `searched` holds them, by the index; if no row does, to those that hold them as a
    substring. A position is [which of these two, the part, *the key, the id]. Raises InvalidCursor.
    """
    after, limit = filters.after, filters.limit

    ways = _list_ways(listed.searched) if filters.query else ["true"]
    way, part, mark = 0, 0, None
    if after is not None:
        way, part, *mark = after
        if not (0 <= way < len(ways) and 0 <= part < len(parts)):
            raise InvalidCursor("the cursor is of another list")

    values = {**row_values(filters), **filters.values(), "query": escape(filters.query or ""), **values}
    # Planned for these values, as it is not prepared: a filter that is left out costs nothing.
    for number in range(way, len(ways)):
        selected = f"{query} and {ways[number]}"

        if number > 0:  # by a substring, which no index finds
            few = f"select id from ({selected}) as listed limit {FEW}"
            ids = await fetch_column(conn, few, values, prepare=False)
            if not ids:
                break
            if len(ids) < FEW:
                selected, values = f"{query} and id = any(%(ids)s)", {**values, "ids": ids}

        rows: list[T] = []
        for place in range(part, len(parts)):
            of_page = {**values, **parts[place], "limit": limit + 1 - len(rows)}
            condition: LiteralString = "true"
            if mark is not None:
                condition, of_page, mark = listed.after, of_page | _mark_values(mark), None
            statement = f"{selected} and {condition} order by {listed.order} limit %(limit)s"
            rows_of_part = await fetch_all(conn, listed.row_type, statement, of_page, prepare=False)
            if len(rows) + len(rows_of_part) > limit:
                last_of_part = place if len(rows) < limit else place - 1
                page = [*rows, *rows_of_part][:limit]
                return Page(page, [number, last_of_part, *listed.position(page[-1])] if page else None)
            rows += rows_of_part
        if rows or after is not None:
            return Page(rows)
    return Page()


def _list_ways(searched: LiteralString) -> list[LiteralString]:
    """Return the conditions of the ways to search, in turn."""
    return [
        f"to_tsvector('simple', {searched}) @@ plainto_tsquery('simple', %(query)s)",
        f"strpos(lower({searched}), lower(%(query)s)) > 0",
    ]


def _mark_values(mark: Sequence[Any]) -> dict[str, Any]:
    *key, last_id = mark
    read = [datetime.fromisoformat(value) if isinstance(value, str) else value for value in key]
    return {"last_id": last_id, **{f"mark_{number}": value for number, value in enumerate(read)}}
