"""What recall searches: episodes, facts as they are indexed, the words of both, and their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """A row of `episode`: the text of one turn as it is searched, redacted and bounded."""

    id: int
    session_id: str
    seq: int
    scope: int
    role: str
    speaker: str | None
    text: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class IndexedFactRow:
    """A fact as the index has it, without its agent; compared with the fact, it shows what changed since."""

    id: str
    number: int
    scope: int
    text: str
