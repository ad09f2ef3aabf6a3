"""Reads steers and the ends of tasks, each from its one event, so that their order and the nights between are the same.

Which task a steer was given in, and how that task ended later, tells whether the steer helped.
"""

from __future__ import annotations

from collections.abc import Iterable

from consolidator.memory.facts.candidates import Candidate, hash_texts
from consolidator.models.event import Event
from consolidator.models.fact import CitedCandidateRow
from consolidator.models.payload import EventType
from consolidator.models.session import SteerCounts, SteerOutcome, SteerRow, TaskOutcomeRow

_OUTCOMES: dict[str, SteerOutcome] = {"success": "succeeded", "failure": "failed"}  # any other one tells nothing


def read_steering(event: Event, session_id: str) -> SteerRow | TaskOutcomeRow | None:
    """Return the steer or the end of a task that an event is; None for all other events."""
    if event.type is EventType.USER_MESSAGE and event.data.get("mode") == "steer" and event.is_persons_word:
        return SteerRow(session_id, event.seq, hash_texts(event.task_id) if event.task_id else None)
    if event.type is EventType.TASK_END and (task := event.task_id or str(event.data.get("task_id") or "")):
        outcome = _OUTCOMES.get(str(event.data.get("outcome")), "unknown")
        return TaskOutcomeRow(session_id, event.seq, hash_texts(task), outcome)
    return None


def count_steers(candidates: Iterable[Candidate | CitedCandidateRow]) -> SteerCounts:
    """Count the steers among candidates; what several candidates read in one steer counts once."""
    outcomes = {(cited.session_id, cited.seq): cited.steer for cited in candidates if cited.steer is not None}
    values = list(outcomes.values())
    return SteerCounts(len(values), values.count("succeeded"), values.count("failed"))
