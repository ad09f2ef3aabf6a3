"""Checkpoints: labelled points of sessions, in a table beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from consolidator.database import Connection
from consolidator.errors import NotFound
from consolidator.models.checkpoint import CheckpointRow
from consolidator.store.queries import Attempt, FirstRow, OneRow, Rows, Statement, fetch_one, load

_SQL = load("sessions/checkpoints")


@dataclass(frozen=True, slots=True)
class SpendSum:
    """What a session's model calls took."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD


async def get(conn: Connection, checkpoint_id: str) -> CheckpointRow:
    """Return a checkpoint; raise NotFound if there is none, or none any more."""
    checkpoint = await fetch_one(conn, CheckpointRow, _SQL["get"], {"id": checkpoint_id})
    if checkpoint is None:
        raise not_found(checkpoint_id)
    return checkpoint


def not_found(checkpoint_id: str) -> NotFound:
    """Return the error for a checkpoint that is not there."""
    return NotFound(
        f"no checkpoint {checkpoint_id!r}; they expire, and `consolidator session checkpoint SESSION --list` lists the "
        "ones left"
    )


delete_expired = Statement[datetime](_SQL["delete_expired"])


delete = Attempt[str](_SQL["delete"])
sum_spends = OneRow[SpendSum, str](SpendSum, _SQL["sum_spends"], "session_id")
add = Statement[CheckpointRow](_SQL["add"], "*")
get_latest = FirstRow[CheckpointRow, str](CheckpointRow, _SQL["get_latest"], "session")
list_unexpired = Rows[CheckpointRow, Sequence[str], datetime](CheckpointRow, _SQL["list_unexpired"], "sessions now")
