"""Reading memory: facts, procedures and solutions by filters and text, and what an explanation needs of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import case, exists, func, literal_column, not_
from sqlmodel import and_, col, or_, select

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.models.audience import ALL, audiences_for
from consolidator.models.fact import (
    CandidateRow,
    CandidateTable,
    CitedCandidateRow,
    FactRow,
    FactTable,
    FactVersionTable,
    TombstoneTable,
)
from consolidator.models.procedure import ProcedureRow, ProcedureTable, ToolProfileRow
from consolidator.models.solution import SolutionRow, SolutionTable
from consolidator.store.memory.visibility import fact_conditions
from consolidator.store.queries import fetch_all, fetch_one, load
from consolidator.store.select import fetch_selected

T = TypeVar("T")
_SQL = load("memory/lookup")
MAX_FITTING_SOLUTIONS = 40  # solutions that may fit a request
_VERSIONED = (
    "value",
    "sentence",
    "valid_from",
    "valid_to",
    "superseded_at",
    "superseded_by",
    "superseded_reason",
)  # the columns of a fact that `fact_version` keeps
_MAX_ID_LENGTH = 32  # characters
_SIMPLE: Any = literal_column("'simple'::regconfig")


@dataclass(frozen=True, slots=True)
class RejectionCountRow:
    """How many candidates were rejected for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class NamedRow:
    """Something that has an id, and what names it to a person."""

    kind: str  # fact, procedure, solution, candidate, run or dead_letter
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class SessionOriginRow:
    """A session as evidence names it."""

    id: str
    origin: str | None  # "format:name" if it was imported
    pruned_to: int  # every event up to here is gone


@dataclass(frozen=True, slots=True)
class FittingProcedureRow:
    """A procedure that may fit a request."""

    id: str
    title: str
    worth: float
    goals: list[str]  # what people had asked for when its steps were taken
    purpose: list[str]  # words that the goals of its sessions have more often than others


def _matches_words(column: Any, query: str) -> Any:
    """Return the condition that a text holds the words of a query."""
    return func.to_tsvector(_SIMPLE, column).op("@@")(func.plainto_tsquery(_SIMPLE, query))


async def _search(
    conn: Connection, row_type: type[T], statement: Any, column: Any, query: str | None, limit: int
) -> list[T]:
    """Return the rows that hold the words of a query, by the index; if none does, those that hold it as a substring."""
    statement = statement.limit(limit)
    if not query:
        return await fetch_selected(conn, row_type, statement)
    query = escape(query)
    exact = await fetch_selected(conn, row_type, statement.where(_matches_words(column, query)))
    return exact or await fetch_selected(conn, row_type, statement.where(column.icontains(query, autoescape=True)))


def _is_unused(since: datetime) -> Any:
    """Return the condition that nobody has said or recalled a fact since a time, and memory knew it before."""
    latest = col(FactTable.evidence)[func.cardinality(col(FactTable.evidence))]
    was_said = exists().where(col(CandidateTable.id) == latest, col(CandidateTable.occurred_at) >= since)
    return and_(
        col(FactTable.trust) != "person",
        col(FactTable.recorded_at) < since,
        func.coalesce(col(FactTable.last_recalled_at), col(FactTable.recorded_at)) < since,
        not_(was_said),
    )


async def list_facts(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    kind: str | None = None,
    trust: str | None = None,
    superseded_too: bool = False,
    flagged: bool = False,
    as_of: datetime | None = None,
    valid_at: datetime | None = None,
    unused_since: datetime | None = None,
    visible_to: str | None = None,
    of_project: str | None = None,
    limit: int = 50,
) -> list[FactRow]:
    """Return facts, those that most sessions support first; those not used since `unused_since` come after the others.

    `as_of` selects what was believed at a time, in the words it had then. `valid_at` selects what was true at a time,
    by what is known now (or at `as_of`). `flagged` selects facts that were kept beside similar ones because neither
    code nor model could decide. `visible_to` selects what that person may see, `of_project` what rests on that
    project's sessions alone.
    """
    statement, columns_as_of = _select_facts(as_of)
    statement = statement.order_by(
        *([] if unused_since is None else [_is_unused(unused_since)]),
        col(FactTable.sessions).desc(),
        (col(FactTable.steers_succeeded) - col(FactTable.steers_failed)).desc(),
        columns_as_of["valid_from"].desc(),
        col(FactTable.id),
    )
    superseded_at, valid_to = columns_as_of["superseded_at"], columns_as_of["valid_to"]
    if as_of is not None:
        statement = statement.where(
            col(FactTable.recorded_at) <= as_of, or_(superseded_at.is_(None), superseded_at > as_of)
        )
    if valid_at is not None:
        forgotten = select(col(TombstoneTable.fact_id))
        statement = statement.where(
            columns_as_of["valid_from"] <= valid_at, or_(valid_to.is_(None), valid_to > valid_at)
        )
        statement = statement.where(col(FactTable.id).not_in(forgotten))
        # A fact that was merged into another one, or that another revision reads otherwise, is not known now.
        statement = statement.where(or_(superseded_at.is_(None), valid_to.is_not(None)))
        statement = statement.where(columns_as_of["superseded_reason"].is_distinct_from("revision"))
    if not superseded_too and as_of is None and valid_at is None:
        statement = statement.where(superseded_at.is_(None))
    if agent:
        statement = statement.where(FactTable.agent == agent)
    if project:
        statement = statement.where(FactTable.project == project)
    if peer:
        statement = statement.where(FactTable.peer == peer)
    if kind:
        statement = statement.where(FactTable.kind == kind)
    if trust:
        statement = statement.where(FactTable.trust == trust)
    if flagged:
        statement = statement.where(col(FactTable.flagged).is_not(None))
    for condition in fact_conditions(peer=visible_to, project=of_project):
        statement = statement.where(condition)
    return await _search(conn, FactRow, statement, columns_as_of["sentence"], query, limit)


def _select_facts(as_of: datetime | None) -> tuple[Any, dict[str, Any]]:
    """Return a select of facts as they were at a time (None: now), and the expressions of its versioned columns."""
    current_columns = {name: col(getattr(FactTable, name)) for name in _VERSIONED}
    if as_of is None:
        return select(FactTable), current_columns
    fact_id, until = col(FactVersionTable.fact_id), col(FactVersionTable.until)
    first = select(fact_id, func.min(until).label("until")).where(until > as_of).group_by(fact_id).subquery("first")
    version = (
        select(FactVersionTable)
        .join(first, and_(fact_id == first.c.fact_id, until == first.c.until))
        .subquery("version")
    )
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
    return statement.outerjoin(version, version.c.fact_id == FactTable.id), columns_as_of


async def list_procedures(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
    everything: bool = False,
    retired_too: bool = False,
    limit: int = 50,
) -> list[ProcedureRow]:
    """Return the procedures that are worth telling, or `everything`, the best first.

    Those of an agent as a whole belong to each of its projects. `peer` selects what that person may see, here
    and in all functions of this module; None is the owner of the machine, who sees what all sessions taught. So does
    `project_alone`: it leaves out what an agent learned from several projects, or from sessions without one.
    """
    order = col(ProcedureTable.worth).desc(), col(ProcedureTable.rank).desc(), col(ProcedureTable.id)
    statement = select(ProcedureTable).order_by(*order)
    if not everything:
        statement = statement.where(col(ProcedureTable.worth) > 0)
    if not retired_too:
        statement = statement.where(col(ProcedureTable.retired_at).is_(None))
    scoped = _in_scope(statement, ProcedureTable, agent, project, peer, project_alone)
    return await _search(conn, ProcedureRow, scoped, col(ProcedureTable.title), query, limit)


async def list_solutions(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
    unsolved_too: bool = False,
    limit: int = 50,
) -> list[SolutionRow]:
    """Return solutions: confirmed ones first, then those of errors that most sessions met."""
    order = (
        col(SolutionTable.confirmed).desc(),
        col(SolutionTable.sessions).desc(),
        col(SolutionTable.occurrences).desc(),
    )
    statement = select(SolutionTable).where(col(SolutionTable.retired_at).is_(None))
    if not unsolved_too:
        statement = statement.where(func.jsonb_array_length(col(SolutionTable.body)["fixes"]) > 0)
    statement = statement.order_by(*order, col(SolutionTable.id))
    scoped = _in_scope(statement, SolutionTable, agent, project, peer, project_alone)
    return await _search(conn, SolutionRow, scoped, col(SolutionTable.search), query, limit)


def _in_scope(
    statement: Any, table: Any, agent: str | None, project: str | None, peer: str | None, project_alone: bool
) -> Any:
    audiences = audiences_for(peer)
    audience = col(table.audience)
    statement = statement.where(audience.startswith(ALL) if audiences is None else audience.in_(audiences))
    if agent:
        statement = statement.where(table.agent == agent)
    if project_alone:
        return statement.where(table.project == project)
    if project:
        statement = statement.where(or_(table.project.is_(None), table.project == project))
    return statement


def _scope_values(agent: str | None, project: str | None, peer: str | None, project_alone: bool) -> dict[str, Any]:
    """Return what the queries call a scope."""
    return {
        "agent": agent or None,
        "project": project if project_alone else project or None,
        "project_alone": project_alone,
        "audiences": audiences_for(peer),
    }


async def find_solutions_for_error(
    conn: Connection,
    *,
    fingerprint: str | None,
    signature: str,
    text: str,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
    unsolved_too: bool = False,
    limit: int = 5,
) -> list[SolutionRow]:
    """Return the solutions of an error: by its fingerprint or signature, else by the words it shares with others.

    An error that is known, but has no fix, is not answered by another error's.
    """
    exact = None if fingerprint is None else escape(fingerprint)
    values: dict[str, Any] = {
        "fingerprint": exact,
        "signature": escape(signature),
        "text": escape(text),
        "limit": limit,
    }
    values |= {"error": True, "unsolved_too": unsolved_too, **_scope_values(agent, project, peer, project_alone)}
    by_fingerprint = await fetch_all(conn, SolutionRow, _SQL["solutions_by_fingerprint"], values)
    if not by_fingerprint:
        return await fetch_all(conn, SolutionRow, _SQL["solutions_by_shared_words"], values)
    return [row for row in by_fingerprint if unsolved_too or row.body["fixes"]]


async def find_solutions_by_fingerprint(
    conn: Connection,
    fingerprint: str,
    *,
    any_tool: bool,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
) -> list[SolutionRow]:
    """Return the solutions of an error or a family, also without a fix; those of other tools only if asked for."""
    signature = fingerprint.partition("|")[2] if any_tool else fingerprint  # a whole fingerprint is nobody's signature
    values = {"fingerprint": escape(fingerprint), "signature": escape(signature), "limit": MAX_FITTING_SOLUTIONS}
    values |= _scope_values(agent, project, peer, project_alone)
    return await fetch_all(conn, SolutionRow, _SQL["solutions_by_fingerprint"], values)


async def find_solutions_for_request(
    conn: Connection,
    text: str,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
) -> list[SolutionRow]:
    """Return solutions that may fit a request: those with a fix that share the most words with it."""
    values = {
        "text": escape(text),
        "error": False,
        "unsolved_too": False,
        **_scope_values(agent, project, peer, project_alone),
        "limit": MAX_FITTING_SOLUTIONS,
    }
    return await fetch_all(conn, SolutionRow, _SQL["solutions_by_shared_words"], values)


async def find_procedures_for_request(
    conn: Connection,
    text: str,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    project_alone: bool = False,
) -> list[FittingProcedureRow]:
    """Return procedures that may fit a request, those whose tools it names first."""
    values = {"text": escape(text), **_scope_values(agent, project, peer, project_alone)}
    return await fetch_all(conn, FittingProcedureRow, _SQL["procedures_for_request"], values)


async def load_fact(conn: Connection, fact_id: str) -> FactRow | None:
    """Return a fact; None where there is none."""
    return await fetch_one(conn, FactRow, _SQL["fact_by_id"], {"id": fact_id})


async def load_by_id(
    conn: Connection, memory_id: str, peer: str | None = None
) -> FactRow | ProcedureRow | SolutionRow | CitedCandidateRow | None:
    """Return whatever has this id, if `peer` may see it."""
    values = {"id": memory_id, "audiences": audiences_for(peer)}
    return (
        await load_fact(conn, memory_id)
        or await fetch_one(conn, ProcedureRow, _SQL["procedure_by_id"], values)
        or await fetch_one(conn, SolutionRow, _SQL["solution_by_id"], values)
        or await fetch_one(conn, CitedCandidateRow, _SQL["candidate_by_id"], values)
    )


async def find_by_prefix(conn: Connection, prefix: str, kinds: Sequence[str], *, limit: int) -> list[NamedRow]:
    """Return what of these kinds has an id that begins so, at most `limit` of each kind."""
    values = {"first": prefix, "last": prefix + "z" * _MAX_ID_LENGTH, "kinds": list(kinds), "limit": limit}
    return await fetch_all(conn, NamedRow, _SQL["named_by_prefix"], values)


async def load_cited_candidates(conn: Connection, ids: Sequence[str]) -> list[CitedCandidateRow]:
    """Return the candidates that a fact cites, with their quotes, the oldest first."""
    return await fetch_all(conn, CitedCandidateRow, _SQL["cited_candidates"], {"ids": list(ids)})


async def list_rejected(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    limit: int = 50,
) -> list[CandidateRow]:
    """Return the candidates that may not become facts, the latest first."""
    statement = select(CandidateTable).where(col(CandidateTable.rejected).is_not(None))
    statement = statement.order_by(col(CandidateTable.occurred_at).desc(), col(CandidateTable.id))
    if query:
        query = escape(query)
        texts = (col(CandidateTable.sentence), col(CandidateTable.quote))
        statement = statement.where(or_(*(column.icontains(query, autoescape=True) for column in texts)))
    if agent:
        statement = statement.where(CandidateTable.agent == agent)
    if project:
        statement = statement.where(CandidateTable.project == project)
    if peer:
        statement = statement.where(CandidateTable.peer == peer)
    return await fetch_selected(conn, CandidateRow, statement.limit(limit))


async def count_rejections(conn: Connection, fact: FactRow) -> list[RejectionCountRow]:
    """Return how many candidates of a fact's attribute were rejected, by reason."""
    return await fetch_all(conn, RejectionCountRow, _SQL["rejections"], _attribute_values(fact))


async def load_fact_history(conn: Connection, fact: FactRow) -> list[FactRow]:
    """Return every fact of the same attribute and owner, in order of time."""
    return await fetch_all(conn, FactRow, _SQL["fact_history"], _attribute_values(fact))


def _attribute_values(fact: FactRow) -> dict[str, str | None]:
    names = ("agent", "level", "project", "peer", "subject", "predicate")
    return {name: getattr(fact, name) for name in names}


async def load_session_origins(conn: Connection, ids: Sequence[str]) -> dict[str, SessionOriginRow]:
    """Return the sessions that are still there, by id."""
    return {row.id: row for row in await fetch_all(conn, SessionOriginRow, _SQL["session_origins"], {"ids": list(ids)})}


async def load_tool_profiles(
    conn: Connection, agent: str, project: str | None, peer: str | None = None, *, project_alone: bool = False
) -> list[ToolProfileRow]:
    """Return an agent's tool profiles in a project; those of the agent as a whole where it has none there.

    Those of the agent as a whole are left out for `project_alone`.

    For a peer a tool may have two: of this person's sessions, and of what enough people share.
    """
    query, values = _SQL["tool_profiles"], {"agent": agent, "audiences": audiences_for(peer)}
    of_project = await fetch_all(conn, ToolProfileRow, query, {**values, "project": project or ""})
    if of_project or project_alone:
        return of_project
    return await fetch_all(conn, ToolProfileRow, query, {**values, "project": ""})
