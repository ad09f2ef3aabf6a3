"""A checkpoint: a labelled point of a session's log, to restore from; it points, and copies nothing of the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.models import ESCAPED


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as it is stored."""

    id: str
    session_id: str
    seq: int
    label: str | None = field(metadata=ESCAPED)
    metadata: dict[str, Any]
    delta: dict[str, Any]
    fold: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None

    def has_expired(self, now: datetime) -> bool:
        """Whether nothing can be restored from it any more."""
        return self.expires_at is not None and self.expires_at <= now
