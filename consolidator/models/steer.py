"""Steers, and how tasks ended: of which steer the task succeeded after it is known as soon as both are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SteerOutcome = Literal["succeeded", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class SteerRow:
    """A message with which a person steered; it outlives its event."""

    session_id: str
    seq: int
    task: str | None  # a hash of the id of the task that was open


@dataclass(frozen=True, slots=True)
class TaskOutcomeRow:
    """How a task ended, in the log of one session; it outlives its event."""

    session_id: str
    seq: int
    task: str  # a hash of its id
    outcome: SteerOutcome


@dataclass(frozen=True, slots=True)
class SteerCounts:
    """How many steers said something, and what became of the tasks that they were given in."""

    steers: int = 0
    succeeded: int = 0
    failed: int = 0  # of the rest nobody knows

    def __str__(self) -> str:
        times = "once" if self.steers == 1 else f"{self.steers} times"
        unknown = self.steers - self.succeeded - self.failed
        counts = ((self.succeeded, "succeeded"), (self.failed, "failed"), (unknown, "without a known outcome"))
        return f"steered {times}; the task after it: " + ", ".join(f"{count} {how}" for count, how in counts if count)
