"""Seals: what each night says about the chains of the sessions that it learned from, for whoever checks the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SealRow:
    """One seal; a copy of it that is kept elsewhere proves everything that it and the seals before it cover."""

    number: int
    run_id: str | None
    sealed_at: datetime
    sessions: int
    root: bytes


@dataclass(frozen=True, slots=True)
class SealedSessionRow:
    """A session as far as it was learned from."""

    session_hash: bytes
    seq: int
    hash: bytes
    seal: int | None
