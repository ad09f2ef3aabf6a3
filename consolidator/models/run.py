"""The ledger: runs of jobs, claims on their units, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

UnitKind = Literal["session", "late_extraction", "merge", "draft", "fact_index", "turn_index", "shared_question"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a job, and what came of it."""

    id: str
    job: str
    scheduled_at: datetime
    trigger: str
    status: str
    started_at: datetime
    finished_at: datetime | None
    heartbeat_at: datetime
    owner: str
    arguments: dict[str, Any]
    report: dict[str, Any]
    error: str | None
    deaths: int


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A unit of a run: who works on it until when, how often it was tried, and what came of it, in events."""

    run_id: str
    kind: UnitKind
    unit: str
    phase: int
    status: str
    owner: str | None
    lease_until: datetime | None
    attempts: int
    seen: int
    learned: int
    nothing: int
    deferred: int
    dead: int
    error: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """An event that could not be learned from; it stays unstamped, and so unpruned, until it is settled."""

    id: str
    run_id: str
    session_id: str
    seq: int
    extractor: str
    error: str
    created_at: datetime
    settled_at: datetime | None
    settlement: str | None
