"""A failed call of a session, and what resolved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text


@dataclass(frozen=True, slots=True)
class ErrorRecordRow:
    """A failed call as it is stored; `fix_shape` and `merged` are set by the merge that publishes its solution."""

    session_id: str
    seq: int
    agent: str
    project: str | None
    fingerprint: str
    status: str
    record: dict[str, Any]


_LATEST_FIRST = (
    text("(record ->> 'occurred_at') desc"),
    text("session_id desc"),
    text("seq desc"),
)
