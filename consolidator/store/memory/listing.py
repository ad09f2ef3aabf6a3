"""The lists of memory: facts, procedures and solutions by filters and text, page by page."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter, Page, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.store.facts.visibility import MIN_PEOPLE, fact_condition
from consolidator.store.keyset import SortedList, fetch_page
from consolidator.store.queries import RowsByFilter, load

_SQL = load("memory/listing", "memory/lookup")
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
