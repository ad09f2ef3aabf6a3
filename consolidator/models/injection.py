"""An injection: what a hook put into an agent's context, and whether it was of use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Moment = Literal["session_start", "prompt", "before_call", "failure"]
Correction = Literal["possible", "made", "shadow"]  # shadow: nobody was told, it is only counted
FixOutcome = Literal["worked", "failed", "not_tried"]


@dataclass(frozen=True, slots=True)
class TellingRow:
    """That a session was told a lesson."""

    session_id: str
    lesson_id: str
    at: datetime
    call_id: str | None = None  # of the call that it was about
    moment: str = "session_start"
    correction: Correction | None = None  # of a call about to run


@dataclass(frozen=True, slots=True)
class InjectionRow:
    """A row of `injection`; it holds citations, and of a fix the call that was suggested."""

    id: str
    session_id: str
    agent: str
    project: str | None
    moment: str
    cited: list[str]
    tokens: int
    call_id: str | None
    fix: dict[str, Any]
    outcome: str | None
    created_at: datetime
