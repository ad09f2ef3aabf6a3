"""Injections: what hooks put into agents' contexts, what they choose from, and whether it was of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.models.audience import OWNER
from consolidator.models.fact import FactRow
from consolidator.models.injection import FixOutcome, InjectionRow, TellingRow
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.solution import SolutionRow
from consolidator.store.queries import Rows, Statement, Value, fetch_all, load

_SQL = load("memory/injections")
MAX_JUDGED = 100  # injections of a session that are judged at once
MAX_SHOWN = 200  # injections of a session that are looked at before it is shown another one


@dataclass(frozen=True, slots=True)
class MomentSumsRow:
    """How often hooks answered at one moment."""

    moment: str
    times: int
    sessions: int
    tokens: int
    worked: int
    failed: int
    not_tried: int


async def list_standing_facts(
    conn: Connection, agent: str, project: str, kinds: Sequence[str], *, now: datetime, limit: int
) -> list[FactRow]:
    """Return what people said that stands, of a project and of its agent and owner; up to `limit` of either."""
    values = _values(agent, project) | {"kinds": list(kinds), "now": now, "limit": limit}
    return await fetch_all(conn, FactRow, _SQL["standing_facts"], values)


async def list_met_errors(conn: Connection, agent: str, project: str, *, limit: int) -> list[SolutionRow]:
    """Return a project's errors that several of its owner's sessions met, those with a confirmed fix first."""
    values = _values(agent, project) | {"limit": limit}
    return await fetch_all(conn, SolutionRow, _SQL["met_errors"], values)


def _values(agent: str, project: str) -> dict[str, Any]:
    return MemoryScope(agent, escape(project), OWNER).values()


@dataclass(frozen=True, slots=True)
class FactWorthRow:
    """In how many sessions since a fact was believed a person said it again, told it before and untold."""

    told: int
    told_said: int
    untold: int
    untold_said: int


async def measure_fact(conn: Connection, fact: FactRow) -> FactWorthRow:
    """Return how often a person had to say a fact again."""
    values = {
        "citation": f"fact:{fact.id}",
        "evidence": list(fact.evidence),
        "since": fact.recorded_at,
        "project": fact.project,
    }
    return (await fetch_all(conn, FactWorthRow, _SQL["worth_of_fact"], values))[0]


judge = Statement[str, FixOutcome](_SQL["judge"], "id outcome")
list_tellings = Rows[TellingRow, list[str]](TellingRow, _SQL["tellings"], "sessions")
delete_before = Statement[datetime](_SQL["delete_before"])
sum_by_moment = Rows[MomentSumsRow, datetime](MomentSumsRow, _SQL["sum_by_moment"])
list_unjudged = Rows[InjectionRow, str](InjectionRow, _SQL["list_unjudged"], "session_id", limit=MAX_JUDGED)
list_of_session = Rows[InjectionRow, str](InjectionRow, _SQL["list_of_session"], "session_id", limit=MAX_SHOWN)
find_call = Value[int | None, str, str](_SQL["find_call"], "session_id call_id")
add = Statement[InjectionRow](_SQL["add"], "*")
