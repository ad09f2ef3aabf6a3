"""What wrote a row of memory, and when; what was erased."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Cause = Literal["run", "person", "review", "erasure"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Stamped on every fact, procedure and solution that is written."""

    run_id: str | None  # set if and only if the cause is a run
    cause: Cause
    now: datetime


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure: what was erased, when and why; never what it said."""

    id: str
    session_id: str
    events: int
    derived: int
    reason: str
    erased_at: datetime
