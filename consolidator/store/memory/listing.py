"""The lists of memory: facts, procedures and solutions by filters and text, page by page."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, case, column, func, not_, table, text, true
from sqlmodel import and_, col, or_, select

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.models.audience import ALL, audiences_for
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.memory_filter import (
    FactFilter,
    MemoryFilter,
    MemoryScope,
    Page,
    ProcedureFilter,
    SolutionFilter,
)
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.models.table import table_of
from consolidator.store.facts.visibility import MIN_PEOPLE
from consolidator.store.keyset import SortKey, fetch_page, fetch_selected, in_memories
from consolidator.store.queries import load

CandidateTable = table_of("candidate", CandidateRow)
FactTable = table_of("fact", FactRow)
ProcedureTable = table_of("procedure", ProcedureRow)
SolutionTable = table_of("solution", SolutionRow)
_VISIBILITY = load("facts/visibility")
_PARAMETER = re.compile(r"%\((\w+)\)s")
_VERSIONED = (
    "value",
    "sentence",
    "valid_from",
    "valid_to",
    "superseded_at",
    "superseded_by",
    "superseded_reason",
)  # the columns of a fact that `fact_version` keeps
FACT_POSITION = (str, int, int, int, int, str, str)  # the kinds of a position's values, as a cursor has them
PROCEDURE_POSITION = (int, int, bool, float, float, str)
SOLUTION_POSITION = (int, int, bool, int, int, str)
_WORKS = func.coalesce(col(ProcedureTable.body)["success"]["mean"].as_float() >= MIN_SUCCESS, True)


def _is_unused(since: datetime) -> Any:
    """Return the condition that nobody has said or recalled a fact since a time, and memory knew it before."""
    latest = col(FactTable.evidence)[func.cardinality(col(FactTable.evidence))]
    of_latest = col(CandidateTable.id) == latest
    said_at = select(col(CandidateTable.occurred_at)).where(of_latest).scalar_subquery()  # by the key, for each fact
    return and_(
        col(FactTable.trust) != "person",
        col(FactTable.recorded_at) < since,
        func.coalesce(col(FactTable.last_recalled_at), col(FactTable.recorded_at)) < since,
        func.coalesce(said_at < since, True),
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
    statement, columns_as_of = _select_facts(as_of)
    superseded_at, valid_to = columns_as_of["superseded_at"], columns_as_of["valid_to"]

    if as_of is not None:  # what was recorded by then; `valid_at` asks what held then, which may be learned late
        statement = statement.where(
            col(FactTable.recorded_at) <= as_of, or_(superseded_at.is_(None), superseded_at > as_of)
        )
    if valid_at is not None:
        tombstones: Any = table("tombstone", column("fact_id"))
        forgotten = select(tombstones.c.fact_id)
        statement = statement.where(
            columns_as_of["valid_from"] <= valid_at, or_(valid_to.is_(None), valid_to > valid_at)
        )
        statement = statement.where(col(FactTable.id).not_in(forgotten))
        # A fact that was merged into another one, or that another revision reads otherwise, is not known now.
        statement = statement.where(or_(superseded_at.is_(None), valid_to.is_not(None)))
        statement = statement.where(columns_as_of["superseded_reason"].is_distinct_from("revision"))
    if not filters.include_superseded and as_of is None and valid_at is None:
        statement = statement.where(superseded_at.is_(None))
    statement = in_memories(statement, FactTable, filters)
    for name in ("project", "peer", "kind", "trust"):
        if value := getattr(filters, name):
            statement = statement.where(col(getattr(FactTable, name)) == value)
    if filters.flagged:
        statement = statement.where(col(FactTable.flagged).is_not(None))
    for condition in _fact_conditions(peer=visible_to, project=of_project):
        statement = statement.where(condition)

    is_unused = None if unused_since is None else _is_unused(unused_since)
    page = await fetch_page(
        conn,
        FactRow,
        statement,
        SortKey(
            (
                col(FactTable.sessions),
                col(FactTable.steers_succeeded) - col(FactTable.steers_failed),
                columns_as_of["valid_from"],
            ),
            col(FactTable.id),
            lambda row: (row.sessions, row.steers_succeeded - row.steers_failed, row.valid_from),
        ),
        parts=() if is_unused is None else (not_(is_unused), is_unused),
        searched=columns_as_of["sentence"],
        filters=replace(filters, after=None if after is None else after[1:]),
    )
    if page.position is not None:
        page.position.insert(0, "" if unused_since is None else unused_since.isoformat())
    return page


def _fact_conditions(*, peer: str | None, project: str | None) -> list[TextClause]:
    """Return the conditions, for a select from `fact`, that this person may see it and that it is of this project."""
    conditions = []
    if peer is not None:
        conditions.append(_condition("person_facts", peer=peer, min_people=MIN_PEOPLE))
    if project is not None:
        conditions.append(_condition("project_facts", project=project))
    return conditions


def _condition(query: str, **values: Any) -> TextClause:
    named = _PARAMETER.sub(r":\1", _VISIBILITY[query])
    renamed = {name: f"{query}_{name}" for name in values}
    for name, parameter in renamed.items():
        named = named.replace(f":{name}", f":{parameter}")
    return text(f"exists ({named} and f.id = fact.id)").bindparams(
        **{renamed[name]: value for name, value in values.items()}
    )


def _select_facts(as_of: datetime | None) -> tuple[Any, dict[str, Any]]:
    """Return a select of facts as they were at a time (None: now), and the expressions of its versioned columns."""
    current_columns = {name: col(getattr(FactTable, name)) for name in _VERSIONED}
    if as_of is None:
        return select(FactTable), current_columns
    versions: Any = table("fact_version", column("fact_id"), column("until"), *map(column, _VERSIONED))
    of_fact = select(versions).where(versions.c.fact_id == col(FactTable.id), versions.c.until > as_of)
    version = of_fact.order_by(versions.c.until).limit(1).lateral("version")
    columns_as_of = {
        name: case((version.c.fact_id.is_not(None), version.c[name]), else_=current_columns[name])
        for name in _VERSIONED
    }
    columns = [
        columns_as_of[field.name].label(field.name)
        if field.name in columns_as_of
        else col(getattr(FactTable, field.name))
        for field in fields(FactRow)
    ]
    statement: Any = select(*columns).select_from(FactTable)
    return statement.outerjoin(version, true()), columns_as_of


async def list_rejected(conn: Connection, filters: MemoryFilter) -> list[CandidateRow]:
    """Return the candidates that may not become facts, the latest first."""
    statement = select(CandidateTable).where(col(CandidateTable.rejected).is_not(None))
    statement = statement.order_by(col(CandidateTable.occurred_at).desc(), col(CandidateTable.id))
    if filters.query:
        query = escape(filters.query)
        texts = (col(CandidateTable.sentence), col(CandidateTable.quote))
        statement = statement.where(or_(*(column.icontains(query, autoescape=True) for column in texts)))
    statement = in_memories(statement, CandidateTable, filters)
    for name in ("project", "peer"):
        if value := getattr(filters, name):
            statement = statement.where(col(getattr(CandidateTable, name)) == value)
    return await fetch_selected(conn, CandidateRow, statement.limit(filters.limit))


async def list_procedures(conn: Connection, filters: ProcedureFilter) -> Page[ProcedureRow]:
    """Return a page of the procedures that are worth telling: the best first, what mostly fails last.

    Those of an agent as a whole belong to each of its projects. Without a peer, here and in the other lists, they are
    what all sessions taught: for the owner of the machine.
    """
    statement: Any = select(ProcedureTable).where(col(ProcedureTable.retired_at).is_(None))
    if not filters.include_unworthy:
        statement = statement.where(col(ProcedureTable.worth) > 0)
    return await fetch_page(
        conn,
        ProcedureRow,
        _in_scope(statement, ProcedureTable, filters),
        SortKey(
            (_WORKS, col(ProcedureTable.worth), col(ProcedureTable.rank)),
            col(ProcedureTable.id),
            lambda row: (not row.mostly_fails, row.worth, row.rank),
        ),
        searched=col(ProcedureTable.title),
        filters=filters,
    )


async def list_solutions(conn: Connection, filters: SolutionFilter) -> Page[SolutionRow]:
    """Return a page of solutions: confirmed ones first, then those of errors that most sessions met."""
    statement: Any = select(SolutionTable).where(col(SolutionTable.retired_at).is_(None))
    if not filters.include_unsolved:
        body, length = col(SolutionTable.body), func.jsonb_array_length
        statement = statement.where(or_(length(body["fixes"]) > 0, length(body["withheld"]) > 0))
    return await fetch_page(
        conn,
        SolutionRow,
        _in_scope(statement, SolutionTable, filters),
        SortKey(
            (col(SolutionTable.confirmed), col(SolutionTable.sessions), col(SolutionTable.occurrences)),
            col(SolutionTable.id),
            lambda row: (row.confirmed, row.sessions, row.occurrences),
        ),
        searched=col(SolutionTable.search),
        filters=filters,
    )


def _in_scope(statement: Any, table: Any, scope: MemoryScope) -> Any:
    audiences = audiences_for(scope.peer)
    audience = col(table.audience)
    statement = statement.where(audience.startswith(ALL) if audiences is None else audience.in_(audiences))
    statement = in_memories(statement, table, scope)
    if scope.project_alone:
        return statement.where(table.project == scope.project)
    if scope.project:
        statement = statement.where(or_(table.project.is_(None), table.project == scope.project))
    return statement
