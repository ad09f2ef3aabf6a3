"""Calls of models: reserved, settled, answered, queued for a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.database.jsonb import escape, unescape
from consolidator.database.partitions import Connection
from consolidator.store.memory.digests import jsonb
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("nights/answers")


async def answer(conn: Connection, key: str) -> str | None:
    """Return what was answered to a question before."""
    found = await row(conn, _SQL["answer"], {"key": key})
    return None if found is None else unescape(found["text"])


async def save_answer(
    conn: Connection, key: str, text: str, *, purpose: str, model: str, run_id: str, now: datetime
) -> None:
    """Keep the answer to a question."""
    values = {"key": key, "purpose": purpose, "model": model, "text": escape(text), "run": run_id, "now": now}
    await execute(conn, _SQL["save_answer"], values)


async def drop_answer(conn: Connection, key: str) -> None:
    """Forget an answer that is none."""
    await execute(conn, _SQL["drop_answer"], {"key": key})


async def spent(conn: Connection, run_id: str, *, lock: bool = True) -> tuple[int, Decimal]:
    """Return the tokens and dollars that a run has spent or reserved; with `lock` nobody else reserves meanwhile."""
    if lock:
        await execute(conn, _SQL["lock_budget"], {"run": run_id})
    found = await row(conn, _SQL["spent"], {"run": run_id})
    assert found is not None
    return found["tokens"], Decimal(found["cost"])


async def reserve(conn: Connection, values: Mapping[str, Any]) -> None:
    """Write down a call before it is made."""
    await execute(conn, _SQL["reserve"], values)


async def settle_call(conn: Connection, call: str, values: Mapping[str, Any], *, now: datetime) -> None:
    """Write down what a call took."""
    await execute(conn, _SQL["settle"], {**values, "id": call, "now": now})


async def release(conn: Connection, call: str, *, outcome: str, now: datetime, paid: bool = False) -> None:
    """Give back the reserve of a call that gave nothing; with `paid` it is kept, since nobody knows what it cost."""
    await execute(conn, _SQL["release_call"], {"id": call, "outcome": outcome, "now": now, "paid": paid})


async def note_outcome(conn: Connection, call: str, outcome: str) -> None:
    """Write down what came of a settled call."""
    await execute(conn, _SQL["outcome"], {"id": call, "outcome": outcome})


async def totals(conn: Connection, run_id: str) -> Row:
    """Return what the calls of a run come to, with the commonest `failures`."""
    found = await row(conn, _SQL["totals"], {"run": run_id})
    assert found is not None
    return {
        **found,
        "failures": {r["outcome"]: r["count"] for r in await rows(conn, _SQL["failures"], {"run": run_id})},
    }


async def question(conn: Connection, key: str) -> Row | None:
    """Return a question that was put into a batch."""
    return await row(conn, _SQL["question"], {"key": key})


async def queue(conn: Connection, values: Mapping[str, Any]) -> bool:
    """Put a question where the next batch takes it from; False where it is there already."""
    return bool(await execute(conn, _SQL["queue"], {**values, "body": jsonb(values["body"])}))


async def queued(conn: Connection, *, limit: int) -> list[Row]:
    """Return questions that wait for a batch, locked until the transaction ends."""
    return await rows(conn, _SQL["queued"], {"limit": limit})


async def submitted(
    conn: Connection, batch: str, keys: Sequence[str], *, status: str, now: datetime, due: datetime
) -> None:
    """Write down that questions have gone off in a batch."""
    await execute(conn, _SQL["save_batch"], {"id": batch, "status": status, "now": now, "due": due})
    await execute(conn, _SQL["submitted"], {"batch": batch, "keys": list(keys)})


async def open_batches(conn: Connection) -> list[Row]:
    """Return the batches that have not been collected."""
    return await rows(conn, _SQL["open_batches"])


async def questions_of(conn: Connection, batch: str) -> list[Row]:
    """Return what a batch has not answered yet."""
    return await rows(conn, _SQL["questions_of"], {"batch": batch})


async def end_question(conn: Connection, key: str, *, status: str) -> None:
    """Say that a question was answered, or that its batch failed it."""
    await execute(conn, _SQL["end_question"], {"key": key, "status": status})


async def take_batch(conn: Connection, batch: str, *, status: str, now: datetime) -> bool:
    """Say that a batch is collected; False where another replica was faster."""
    return bool(await execute(conn, _SQL["take_batch"], {"id": batch, "status": status, "now": now}))


async def rename_batch(conn: Connection, batch: str, new: str, *, status: str, due: datetime) -> None:
    """Give a batch the name that its provider has for it."""
    values = {"id": batch, "new": new, "status": status, "due": due}
    if await execute(conn, _SQL["rename_batch"], values):
        await execute(conn, _SQL["rename_questions"], values)


async def awaited(conn: Connection) -> Row:
    """Return how many `questions` of how many `sessions` are in batches."""
    found = await row(conn, _SQL["awaited"])
    assert found is not None
    return found


async def prune(conn: Connection, *, before: datetime) -> int:
    """Forget answers that are older than what is kept of the log; return how many."""
    return await execute(conn, _SQL["prune"], {"before": before})
