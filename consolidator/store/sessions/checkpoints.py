"""Checkpoints: labelled points of sessions, in a table beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from consolidator.models.lineage import CheckpointRow
from consolidator.store.queries import Attempt, FirstRow, OneRow, Rows, Statement, load

_SQL = load("sessions/checkpoints")


@dataclass(frozen=True, slots=True)
class SpendSum:
    """What a session's model calls took."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal  # USD


MISSING = "no checkpoint {!r}; they expire, and `consolidator session checkpoint SESSION --list` lists the ones left"
get = OneRow[CheckpointRow, str](CheckpointRow, _SQL["get"], missing=MISSING)
delete_expired = Statement[datetime](_SQL["delete_expired"])
delete = Attempt[str](_SQL["delete"])
sum_spends = OneRow[SpendSum, str](SpendSum, _SQL["sum_spends"], "session_id")
add = Statement[CheckpointRow](_SQL["add"], "*")
get_latest = FirstRow[CheckpointRow, str](CheckpointRow, _SQL["get_latest"], "session")
list_unexpired = Rows[CheckpointRow, Sequence[str], datetime](CheckpointRow, _SQL["list_unexpired"], "sessions now")
