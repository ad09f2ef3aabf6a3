"""Repeats what people and programs changed in a recorded session: its scratchpad and its tasks, at the same places.

What the model changed itself is no part of it: a rerun's model changes that again, or does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, find_role, role_of
from consolidator.runtime.changes import SessionChange, apply_change
from consolidator.runtime.scratchpad import ChangeScratchpad, ScratchpadEdit
from consolidator.runtime.tasks import OUTCOMES, FinishTask, StartTask

_PERSONS = (Role.USER, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a recorded session that was not the model's own."""

    seq: int
    change: SessionChange
    principal: str


def parse_change(event: Event) -> RecordedChange | None:
    """Return what a person or program changed by an event; None where it is none of that."""
    role = role_of(event.principal) or find_role(event.type, event.data)
    if role is Role.AGENT:
        return None
    change = _create_change(event, is_persons=role in _PERSONS)
    if change is None:
        return None
    principal = event.principal if event.principal and role in _PERSONS else Role.OPERATOR.value
    return RecordedChange(event.seq, change, principal)


def _create_change(event: Event, *, is_persons: bool) -> SessionChange | None:
    data = event.data
    if event.type is EventType.POLICY_DECISION and data.get("decision") == "scratchpad_set":
        text = str(data.get("text") or "")
        return ChangeScratchpad(ScratchpadEdit("replace", text), len(text))
    if not is_persons:  # the harness abandons the task of a session that ends
        return None
    if event.type is EventType.TASK_START:
        return StartTask(str(data.get("goal") or data.get("task_id")))
    if event.type is EventType.TASK_END and data.get("outcome") in OUTCOMES:
        return FinishTask(data["outcome"], data.get("note"))
    return None


class ChangeReplay:
    """Makes recorded changes in another session, each once, in their order."""

    def __init__(self, database: Database, session_id: str, changes: Iterable[RecordedChange]) -> None:
        self._database = database
        self._session_id = session_id
        self._changes = deque(changes)
        self._lock = asyncio.Lock()  # calls of one answer run side by side

    async def advance(self, seq: int) -> None:
        """Make the changes that the recording has before a seq; one that does not fit the rerun is left out."""
        async with self._lock:
            while self._changes and self._changes[0].seq < seq:
                recorded = self._changes.popleft()
                try:
                    await self._apply(recorded)
                except UsageError:  # a task that the rerun's model opened or ended otherwise
                    continue

    async def _apply(self, recorded: RecordedChange) -> None:
        now = self._database.clock.now()
        async with self._database.transaction() as conn:
            await apply_change(conn, self._session_id, recorded.change, principal=recorded.principal, now=now)
