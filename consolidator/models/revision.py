"""A revision of memory: what one model and prompt read in the log, and how much of the log they have read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A row of `revision`: a draft is compared, then promoted or discarded; what it replaced can be restored."""

    id: int
    model: str
    status: str
    choice: dict[str, Any]
    created_at: datetime
    promoted_at: datetime | None
