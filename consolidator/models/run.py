"""Rows of nights and of model calls: the ledger, dead letters, batches of questions, costs, revisions, and seals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
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


@dataclass(frozen=True, slots=True)
class ModelBatchRow:
    """A row of `model_batch`: questions that were submitted together."""

    id: str
    status: str
    submitted_at: datetime
    due_at: datetime
    collected_at: datetime | None


@dataclass(frozen=True, slots=True)
class ModelQuestionRow:
    """A row of `model_question`: one question that goes through a batch."""

    key: str
    purpose: str
    model: str
    body: dict[str, Any]
    run_id: str
    session_id: str | None
    call_id: str
    batch_id: str | None
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SealRow:
    """One seal; a copy of it that is kept elsewhere proves everything that it and the seals before it cover."""

    number: int
    run_id: str | None
    sealed_at: datetime
    sessions: int
    output_to: int
    root: bytes


@dataclass(frozen=True, slots=True)
class SealedSessionRow:
    """A session as far as it was learned from."""

    session_hash: bytes
    seq: int
    hash: bytes
    seal: int | None


@dataclass(frozen=True, slots=True)
class SealedMessageRow:
    """What was generated and sent of a message between two seals."""

    session_hash: bytes
    message_hash: bytes
    started_seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A row of `revision`: a draft is compared, then promoted or discarded; what it replaced can be restored."""

    id: int
    model: str
    status: str
    choice: dict[str, Any]
    created_at: datetime
    promoted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a group of calls cost."""

    name: str
    calls: int
    input_tokens: int  # cached ones included
    cached_tokens: int
    output_tokens: int
    cost: Decimal  # USD
    set_aside: Decimal  # USD, for calls under way
    unpriced: int  # calls of models whose price is unknown
    cheap_share: float | None  # of the priced calls, those of a cheaper model than the session's; None without any
