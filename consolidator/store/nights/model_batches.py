"""Stores questions that go through the provider's batches, and these batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import as_jsonb
from consolidator.database.partitions import Connection
from consolidator.models.run import ModelBatchRow, ModelQuestionRow
from consolidator.store.queries import Rows, Statement, Value, execute, fetch_value, load

_SQL = load("nights/model_batches")
SUBMITTING = "submitting"  # status of a batch before the provider has given it an id


async def get_question_status(conn: Connection, key: str) -> str | None:
    """Return the status of a question; None where it was never put into a batch."""
    status: str | None = await fetch_value(conn, _SQL["get_question_status"], {"key": key})
    return status


async def queue_question(
    conn: Connection,
    key: str,
    body: Mapping[str, Any],
    *,
    purpose: str,
    model: str,
    run_id: str,
    session_id: str | None,
    call_id: str,
    now: datetime,
) -> bool:
    """Queue a question, with its request body, for the next batch; return False where it is queued already."""
    values = {"key": key, "body": as_jsonb(body), "purpose": purpose, "model": model, "now": now}
    values |= {"run_id": run_id, "session_id": session_id, "call_id": call_id}
    return bool(await execute(conn, _SQL["queue"], values))


async def save_batch(conn: Connection, batch_id: str, keys: Sequence[str], *, now: datetime, due: datetime) -> None:
    """Store a batch that is about to be submitted, with its questions."""
    await execute(conn, _SQL["save_batch"], {"id": batch_id, "status": SUBMITTING, "now": now, "due": due})
    await execute(conn, _SQL["assign_questions"], {"batch": batch_id, "keys": list(keys)})


async def set_provider_id(conn: Connection, batch_id: str, provider_id: str, *, status: str, due: datetime) -> None:
    """Replace the id of a submitted batch by the one that its provider has given it."""
    values = {"id": batch_id, "new_id": provider_id, "status": status, "due": due}
    if await execute(conn, _SQL["set_provider_id"], values):
        await execute(conn, _SQL["move_questions"], values)


async def mark_collected(conn: Connection, batch_id: str, *, status: str, now: datetime) -> bool:
    """Mark a batch as collected; return False where another replica has collected it."""
    return bool(await execute(conn, _SQL["mark_collected"], {"id": batch_id, "status": status, "now": now}))


lock_queued = Rows[ModelQuestionRow, int](ModelQuestionRow, _SQL["lock_queued"])
finish_question = Statement[str, str](_SQL["finish_question"], "key status")
list_open = Rows[ModelBatchRow](ModelBatchRow, _SQL["list_open"])
list_unanswered = Rows[ModelQuestionRow, str](ModelQuestionRow, _SQL["list_unanswered"])
count_pending = Value[int](int, _SQL["count_pending"])
