"""A digest: all that is kept of a session's calls once its events are pruned."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class DigestRow:
    """One session's digest, a left fold over its calls, in a form that sums over sessions."""

    session_id: str
    agent: str
    project: str | None
    last_at: datetime
    calls: int
    sequence: bytes
    seqs: bytes
    keys: bytes
    counts: bytes
    terms: bytes
    quotes: bytes
    state: bytes
    error_state: bytes
    summary: dict[str, Any]
    version: str
    trace: bytes = b""
