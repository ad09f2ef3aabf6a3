"""The lists of memory: facts, procedures and solutions by filters and text, page by page.

A page begins after the sort key of the last row, not after a count of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Generic, LiteralString, TypeVar

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.errors import InvalidCursor
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter, Page, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.store.facts.visibility import MIN_PEOPLE, fact_condition
from consolidator.store.queries import RowsByFilter, fetch_all, fetch_column, load, row_values

_SQL = load("memory/listing", "memory/lookup")


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


_VERSIONED = {"value", "sentence", "valid_from", "valid_to", "superseded_at", "superseded_by", "superseded_reason"}
_THEN = "case when version.fact_id is null then f.{0} else version.{0} end as {0}"
_COLUMNS_THEN = ", ".join(
    _THEN.format(column.name) if column.name in _VERSIONED else f"f.{column.name}" for column in fields(FactRow)
)  # of a fact at a time: `fact_version` has some of them
FACT_POSITION = (str, int, int, int, int, str, str)  # the kinds of a position's values, as a cursor has them
PROCEDURE_POSITION = (int, int, bool, float, float, str)
SOLUTION_POSITION = (int, int, bool, int, int, str)
_FACTS = SortedList(
    FactRow,
    ("sessions", "steers_succeeded - steers_failed", "valid_from"),
    lambda row: (row.sessions, row.steers_succeeded - row.steers_failed, row.valid_from),
    searched="sentence",
)
_PROCEDURES = SortedList(
    ProcedureRow,
    ("coalesce((body -> 'success' ->> 'mean')::float >= %(min_success)s, true)", "worth", "rank"),
    lambda row: (not row.mostly_fails, row.worth, row.rank),
    searched="title",
)
_SOLUTIONS = SortedList(
    SolutionRow,
    ("confirmed", "sessions", "occurrences"),
    lambda row: (row.confirmed, row.sessions, row.occurrences),
    searched="search",
)
_list_rejected = RowsByFilter[CandidateRow, MemoryFilter](CandidateRow, _SQL["rejected"], "*")


async def list_facts(
    conn: Connection,
    filters: FactFilter,
    *,
    unused_since: datetime | None = None,
    visible_to: str | None = None,
    of_project: str | None = None,
) -> Page[FactRow]:
    """Return a page of facts, those that most sessions support first.

    Those not used since `unused_since` come after the others. `visible_to` selects what that person may see,
    `of_project` what rests on that project's sessions alone. A position is [`unused_since`, *what `fetch_page` says].
    Raises InvalidCursor.
    """
    after = filters.after
    if after is not None:  # what counts as unused stays the same from page to page
        unused_since = datetime.fromisoformat(after[0]) if after[0] else None
    values = {
        "unused": None,
        "unused_since": unused_since,
        "person": visible_to,
        "of_project": of_project,
        "min_people": MIN_PEOPLE,
    }
    visible = fact_condition("fact", of_person=visible_to is not None, of_project=of_project is not None)
    query = _SQL["facts"] if filters.as_of is None else _SQL["facts_then"].replace("{columns}", _COLUMNS_THEN)
    page = await fetch_page(
        conn,
        _FACTS,
        query.replace("{visible}", visible),
        replace(filters, after=None if after is None else after[1:]),
        values,
        parts=({},) if unused_since is None else ({"unused": False}, {"unused": True}),
    )
    if page.position is not None:
        page.position.insert(0, "" if unused_since is None else unused_since.isoformat())
    return page


async def list_rejected(conn: Connection, filters: MemoryFilter) -> list[CandidateRow]:
    """Return the candidates that may not become facts, the latest first."""
    return await _list_rejected(conn, filters, query=filters.query, limit=filters.limit)


async def list_procedures(conn: Connection, filters: ProcedureFilter) -> Page[ProcedureRow]:
    """Return a page of the procedures that are worth telling: the best first, what mostly fails last.

    Those of an agent as a whole belong to each of its projects. Without a peer, here and in the other lists, they are
    what all sessions taught: for the owner of the machine.
    """
    return await fetch_page(conn, _PROCEDURES, _SQL["procedures"], filters, {"min_success": MIN_SUCCESS})


async def list_solutions(conn: Connection, filters: SolutionFilter) -> Page[SolutionRow]:
    """Return a page of solutions: confirmed ones first, then those of errors that most sessions met."""
    return await fetch_page(conn, _SOLUTIONS, _SQL["solutions"], filters)
