"""Reads steers and the ends of tasks, each from its one event, so that their order and the nights between are the same.

Which task a steer was given in, and how that task ended later, tells whether the steer helped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.steer import SteerCounts, SteerOutcome

_OUTCOMES: dict[str, SteerOutcome] = {"success": "succeeded", "failure": "failed"}  # any other one tells nothing


@dataclass(frozen=True, slots=True)
class Steer:
    """A message with which a person steered."""

    seq: int
    task: str | None  # a hash of the id of the task that was open


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of a task."""

    seq: int
    task: str  # a hash of its id
    outcome: SteerOutcome


def read_steering(event: Event) -> Steer | TaskOutcome | None:
    """Return the steer or the end of a task that an event is; None for all other events."""
    if event.type is EventType.USER_MESSAGE and event.data.get("mode") == "steer" and event.is_persons_word:
        return Steer(event.seq, _hash_task(event.task_id) if event.task_id else None)
    if event.type is EventType.TASK_END and (task := event.task_id or str(event.data.get("task_id") or "")):
        return TaskOutcome(event.seq, _hash_task(task), _OUTCOMES.get(str(event.data.get("outcome")), "unknown"))
    return None


def _hash_task(task_id: str) -> str:
    """Return what stands for a task: its id may be any text."""
    return hashlib.blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Steered(Protocol):
    """A candidate: where it was said, and the outcome of that steer; None if its words are no steer's."""

    @property
    def session_id(self) -> str: ...

    @property
    def seq(self) -> int: ...

    @property
    def steer(self) -> SteerOutcome | None: ...


def count_steers(candidates: Iterable[Steered]) -> SteerCounts:
    """Count the steers among candidates; what several candidates read in one steer counts once."""
    outcomes = {(cited.session_id, cited.seq): cited.steer for cited in candidates if cited.steer is not None}
    values = list(outcomes.values())
    return SteerCounts(len(values), values.count("succeeded"), values.count("failed"))
