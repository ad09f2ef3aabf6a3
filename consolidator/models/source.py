"""What import remembers, so that nothing is imported twice, and nothing erased or pruned comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure: what was erased, when and why; never what it said."""

    id: str
    session_id: str
    events: int
    derived: int
    reason: str
    erased_at: datetime
