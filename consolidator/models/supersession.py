"""The chain of facts that took each other's place, and the versions of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from consolidator.models.fact import SupersededReason


@dataclass(frozen=True, slots=True)
class ChainedFactRow:
    """A fact of a chain: what it says, when that was true, and when it was believed."""

    id: str
    sentence: str
    valid_from: datetime
    valid_to: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: str | None
    superseded_reason: SupersededReason | None
    is_withdrawn: bool  # a person forgot or corrected it: by what is known now it was never true


@dataclass(frozen=True, slots=True)
class FactVersionRow:
    """A row of `fact_version`: what was believed of a fact until a moment."""

    fact_id: str
    until: datetime
    sentence: str
    valid_from: datetime
    valid_to: datetime | None
    superseded_at: datetime | None
    superseded_by: str | None = None
    superseded_reason: SupersededReason | None = None
