"""Reading memory: facts, procedures and solutions by filters and text, and the rows that explain each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import case, func, literal_column
from sqlmodel import and_, col, or_, select

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.models.fact import CandidateTable, FactTable, FactVersionTable, TombstoneTable
from consolidator.models.procedure import ProcedureTable, SolutionTable
from consolidator.store.queries import Row, load, row, rows
from consolidator.store.select import fetch

_SQL = load("memory/lookup")
FITTING = 40  # solutions that may fit a request
_TOLD = ("value", "sentence", "valid_from", "valid_to", "superseded_at", "superseded_by")  # what a version keeps
_WAS = "was_"
_SIMPLE: Any = literal_column("'simple'::regconfig")


def _words(column: Any, query: str) -> Any:
    """Say whether a text holds the words of a query."""
    return func.to_tsvector(_SIMPLE, column).op("@@")(func.plainto_tsquery(_SIMPLE, query))


async def _searched(conn: Connection, found: Any, column: Any, query: str | None, limit: int) -> list[Row]:
    """Return what holds the words of a query, by the index; where nothing does, what holds it as a part of a word."""
    found = found.limit(limit)
    if not query:
        return await fetch(conn, found)
    query = escape(query)
    exact = await fetch(conn, found.where(_words(column, query)))
    return exact or await fetch(conn, found.where(column.icontains(query, autoescape=True)))


async def facts(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    superseded_too: bool = False,
    flagged: bool = False,
    as_of: datetime | None = None,
    valid_at: datetime | None = None,
    limit: int = 50,
) -> list[Row]:
    """Return facts, those most sessions support first.

    `as_of` asks what was believed at a time, in the words that it had, `valid_at` what was true then by what is known
    (at `as_of`); `flagged` asks for those that were kept beside what they resemble, since nobody could decide.
    """
    found, told = _told_at(as_of)
    found = found.order_by(col(FactTable.sessions).desc(), told["valid_from"].desc(), col(FactTable.id))
    ended, over = told["superseded_at"], told["valid_to"]
    if as_of is not None:
        found = found.where(col(FactTable.recorded_at) <= as_of, or_(ended.is_(None), ended > as_of))
    if valid_at is not None:
        buried = select(col(TombstoneTable.fact_id))
        found = found.where(told["valid_from"] <= valid_at, or_(over.is_(None), over > valid_at))
        found = found.where(col(FactTable.id).not_in(buried))
        # What was merged into another fact, or read otherwise by another generation, is not known now.
        found = found.where(or_(ended.is_(None), over.is_not(None)))
        found = found.where(told["superseded_by"].is_distinct_from("another generation"))
    if not superseded_too and as_of is None and valid_at is None:
        found = found.where(ended.is_(None))
    if agent:
        found = found.where(FactTable.agent == agent)
    if project:
        found = found.where(col(FactTable.project).contains(project, autoescape=True))
    if peer:
        found = found.where(FactTable.peer == peer)
    if flagged:
        found = found.where(col(FactTable.flagged).is_not(None))
    listed = await _searched(conn, found, told["sentence"], query, limit)
    return [_as_it_was(one) for one in listed]


def _told_at(as_of: datetime | None) -> tuple[Any, dict[str, Any]]:
    """Return a select of facts, and by name the columns of what they said at a time; None: now."""
    now = {name: col(getattr(FactTable, name)) for name in _TOLD}
    if as_of is None:
        return select(FactTable), now
    of, until = col(FactVersionTable.fact_id), col(FactVersionTable.until)
    first = select(of, func.min(until).label("until")).where(until > as_of).group_by(of).subquery("first")
    was = select(FactVersionTable).join(first, and_(of == first.c.fact_id, until == first.c.until)).subquery("was")
    then = {name: case((was.c.fact_id.is_not(None), was.c[name]), else_=column) for name, column in now.items()}
    labels = [column.label(f"{_WAS}{name}") for name, column in then.items()]
    found: Any = select(FactTable, *labels)
    return found.outerjoin(was, was.c.fact_id == FactTable.id), then


def _as_it_was(fact: Row) -> Row:
    """Return a fact with what it said at the time that was asked for."""
    then = {name.removeprefix(_WAS): value for name, value in fact.items() if name.startswith(_WAS)}
    return {name: value for name, value in fact.items() if not name.startswith(_WAS)} | then


async def procedures(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    retired_too: bool = False,
    limit: int = 50,
) -> list[Row]:
    """Return procedures, the best first; those of the agent as a whole belong to every project."""
    found = select(ProcedureTable).order_by(col(ProcedureTable.rank).desc(), col(ProcedureTable.id))
    if not retired_too:
        found = found.where(col(ProcedureTable.retired_at).is_(None))
    scoped = _scoped(found, ProcedureTable, agent, project)
    return await _searched(conn, scoped, col(ProcedureTable.title), query, limit)


async def solutions(
    conn: Connection, *, query: str | None = None, agent: str | None = None, project: str | None = None, limit: int = 50
) -> list[Row]:
    """Return solutions: confirmed ones first, then those met in most sessions."""
    order = (
        col(SolutionTable.confirmed).desc(),
        col(SolutionTable.sessions).desc(),
        col(SolutionTable.occurrences).desc(),
    )
    found = select(SolutionTable).where(col(SolutionTable.retired_at).is_(None)).order_by(*order, col(SolutionTable.id))
    scoped = _scoped(found, SolutionTable, agent, project)
    return await _searched(conn, scoped, col(SolutionTable.search), query, limit)


def _scoped(query: Any, table: Any, agent: str | None, project: str | None) -> Any:
    if agent:
        query = query.where(table.agent == agent)
    if project:
        query = query.where(or_(table.project.is_(None), table.project.contains(project, autoescape=True)))
    return query


async def solutions_of(
    conn: Connection,
    *,
    fingerprint: str | None,
    signature: str,
    text: str,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 5,
) -> list[Row]:
    """Return what is known of an error: by its fingerprint or signature first, else by the words it shares."""
    exact = None if fingerprint is None else escape(fingerprint)
    values = {"fingerprint": exact, "signature": escape(signature), "text": escape(text), "limit": limit}
    values |= {"agent": agent or None, "project": project or None, "error": True}
    return await rows(conn, _SQL["by_fingerprint"], values) or await rows(conn, _SQL["by_shared_words"], values)


async def mended(conn: Connection, text: str, *, agent: str | None = None, project: str | None = None) -> list[Row]:
    """Return solutions that may fit a request: those with a fix that share the most of its words."""
    values = {
        "text": escape(text),
        "agent": agent or None,
        "project": project or None,
        "error": False,
        "limit": FITTING,
    }
    return await rows(conn, _SQL["by_shared_words"], values)


async def explained(conn: Connection, identity: str) -> tuple[str, Row] | None:
    """Return the kind and row of whatever has this id."""
    for kind in ("fact", "procedure", "solution", "candidate"):
        found = await row(conn, _SQL[f"explain_{kind}"], {"id": identity})
        if found is not None:
            return kind, found
    return None


async def evidence(conn: Connection, ids: Sequence[str]) -> list[Row]:
    """Return the candidates that a fact cites, with their quotes."""
    return await rows(conn, _SQL["evidence"], {"ids": list(ids)})


async def rejected(
    conn: Connection,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    limit: int = 50,
) -> list[Row]:
    """Return what looked like a fact and may not become one, with the reason, the latest first."""
    found = select(CandidateTable).where(col(CandidateTable.rejected).is_not(None))
    found = found.order_by(col(CandidateTable.occurred_at).desc(), col(CandidateTable.id))
    if query:
        query = escape(query)
        said = (col(CandidateTable.sentence), col(CandidateTable.quote))
        found = found.where(or_(*(column.icontains(query, autoescape=True) for column in said)))
    if agent:
        found = found.where(CandidateTable.agent == agent)
    if project:
        found = found.where(col(CandidateTable.project).contains(project, autoescape=True))
    if peer:
        found = found.where(CandidateTable.peer == peer)
    return await fetch(conn, found.limit(limit))


async def rejections(conn: Connection, fact: Row) -> list[Row]:
    """Return how many candidates of a fact's agent, subject and predicate were rejected for which `reason`."""
    return await rows(conn, _SQL["rejections"], fact)


async def history(conn: Connection, fact: Row) -> list[Row]:
    """Return every fact of the same agent, subject and predicate, in order of time."""
    return await rows(conn, _SQL["history"], fact)


async def origins(conn: Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Return foreign name, head and `pruned_to` of sessions, by id."""
    return {r["id"]: r for r in await rows(conn, _SQL["origins"], {"ids": list(ids)})}


async def profiles(conn: Connection, agent: str, project: str | None) -> list[Row]:
    """Return an agent's tool profiles in a project; those of the agent as a whole where it has none there."""
    found = await rows(conn, _SQL["profiles"], {"agent": agent, "project": project or ""})
    return found or await rows(conn, _SQL["profiles"], {"agent": agent, "project": ""})


async def ways(conn: Connection, text: str, *, agent: str | None = None, project: str | None = None) -> list[Row]:
    """Return procedures that may fit a request, those whose tools it names first, with what people had asked for."""
    return await rows(conn, _SQL["ways"], {"text": escape(text), "agent": agent or None, "project": project or None})
