"""Stores calls of models: their reserves, costs and answers; and how far a model has read each session.

A call is reserved before it is made and settled after it; a call that is never settled has cost its reserve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from consolidator.database.jsonb import unescape
from consolidator.database.partitions import Connection
from consolidator.models.run import ModelBatchRow, ModelQuestionRow
from consolidator.store.queries import (
    Attempt,
    AttemptEach,
    Column,
    ColumnSet,
    OneRow,
    Pairs,
    Rows,
    Statement,
    Value,
    execute,
    fetch_value,
    load,
)

_SQL = load("nights/model_calls")


@dataclass(frozen=True, slots=True)
class CallReserve:
    """A call that is about to be made, and the most it may use."""

    id: str
    run_id: str
    session_id: str | None
    purpose: str
    model: str
    key: str  # the hash of its question
    reserved_tokens: int
    reserved_cost: Decimal | None  # USD; None where the model's price is unknown
    created_at: datetime


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What a call used, and what came of it."""

    input_tokens: int
    cached_tokens: int  # those of the input tokens that the server had cached
    output_tokens: int
    cost: Decimal | None  # USD
    outcome: str  # "answered", or "failed: " and why


@dataclass(frozen=True, slots=True)
class RunSpending:
    """What a run has spent or reserved."""

    tokens: int
    cost: Decimal  # USD


@dataclass(frozen=True, slots=True)
class DaySpending:
    """What all runs have asked of a model in a day: calls that failed before they cost anything do not count."""

    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class CallTotals:
    """What the calls of a run used together."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: Decimal | None  # USD


async def get_answer(conn: Connection, key: str) -> str | None:
    """Return the stored answer to a question."""
    text: str | None = await fetch_value(conn, _SQL["get_answer"], {"key": key})
    return None if text is None else unescape(text)


async def load_spending(conn: Connection, run_id: str) -> RunSpending:
    """Lock a run's budget until the transaction ends, and return what the run has spent or reserved."""
    await execute(conn, _SQL["lock_budget"], {"run": run_id})
    return await _sum_spending(conn, run_id)


async def load_day(conn: Connection, model: str, since: datetime) -> DaySpending:
    """Lock a model's budget until the transaction ends; return what all runs have spent or reserved since a time."""
    await execute(conn, _SQL["lock_budget"], {"run": model})
    return await _sum_day(conn, model, since)


async def find_outage(conn: Connection, run_id: str) -> str | None:
    """Return why none of a run's calls was answered; None if one was, or none was made."""
    outcome = await fetch_value(conn, _SQL["outage"], {"run": run_id})
    return None if outcome is None else str(outcome).removeprefix("failed: ModelUnavailable: ")


delete_answer = Statement[str](_SQL["delete_answer"])
set_outcome = Statement[str, str](_SQL["set_outcome"], "id outcome")
prune = Statement[datetime](_SQL["prune"])
SUBMITTING = "submitting"  # status of a batch before the provider has given it an id


async def save_batch(conn: Connection, batch_id: str, keys: Sequence[str], *, now: datetime, due: datetime) -> None:
    """Store a batch that is about to be submitted, with its questions."""
    await execute(conn, _SQL["save_batch"], {"id": batch_id, "status": SUBMITTING, "now": now, "due": due})
    await execute(conn, _SQL["assign_questions"], {"batch": batch_id, "keys": list(keys)})


async def set_provider_id(conn: Connection, batch_id: str, provider_id: str, *, status: str, due: datetime) -> None:
    """Replace the id of a submitted batch by the one that its provider has given it."""
    values = {"id": batch_id, "new_id": provider_id, "status": status, "due": due}
    if await execute(conn, _SQL["set_provider_id"], values):
        await execute(conn, _SQL["move_questions"], values)


lock_queued = Rows[ModelQuestionRow, int](ModelQuestionRow, _SQL["lock_queued"])
finish_question = Statement[str, str](_SQL["finish_question"], "key status")
list_open = Rows[ModelBatchRow](ModelBatchRow, _SQL["list_open"])
list_unanswered = Rows[ModelQuestionRow, str](ModelQuestionRow, _SQL["list_unanswered"])
count_pending = Value[int](_SQL["count_pending"])
list_answered = ColumnSet[str, Sequence[str]](_SQL["list_answered"])
release_call = Statement[str](_SQL["release"], "call_id", may_be_charged=False)
load_totals = OneRow[CallTotals, str](CallTotals, _SQL["totals"])
get_question_status = Value[str | None, str](_SQL["get_question_status"])
mark_collected = Attempt[str](_SQL["mark_collected"], "batch_id")
count_failures = Pairs[str, int, str](_SQL["failures"])
reserve_call = Statement[CallReserve](_SQL["reserve"], "*")
settle_call = Statement[str, CallUsage](_SQL["settle"], "id *")
save_answer = Statement[str, str](_SQL["save_answer"], "key text")
queue_question = Attempt[ModelQuestionRow](_SQL["queue"], "*")  # False where it is queued already
take_turn = Value[float, float](_SQL["take_turn"], "seconds")
_sum_spending = OneRow[RunSpending, str](RunSpending, _SQL["spending"])
_sum_day = OneRow[DaySpending, str, datetime](DaySpending, _SQL["day"], "model since")


list_unread_sessions = Column[str](_SQL["unread_sessions"])
finish_waiting = Statement[str](_SQL["finish_waiting"])
list_waiting = Column[str](_SQL["list_waiting"])
stop_waiting = Statement[str](_SQL["stop_waiting"])
list_shareable = Pairs[str, list[str], Sequence[str]](_SQL["shareable"], "ids")
# Moves the watermarks of sessions, each (id, from, to); False where another process has moved one.
advance_watermarks = AttemptEach(_SQL["advance"], "id after upto", order="id")
