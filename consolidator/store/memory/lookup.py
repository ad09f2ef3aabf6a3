"""Reading memory: what fits an error or a request, one thing by its id, and what an explanation needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database.partitions import Connection
from consolidator.models.audience import audiences_for
from consolidator.models.fact import CitedCandidateRow, FactRow
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.models.procedure import ProcedureRow, ToolProfileRow
from consolidator.models.solution import SolutionRow
from consolidator.store.queries import FirstRow, Pairs, Rows, RowsByKey, fetch_all, fetch_one, load

_SQL = load("memory/lookup")
MAX_FITTING_SOLUTIONS = 40  # solutions that may fit a request
_MAX_ID_LENGTH = 32  # characters


@dataclass(frozen=True, slots=True)
class NamedRow:
    """Something that has an id, and what names it to a person."""

    kind: str  # fact, procedure, solution, lesson, candidate, run or dead_letter
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class SessionOriginRow:
    """A session as evidence names it."""

    id: str
    origin: str | None  # "format:name" if it was imported
    agent: str
    pruned_to: int  # every event up to here is gone


@dataclass(frozen=True, slots=True)
class FittingProcedureRow:
    """A procedure that may fit a request."""

    id: str
    title: str
    worth: float
    goals: list[str]  # what its first step was given in some sessions
    sessions: list[str]  # these sessions, by id
    success: float  # the expected share of its sessions or calls that work


async def find_solutions_for_error(
    conn: Connection, filters: SolutionFilter, *, fingerprint: str | None, signature: str, text: str
) -> list[SolutionRow]:
    """Return the solutions of an error: by its fingerprint or signature, else by the words it shares with others.

    An error that is known, but has no fix, is not answered by another error's.
    """
    unsolved, limit = filters.include_unsolved, filters.limit
    rows = await _find_by_fingerprint(conn, filters, fingerprint=fingerprint, signature=signature, limit=limit)
    if not rows:
        return await _find_by_headline(conn, filters, text=text, include_unsolved=unsolved, limit=limit)
    return [row for row in rows if unsolved or row.body["fixes"]]


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


async def load_tool_profiles(conn: Connection, scope: MemoryScope) -> list[ToolProfileRow]:
    """Return an agent's tool profiles in a project; those of the agent as a whole where it has none there.

    Those of the agent as a whole are left out for `project_alone`.

    For a peer a tool may have two: of this person's sessions, and of what enough people share.
    """
    query, values = _SQL["tool_profiles"], scope.values()
    of_project = await fetch_all(conn, ToolProfileRow, query, {**values, "project": scope.project or ""})
    if of_project or scope.project_alone:
        return of_project
    return await fetch_all(conn, ToolProfileRow, query, {**values, "project": ""})


load_fact = FirstRow[FactRow, str](FactRow, _SQL["fact_by_id"])
load_cited_candidates = Rows[CitedCandidateRow, Sequence[str]](CitedCandidateRow, _SQL["cited_candidates"])
list_facts_of_project = Rows[FactRow, MemoryScope](FactRow, _SQL["facts_of_project"], "*")
load_session_origins = RowsByKey[str, SessionOriginRow, Sequence[str]](SessionOriginRow, _SQL["session_origins"])
_find_by_fingerprint = Rows[SolutionRow, MemoryScope](SolutionRow, _SQL["solutions_by_fingerprint"], "*")
_find_by_headline = Rows[SolutionRow, MemoryScope](SolutionRow, _SQL["solutions_by_headline"], "*")
find_solutions_for_request = Rows[SolutionRow, MemoryScope, str](
    SolutionRow, _SQL["solutions_by_shared_words"], "* text", include_unsolved=False, limit=MAX_FITTING_SOLUTIONS
)
find_procedures_for_request = Rows[FittingProcedureRow, MemoryScope, str](
    FittingProcedureRow, _SQL["procedures_for_request"], "* text"
)
find_by_prefix = Rows[NamedRow, str, Sequence[str]](
    NamedRow, _SQL["named_by_prefix"], "prefix kinds", longest=_MAX_ID_LENGTH
)
# How many candidates of a fact's attribute were rejected, by reason; and every fact of it and its owner, by time.
count_rejections = Pairs[str, int, FactRow](_SQL["rejections"], "*")
load_fact_history = Rows[FactRow, FactRow](FactRow, _SQL["fact_history"], "*")
