"""The lists of memory: facts, procedures and solutions by filters and text, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, LiteralString, TypeVar

from consolidator.database.partitions import Connection
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter, Page, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.store.facts.visibility import MIN_PEOPLE, fact_condition
from consolidator.store.keyset import SortedList, fetch_page
from consolidator.store.queries import load

T = TypeVar("T")
_SQL = load("memory/listing")
FACT_POSITION = (str, int, int, int, int, str, str)  # the kinds of a position's values, as a cursor has them
PROCEDURE_POSITION = (int, int, bool, float, float, str)
SOLUTION_POSITION = (int, int, bool, int, int, str)
_FACTS = SortedList(
    FactRow,
    {"sessions": "bigint", "steers_succeeded - steers_failed": "integer", "valid_from": "timestamptz"},
    lambda row: (row.sessions, row.steers_succeeded - row.steers_failed, row.valid_from),
    searched="sentence",
)
_PROCEDURES = SortedList(
    ProcedureRow,
    {_SQL["works"]: "boolean", "worth": "double precision", "rank": "double precision"},
    lambda row: (not row.mostly_fails, row.worth, row.rank),
    searched="title",
)
_SOLUTIONS = SortedList(
    SolutionRow,
    {"confirmed": "boolean", "sessions": "bigint", "occurrences": "bigint"},
    lambda row: (row.confirmed, row.sessions, row.occurrences),
    searched="search",
)


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
    after, as_of, valid_at = filters.after, filters.as_of, filters.valid_at
    if after is not None:  # what counts as unused stays the same from page to page
        unused_since = datetime.fromisoformat(after[0]) if after[0] else None
    conditions: list[LiteralString] = []
    if as_of is not None:
        conditions.append(_SQL["believed_then"])
    if valid_at is not None:
        conditions.append(_SQL["true_then"])
    if not filters.include_superseded and as_of is None and valid_at is None:
        conditions.append("superseded_at is null")
    if filters.memories is not None:
        conditions.append(_SQL["in_memories"])
    equal: tuple[LiteralString, ...] = ("project", "peer", "kind", "trust")
    conditions += [f"{name} = %({name})s" for name in equal if getattr(filters, name)]
    if filters.flagged:
        conditions.append("flagged is not null")
    conditions.append(fact_condition("fact", of_person=visible_to is not None, of_project=of_project is not None))
    page = await fetch_page(
        conn,
        _FACTS,
        _SQL["facts" if as_of is None else "facts_as_of"],
        conditions,
        {
            **filters.values(),
            "kind": filters.kind,
            "trust": filters.trust,
            "as_of": as_of,
            "valid_at": valid_at,
            "unused_since": unused_since,
            "person": visible_to,
            "min_people": MIN_PEOPLE,
            "of_project": of_project,
        },
        parts=() if unused_since is None else (f"not ({_SQL['unused']})", _SQL["unused"]),
        filters=replace(filters, after=None if after is None else after[1:]),
    )
    if page.position is not None:
        page.position.insert(0, "" if unused_since is None else unused_since.isoformat())
    return page


async def list_procedures(conn: Connection, filters: ProcedureFilter) -> Page[ProcedureRow]:
    """Return a page of the procedures that are worth telling: the best first, what mostly fails last.

    Those of an agent as a whole belong to each of its projects. Without a peer, here and in the other lists, they are
    what all sessions taught: for the owner of the machine.
    """
    narrowed: list[LiteralString] = [] if filters.include_unworthy else ["worth > 0"]
    return await _fetch_scope(conn, _PROCEDURES, _SQL["procedures"], narrowed, filters)


async def list_solutions(conn: Connection, filters: SolutionFilter) -> Page[SolutionRow]:
    """Return a page of solutions: confirmed ones first, then those of errors that most sessions met."""
    narrowed = [] if filters.include_unsolved else [_SQL["has_fixes"]]
    return await _fetch_scope(conn, _SOLUTIONS, _SQL["solutions"], narrowed, filters)


async def _fetch_scope(
    conn: Connection,
    listed: SortedList[T],
    select: LiteralString,
    narrowed: Sequence[LiteralString],
    filters: MemoryFilter,
) -> Page[T]:
    """Return a page of what was learned from calls, as far as a question's scope may see it."""
    conditions = [*narrowed, _SQL["for_audiences"]]
    if filters.memories is not None:
        conditions.append(_SQL["in_memories"])
    if filters.project_alone:
        conditions.append("project = %(project)s")
    elif filters.project:
        conditions.append("(project is null or project = %(project)s)")
    values: dict[str, Any] = {**filters.values(), "min_success": MIN_SUCCESS}
    return await fetch_page(conn, listed, select, conditions, values, filters=filters)
