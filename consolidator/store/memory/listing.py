"""The lists of memory: facts, procedures and solutions by filters and text, page by page."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.audience import ALL, audiences_for
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import FactFilter, MemoryScope, Page, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.store.facts.visibility import MIN_PEOPLE, fact_condition
from consolidator.store.keyset import Select, SortKey, fetch_page

# The columns of a fact that `fact_version` keeps.
_VERSIONED = "value, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason"
FACT_POSITION = (str, int, int, int, int, str, str)  # the kinds of a position's values, as a cursor has them
PROCEDURE_POSITION = (int, int, bool, float, float, str)
SOLUTION_POSITION = (int, int, bool, int, int, str)
_WORKS = f"coalesce((procedure.body #>> '{{success,mean}}')::float >= {MIN_SUCCESS}, true)"
# Nobody has said or recalled a fact since a time, and memory knew it before; its latest evidence is found by the key.
_IS_UNUSED = """
    (fact.trust <> 'person' and fact.recorded_at < %(unused_since)s
     and coalesce(fact.last_recalled_at, fact.recorded_at) < %(unused_since)s
     and coalesce((select occurred_at from candidate
                   where candidate.id = fact.evidence[cardinality(fact.evidence)]) < %(unused_since)s, true))
"""


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
    statement, at = _select_facts(as_of)
    if as_of is not None:
        is_believed = f"({at['superseded_at']} is null or {at['superseded_at']} > %(as_of)s)"
        statement = statement.where("fact.recorded_at <= %(as_of)s", is_believed)
    if valid_at is not None:
        statement = statement.where(
            f"{at['valid_from']} <= %(valid_at)s",
            f"({at['valid_to']} is null or {at['valid_to']} > %(valid_at)s)",
            "fact.id not in (select fact_id from tombstone)",
            # A fact that was merged into another one, or that another revision reads otherwise, is not known now.
            f"({at['superseded_at']} is null or {at['valid_to']} is not null)",
            f"{at['superseded_reason']} is distinct from 'revision'",
            valid_at=valid_at,
        )
    if not filters.include_superseded and as_of is None and valid_at is None:
        statement = statement.where("fact.superseded_at is null")
    statement = statement.in_memories(filters).equal(filters, "project", "peer", "kind", "trust")
    if filters.flagged:
        statement = statement.where("fact.flagged is not null")
    if visible_to is not None or of_project is not None:
        visible = fact_condition("fact", of_person=visible_to is not None, of_project=of_project is not None)
        statement = statement.where(visible, person=visible_to, min_people=MIN_PEOPLE, of_project=of_project)
    if unused_since is not None:
        statement = statement.where(unused_since=unused_since)
    page = await fetch_page(
        conn,
        FactRow,
        statement,
        SortKey(
            ("fact.sessions", "fact.steers_succeeded - fact.steers_failed", at["valid_from"]),
            "fact.id",
            lambda row: (row.sessions, row.steers_succeeded - row.steers_failed, row.valid_from),
        ),
        parts=() if unused_since is None else (f"not {_IS_UNUSED}", _IS_UNUSED),
        searched=at["sentence"],
        filters=replace(filters, after=None if after is None else after[1:]),
    )
    if page.position is not None:
        page.position.insert(0, "" if unused_since is None else unused_since.isoformat())
    return page


def _select_facts(as_of: datetime | None) -> tuple[Select, dict[str, str]]:
    """Return a select of facts as they were at a time (None: now), and the expressions of its versioned columns."""
    versioned = _VERSIONED.split(", ")
    if as_of is None:
        return Select("fact"), {name: f"fact.{name}" for name in versioned}
    was = {n: f"case when version.fact_id is not null then version.{n} else fact.{n} end" for n in versioned}
    columns = (f"{was.get(column.name, f'fact.{column.name}')} as {column.name}" for column in fields(FactRow))
    version = f"""left join lateral (
        select fact_id, {_VERSIONED} from fact_version
        where fact_id = fact.id and until > %(as_of)s order by until limit 1
    ) as version on true"""
    return Select("fact", (), {"as_of": as_of}, ", ".join(columns), version), was


async def list_procedures(conn: Connection, filters: ProcedureFilter) -> Page[ProcedureRow]:
    """Return a page of the procedures that are worth telling: the best first, what mostly fails last.

    Those of an agent as a whole belong to each of its projects. Without a peer, here and in the other lists, they are
    what all sessions taught: for the owner of the machine.
    """
    worth = () if filters.include_unworthy else ("procedure.worth > 0",)
    return await fetch_page(
        conn,
        ProcedureRow,
        _in_scope(Select("procedure", ("procedure.retired_at is null", *worth)), filters),
        SortKey(
            (_WORKS, "procedure.worth", "procedure.rank"),
            "procedure.id",
            lambda row: (not row.mostly_fails, row.worth, row.rank),
        ),
        searched="procedure.title",
        filters=filters,
    )


async def list_solutions(conn: Connection, filters: SolutionFilter) -> Page[SolutionRow]:
    """Return a page of solutions: confirmed ones first, then those of errors that most sessions met."""
    statement = Select("solution", ("solution.retired_at is null",))
    if not filters.include_unsolved:
        lengths = (f"jsonb_array_length(solution.body -> '{name}') > 0" for name in ("fixes", "withheld"))
        statement = statement.where(f"({' or '.join(lengths)})")
    return await fetch_page(
        conn,
        SolutionRow,
        _in_scope(statement, filters),
        SortKey(
            ("solution.confirmed", "solution.sessions", "solution.occurrences"),
            "solution.id",
            lambda row: (row.confirmed, row.sessions, row.occurrences),
        ),
        searched="solution.search",
        filters=filters,
    )


def _in_scope(statement: Select, scope: MemoryScope) -> Select:
    table, audiences = statement.table, audiences_for(scope.peer)
    audience = (
        f"starts_with({table}.audience, '{ALL}')" if audiences is None else f"{table}.audience = any(%(audiences)s)"
    )
    statement = statement.where(audience, audiences=audiences).in_memories(scope)
    if scope.project_alone:
        return statement.where(f"{table}.project = %(project)s", project=scope.project)
    if scope.project:
        return statement.where(f"({table}.project is null or {table}.project = %(project)s)", project=scope.project)
    return statement
