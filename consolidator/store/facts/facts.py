"""Stores and loads candidates, the facts made of them, what persons told memory of them, and steers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.fact import (
    UNKNOWN_START,
    CandidateRow,
    ChainedFactRow,
    CitedCandidateRow,
    CorrectionRow,
    ExistingFact,
    FactRow,
    FactVersionRow,
)
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.session import SteerCounts, SteerOutcome, SteerRow, TaskOutcomeRow
from consolidator.store.queries import (
    Attempt,
    Column,
    FirstRow,
    OneRow,
    Rows,
    RowsByKey,
    Statement,
    StatementEach,
    Tuples,
    UpsertEach,
    execute,
    execute_each,
    fetch_all,
    fetch_column,
    load,
    row_values,
)

_SQL = load("facts/facts")
_DEFAULTS = dict.fromkeys(("rejected", "quarantined", "valid_from", "valid_to")) | {"revision": 0, "active": True}


class Owner(NamedTuple):
    """Whom a fact belongs to, within one agent."""

    level: str
    name: str  # the project or peer; "" for the agent itself


class OwnedAttribute(NamedTuple):
    """An attribute of an owner: facts of the same one are reconciled together."""

    level: str
    owner: str
    subject: str
    predicate: str


@dataclass(frozen=True, slots=True)
class UnreconciledRow:
    """A candidate that changed since facts were made of it, with the attributes it concerns."""

    id: str
    level: str
    owner: str
    subject: str
    predicate: str
    as_subject: str | None
    as_predicate: str | None


@dataclass(frozen=True, slots=True)
class LineageCandidateRow(CandidateRow):
    """A candidate, and the lineage that it counts for."""

    root_id: str
    is_additive: bool  # it replaces no other value: nobody has decided that it may
    is_repetition: bool  # it says what a fact says: whether that replaces other values was decided before
    steer: SteerOutcome | None  # of the steer that it was read in


async def save_candidates(
    conn: Connection, candidates: Sequence[Mapping[str, Any]], *, run_id: str, active: bool = True
) -> None:
    """Store candidates, each given by its columns; those that are stored already stay as they are.

    The caller holds the lock of their sessions, so that none of them is being erased. The candidates of a draft are not
    `active`: no fact is made of them before the draft is promoted.
    """
    values = [
        {
            **_DEFAULTS,
            **{key: escape(value) if isinstance(value, str) else value for key, value in candidate.items()},
            "evidence": as_jsonb(candidate.get("evidence", [])),
            "run_id": run_id,
            "active": active,
        }
        for candidate in candidates
    ]
    await execute_each(conn, _SQL["save_candidate"], values)


async def load_ended_attributes(conn: Connection, agent: str, endings: Sequence[str]) -> list[OwnedAttribute]:
    """Return the attributes of facts with a word of one of these endings."""
    return [OwnedAttribute(*row) for row in await _load_ended(conn, agent, endings)]


async def load_forgotten(conn: Connection, agent: str, owners: Sequence[Owner]) -> dict[Owner, list[str]]:
    """Return the ids of the facts that persons told memory to forget, by their owners."""
    forgotten: dict[Owner, list[str]] = {}
    for level, name, fact_id in await _load_forgotten(conn, agent, owners):
        forgotten.setdefault(Owner(level, name), []).append(fact_id)
    return forgotten


async def drop_unsupported(
    conn: Connection, agent: str, attributes: Sequence[OwnedAttribute], supported: Sequence[str], now: datetime
) -> int:
    """Delete the facts of the reconciled attributes that nothing supports any more; return how many were deleted.

    Facts that a model had a part in are superseded instead: they keep their history.
    """
    await _supersede_unsupported(conn, agent, attributes, kept=supported, now=now)
    return await _delete_unsupported(conn, agent, attributes, kept=supported)


async def forget_fact(conn: Connection, values: Mapping[str, Any]) -> None:
    """Supersede a fact and add a tombstone for its value.

    `values` are the fact's columns, with normalized `value` and `predicate`, `now`, and the fact that a person stated
    instead as `superseded_by`, or None.
    """
    await execute(conn, _SQL["add_tombstone"], values)
    await execute(conn, _SQL["supersede"], values)


async def save_tombstones(conn: Connection, forgotten: Sequence[tuple[CorrectionRow, Sequence[str]]]) -> None:
    """Add tombstones, each where there is no later one, and have the facts of their attributes made again.

    Each comes with the names under which its predicate may be stored. In whatever order they come, the latest word
    holds: one that was taken back later is not added, and taking it back removes those from before.
    """
    for row, predicates in forgotten:
        values = {
            **{name: escape(value) if isinstance(value, str) else value for name, value in asdict(row).items()},
            "id": row.fact_id,
            "now": row.at,
            "before": row.at,
            "owner": escape(row.project or row.peer or ""),
            "predicates": [escape(name) for name in predicates],
        }
        query = "lift_tombstones" if row.is_undone else "add_forgotten"
        if await execute(conn, _SQL[query], values):
            await execute(conn, _SQL["touch_attribute"], values)


async def restore_fact(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Believe a fact again as it was and remove its tombstones; return False where it has none.

    `values` are the fact's columns, with normalized `value`, its `owner`, the names under which its predicate may be
    stored as `predicates`, and `now`. The facts of its attribute are to be made again.
    """
    is_restored = bool(await execute(conn, _SQL["lift_tombstones"], {**values, "before": None}))
    if is_restored:
        await execute(conn, _SQL["restore"], values)
        await execute(conn, _SQL["touch_attribute"], values)
    return is_restored


list_values_of_session = Tuples[tuple[str, str, str], str](_SQL["values_of_session"], "session")
lock_unreconciled = Rows[UnreconciledRow, str](UnreconciledRow, _SQL["lock_unreconciled"])
load_undecided = Rows[LineageCandidateRow, str, int](LineageCandidateRow, _SQL["undecided"], "agent limit")
mark_reconciled = Statement[str, Sequence[str]](_SQL["mark_reconciled"], "agent ids")
load_corrections = Rows[CorrectionRow, str](CorrectionRow, _SQL["corrections"])
get_quarantined = FirstRow[CandidateRow, str](CandidateRow, _SQL["get_quarantined"])
load_versions = Rows[FactVersionRow, Sequence[str]](FactVersionRow, _SQL["versions"])
MAX_NAMES = 24
MAX_OBSERVATIONS = 200  # of a project, the latest, of which a question shows some
MAX_READ = 2000  # candidates of one owner that are looked at


class RelationScope(NamedTuple):
    """Whose facts a session may add to: its agent's, its project's and its peer's."""

    agent: str
    project: str | None
    peer: str | None


@dataclass(frozen=True, slots=True)
class ObservationRow:
    """What an agent found out, by what tells it from another observation."""

    subject: str
    predicate: str
    value: str
    sentence: str
    session_id: str  # which showed it last


async def list_observed(conn: Connection, scope: RelationScope, *, passing: str) -> list[ObservationRow]:
    """Return the latest observations of a scope's project, also those held as `passing`; none without a project."""
    values = {"agent": scope.agent, "project": scope.project, "passing": passing, "limit": MAX_OBSERVATIONS}
    return await fetch_all(conn, ObservationRow, _SQL["observed"], values) if scope.project else []


@dataclass(frozen=True, slots=True)
class SessionWordsRow:
    """What was said in a session, in its first words of each turn, and what of it persons typed."""

    root_id: str
    text: str
    typed: str


async def list_project_words(conn: Connection, scope: RelationScope) -> list[SessionWordsRow]:
    """Return what was said in the latest sessions of a scope's project; none without a project."""
    values = {"agent": scope.agent, "project": scope.project}
    return await fetch_all(conn, SessionWordsRow, _SQL["project_words"], values) if scope.project else []


async def list_in_use(conn: Connection, scope: RelationScope) -> list[str]:
    """Return the names of relations of the facts that are believed in a scope, the most frequent ones, by name."""
    owners = [("agent", ""), ("project", scope.project), ("peer", scope.peer)]
    named = [(level, owner) for level, owner in owners if owner is not None]
    values = {"levels": [level for level, _ in named], "owners": [owner for _, owner in named], "read": MAX_READ}
    names = await fetch_column(conn, _SQL["in_use"], {**values, "agent": scope.agent, "limit": MAX_NAMES})
    return sorted(names)


supersede = Statement[str, str, datetime](_SQL["supersede"], "id superseded_by now")
reopen_review = FirstRow[CandidateRow, str, str](CandidateRow, _SQL["reopen_review"], "id rejected")
load_chain = Rows[ChainedFactRow, str, int](ChainedFactRow, _SQL["chain"], "id limit")
end_quarantine = Attempt[str](_SQL["end_quarantine"], "candidate_id")
load_comparable = RowsByKey[str, ExistingFact, Sequence[str]](
    ExistingFact, _SQL["comparable"], "ids", unknown_start=UNKNOWN_START
)
save_stated_fact = Statement[Mapping[str, Any]](_SQL["save_stated_fact"], "*")
# (candidate id, fact id) of each candidate's own attribute; the ids are of the candidates.
match_attributes = Tuples[tuple[str, str], str, Sequence[OwnedAttribute]](_SQL["facts_by_attribute"], "agent **")
load_candidates = Rows[LineageCandidateRow, str, Sequence[OwnedAttribute]](
    LineageCandidateRow, _SQL["candidates"], "agent **"
)
list_published = Column[str, str, Sequence[OwnedAttribute]](_SQL["published"], "agent **", believed=False)
save_each = UpsertEach(_SQL["save_fact"])
end_stated = Statement[str, Sequence[OwnedAttribute], str, datetime](_SQL["end_stated"], "agent ** superseded_by now")
load_fact_of = FirstRow[FactRow, str, Sequence[OwnedAttribute], str](FactRow, _SQL["fact_of"], "agent ** candidate")
_supersede_unsupported = Statement[str, Sequence[OwnedAttribute]](_SQL["supersede_unsupported"], "agent **")
_delete_unsupported = Statement[str, Sequence[OwnedAttribute]](_SQL["delete_unsupported"], "agent **")
_load_ended = Tuples[tuple[str, str, str, str], str, Sequence[str]](_SQL["ended_attributes"], "agent ids")
_load_forgotten = Tuples[tuple[str, str, str], str, Sequence[Owner]](_SQL["forgotten"], "agent **")
# A decision has no effect where another process decided the candidate first, or where its target has gone.
save_decisions = StatementEach(_SQL["save_decision"])
list_quarantined = Rows[CitedCandidateRow, MemoryScope](
    CitedCandidateRow, _SQL["quarantined"], "*", after=None, limit=50
)  # the latest first


async def save_steers(
    conn: Connection, steers: Sequence[SteerRow], outcomes: Sequence[TaskOutcomeRow], *, run_id: str
) -> None:
    """Store steers and ends of tasks; the facts of candidates whose steer has another outcome now are made again."""
    await execute_each(conn, _SQL["save_steer"], [row_values(row) | {"run_id": run_id} for row in steers])
    await execute_each(conn, _SQL["save_task_outcome"], [row_values(row) | {"run_id": run_id} for row in outcomes])
    if outcomes:
        ended = {name: [getattr(row, name) for row in outcomes] for name in ("session_id", "task", "seq")}
        await execute(conn, _SQL["renew_steers"], ended | {"run_id": [run_id] * len(outcomes)})
    if steers or outcomes:
        values = {
            "steer_sessions": [row.session_id for row in steers],
            "steer_seqs": [row.seq for row in steers],
            "task_sessions": [row.session_id for row in outcomes],
            "tasks": [row.task for row in outcomes],
        }
        await execute(conn, _SQL["reconcile_steered"], values)


async def delete_steers(conn: Connection, session: str, *, after: int) -> int:
    """Delete steers and ends of tasks read from a session's events after a seq; return the number of deleted rows."""
    values = {"session": session, "after": after}
    return await execute(conn, _SQL["delete_steers"], values) + await execute(conn, _SQL["delete_outcomes"], values)


sum_steers_since = OneRow[SteerCounts, datetime](SteerCounts, _SQL["sums"], "since")
