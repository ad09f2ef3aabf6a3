"""What is new in memory since a moment: what the agents learned; and what each run, day and week brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Literal, LiteralString, TypeVar

from psycopg.rows import kwargs_row

from consolidator.database.partitions import Connection
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import ALL_AGENTS, MemoryScope
from consolidator.models.procedure import ProcedureRow
from consolidator.models.session import SessionRow, SteerCounts
from consolidator.models.solution import SolutionRow
from consolidator.store.calls.error_records import MAX_RECORDS
from consolidator.store.facts.facts import sum_steers_since
from consolidator.store.facts.visibility import MIN_PEOPLE, fact_condition
from consolidator.store.memory.lessons import LessonRow
from consolidator.store.queries import OneRow, Pairs, Rows, Statement, Value, fetch_all, fetch_one, load

T = TypeVar("T")
_SQL = load("memory/learned")
KINDS = ("facts", "changed", "procedures", "solutions", "lessons", "failed_again")


@dataclass(frozen=True, slots=True)
class ChangedFactRow(FactRow):
    """A fact that replaced another one."""

    instead_of: str  # id of the fact that it replaced
    before: str  # that fact's sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAgainRow(SolutionRow):
    """A solution whose error occurred again though its fix was known."""

    times: int
    in_sessions: int  # how many sessions that was in; one that several nights read counts in each


@dataclass(frozen=True, slots=True)
class NightSumsRow:
    """The sums of the nights' ledger, in events."""

    nights: int
    sessions: int  # a session that several nights read counts in each
    seen: int
    learned: int
    nothing: int
    deferred: int
    dead: int


@dataclass(frozen=True, slots=True)
class WaitingCountsRow:
    """How much waits for a person, whenever it came."""

    to_review: int  # candidates in quarantine
    flagged: int  # facts that were kept beside similar ones
    dead_letters: int
    calls: int  # sessions with a call that needs approval or whose outcome is unknown
    rules: int = 0  # what people repeat, to accept or dismiss

    @property
    def total(self) -> int:
        """How much waits in all."""
        return self.to_review + self.flagged + self.dead_letters + self.calls + self.rules


@dataclass(frozen=True, slots=True)
class LearnedNews:
    """What was learned since a moment: the best of each kind, and how many more there are."""

    since: datetime
    sums: NightSumsRow | None  # None for who sees a part of memory alone, as is `waiting`
    steering: SteerCounts | None
    facts: list[FactRow]
    changed: list[ChangedFactRow]
    procedures: list[ProcedureRow]
    solutions: list[SolutionRow]
    lessons: list[LessonRow]
    failed_again: list[FailedAgainRow]  # none for who sees a part of memory alone
    limit: int  # of each kind
    more: dict[str, int]  # by kind: how many the limit left out
    waiting: WaitingCountsRow | None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, the sums beside the kinds."""
        json = asdict(self)
        return {"since": json.pop("since"), **(json.pop("sums") or {}), **json}


async def load_learned(
    conn: Connection, since: datetime, scope: MemoryScope, *, limit: int = 10, counts_waiting: bool = True
) -> LearnedNews:
    """Return what was learned since a moment, of one agent or project if named.

    For a peer, what that person may see; with `project_alone`, what rests on that project's sessions alone. Neither
    is told what the nights saw of others, or what waits.
    """
    values = {
        **scope.values(),
        "since": since,
        "of_project": scope.project,
        "person": scope.peer,
        "min_people": MIN_PEOPLE,
        "limit": limit,
    }

    is_of_person = scope.peer is not None
    is_cut = is_of_person or scope.project_alone
    aliases: tuple[LiteralString, LiteralString] = ("fact", "before")
    visible, before = (
        fact_condition(alias, of_person=is_of_person, of_project=scope.project_alone) for alias in aliases
    )
    facts_query, changed_query = (
        _SQL[name].replace("{fact_visible}", visible).replace("{before_visible}", before)
        for name in ("facts", "changed")
    )

    facts, more_facts = await _fetch_best(conn, FactRow, facts_query, values)
    changed, more_changed = await _fetch_best(conn, ChangedFactRow, changed_query, values)
    procedures, more_procedures = await _fetch_best(conn, ProcedureRow, _SQL["procedures"], values)
    solutions, more_solutions = await _fetch_best(conn, SolutionRow, _SQL["solutions"], values)
    lessons, more_lessons = await _fetch_best(conn, LessonRow, _SQL["lessons"], values)

    again, more_again = ([], 0) if is_cut else await _fetch_best(conn, FailedAgainRow, _SQL["failed_again"], values)
    sums = None if is_cut else await fetch_one(conn, NightSumsRow, _SQL["night_sums"], values)
    steers = (
        None
        if is_cut
        else await sum_steers_since(conn, since, agent=scope.agent or None, project=scope.project or None)
    )
    waiting = await count_waiting(conn) if counts_waiting and not is_cut else None

    left_out = (more_facts, more_changed, more_procedures, more_solutions, more_lessons, more_again)
    more = dict(zip(KINDS, left_out, strict=True))
    return LearnedNews(since, sums, steers, facts, changed, procedures, solutions, lessons, again, limit, more, waiting)


@dataclass(frozen=True, slots=True)
class TaughtRow:
    """What a session is evidence of, by one of its events."""

    id: str
    title: str
    seq: int


async def list_taught(conn: Connection, session: SessionRow, *, limit: int) -> list[TaughtRow]:
    """Return the lessons, fixes and facts that a session is evidence of."""
    person = "" if session.memory == ALL_AGENTS else session.peer or ""
    values = {"session": session.id, "project": session.project, "person": person, "limit": limit}
    return await fetch_all(conn, TaughtRow, _SQL["taught"], values | {"agents": [session.agent, session.memory]})


async def _fetch_best(
    conn: Connection, row_type: type[T], query: LiteralString, values: Mapping[str, Any]
) -> tuple[list[T], int]:
    """Return the rows of a query, and how many more there are than its limit: its column `total` counts all."""
    async with conn.cursor(row_factory=kwargs_row(partial(_split_total, row_type))) as cursor:
        await cursor.execute(query, values)
        counted = await cursor.fetchall()
    return [row for row, _ in counted], counted[0][1] - len(counted) if counted else 0


def _split_total(row_type: type[T], *, total: int, **columns: Any) -> tuple[T, int]:
    return row_type(**columns), total


find_latest_night = Value[datetime | None](_SQL["latest_night"])
save_failed_again = Statement[str](_SQL["save_failed_again"], "run_id", latest=MAX_RECORDS)
count_waiting = OneRow[WaitingCountsRow](WaitingCountsRow, _SQL["waiting"])


MemoryKind = Literal["facts", "procedures", "solutions", "lessons"]
MEMORY_KINDS: tuple[MemoryKind, ...] = ("facts", "procedures", "solutions", "lessons")


@dataclass(frozen=True, slots=True)
class RememberedRow:
    """Something that came into memory."""

    id: str
    title: str
    is_over: bool  # it holds no more
    total: int  # how many of its kind came


async def list_remembered(
    conn: Connection, kind: MemoryKind, *, begin: datetime, end: datetime, limit: int
) -> list[RememberedRow]:
    """Return what of a kind came into memory in a span of time, the best first."""
    return await fetch_all(conn, RememberedRow, _SQL[f"run_{kind}"], {"begin": begin, "end": end, "limit": limit})


list_days = Pairs[date, int, datetime, str](_SQL["by_day"], "since zone")


@dataclass(frozen=True, slots=True)
class WeekRow:
    """What came of memory in a week: sessions in which a known situation came, and in which it failed."""

    monday: date
    told: int
    told_failed: int
    untold: int
    untold_failed: int
    runs: int  # of commands that memory knows, told or not
    runs_failed: int
    tokens: int  # that hooks told
    sessions: int  # that were told them


list_weeks = Rows[WeekRow, datetime, Sequence[str]](WeekRow, _SQL["by_week"], "since commands")
find_first_fact = Value[datetime | None](_SQL["first_fact"])
