"""What wrote a row of memory, and when; what was erased."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Cause = Literal["run", "person", "review", "erasure"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Stamped on every fact, procedure and solution that is written."""

    run_id: str | None  # set if and only if the cause is a run
    cause: Cause
    now: datetime

    def columns(self) -> dict[str, Any]:
        """Return the columns of something that is published now."""
        stamp = {"learned_at": self.now, "updated_at": self.now, "retired_at": None}
        return {**stamp, "run_id": self.run_id, "cause": self.cause}


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure: what was erased, when and why; never what it said."""

    id: str
    session_id: str
    events: int
    derived: int
    reason: str
    erased_at: datetime


@dataclass(slots=True)
class Changes:
    """How many facts, solutions, lessons, and procedures worth telling were added, changed, reinforced or retired."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by kind and outcome

    def add(self, kind: str, outcome: str | None, times: int = 1) -> None:
        """Count what became of one thing or several; an outcome of None means that nothing has changed."""
        if outcome is not None and times:
            self.counts[kind][outcome] += times

    def summarize(self) -> str:
        """Return one line such as "facts: 2 added, 1 reinforced; procedures: 1 added"."""
        return "; ".join(
            f"{kind}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
            for kind, outcomes in sorted(self.counts.items())
        )
