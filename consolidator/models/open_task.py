"""The open task of a session: a fold of its task events, one task at a time. Pure.

The session's row caches the fold; the door that appends keeps it, and gives its id to every event in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType

_TASK_EVENTS = (EventType.TASK_START, EventType.TASK_END)
_MOVES = (*_TASK_EVENTS, EventType.SESSION_END)


def follow_task(open_task: str | None, event_type: EventType, data: Mapping[str, Any]) -> str | None:
    """Return the id of the task that is open after an event; None if none is."""
    if event_type is EventType.TASK_START:
        return str(data.get("task_id"))
    if event_type is EventType.SESSION_END or (
        event_type is EventType.TASK_END and str(data.get("task_id")) == open_task
    ):
        return None
    return open_task


def number_tasks(new_events: Sequence[NewEvent], open_task: str | None) -> tuple[list[NewEvent], str | None]:
    """Return events, each with the id of the task that it belongs to, and the task that is open after them.

    `open_task` is the one that is open before them. An event that names a task keeps it.
    """
    numbered = []
    for event in new_events:
        before, open_task = open_task, follow_task(open_task, event.type, event.data)
        own = event.data.get("task_id") if event.type in _TASK_EVENTS else before
        is_named = event.task_id is not None or not isinstance(own, str)
        numbered.append(event if is_named else replace(event, task_id=own))
    return numbered, open_task


def concern_task(new_events: Sequence[NewEvent]) -> bool:
    """Tell whether it matters to events which task is open: they get its id, or they change it."""
    return any(event.task_id is None or event.type in _MOVES for event in new_events)
