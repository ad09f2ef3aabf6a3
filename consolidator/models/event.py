"""An event of a session's log: the row as memory and the front ends see it, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.models.payload import EventType


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was logged; `data` is complete (blobs are already followed)."""

    session_id: str
    seq: int  # dense in its session, from 1
    type: EventType
    data: Mapping[str, Any]
    created_at: datetime  # when it was ingested
    consolidated_at: datetime | None = None  # when it was learnt from
    task_id: str | None = None
    tool_name: str | None = None
    id: int | None = None

    @property
    def occurred_at(self) -> datetime:
        """When it happened by the foreign log's word, else when it was ingested."""
        told = self.data.get("occurred_at")
        return datetime.fromisoformat(told) if isinstance(told, str) else self.created_at


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is to be appended."""

    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    task_id: str | None = None
    tool_name: str | None = None
