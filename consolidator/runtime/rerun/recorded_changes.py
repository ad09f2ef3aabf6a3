"""Repeats what people and programs did to a recorded session, at the same places: its scratchpad, tasks, and steers.

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
from consolidator.runtime.session.changes import SessionChange, apply_change
from consolidator.runtime.session.scratchpad import ChangeScratchpad, ScratchpadEdit
from consolidator.runtime.session.tasks import OUTCOMES, FinishTask, StartTask
from consolidator.runtime.turn.sessions import send_message

SURFACE = "rerun"  # where what was said is said again
_PERSONS = (Role.USER, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a recorded session that was not the model's own."""

    seq: int
    change: SessionChange
    principal: str


@dataclass(frozen=True, slots=True)
class RecordedSteer:
    """What a person said while a recorded session was at work."""

    seq: int
    text: str
    speaker: str | None


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
    """Makes recorded changes in another session, each once, in their order.

    While a turn runs, nothing is made that the recording has after the turn: `turn_end` is the seq at which it ended.
    """

    def __init__(self, database: Database, session_id: str, changes: Iterable[RecordedChange | RecordedSteer]) -> None:
        self._database = database
        self._session_id = session_id
        self._changes = deque(sorted(changes, key=lambda change: change.seq))
        self._lock = asyncio.Lock()  # calls of one answer run side by side
        self.turn_end: int | None = None  # None: the recording's last turn

    async def advance(self, seq: int) -> None:
        """Make the changes that the recording has before a seq; one that does not fit the rerun is left out."""
        limit = seq if self.turn_end is None else min(seq, self.turn_end)
        async with self._lock:
            while self._changes and self._changes[0].seq < limit:
                recorded = self._changes.popleft()
                try:
                    await self._apply(recorded)
                except UsageError:  # a task that the rerun's model opened or ended otherwise
                    continue

    def take_steer(self) -> RecordedSteer | None:
        """Return the next steer of the turn that just ended, for which the rerun's turn was too short; else None."""
        waiting = [change for change in self._changes if self.turn_end is None or change.seq < self.turn_end]
        steer = next((change for change in waiting if isinstance(change, RecordedSteer)), None)
        if steer is not None:
            self._changes.remove(steer)
        return steer

    async def _apply(self, recorded: RecordedChange | RecordedSteer) -> None:
        if isinstance(recorded, RecordedSteer):
            await send_message(
                self._database, self._session_id, recorded.text, mode="steer", speaker=recorded.speaker, surface=SURFACE
            )
            return
        now = self._database.clock.now()
        async with self._database.transaction() as conn:
            await apply_change(conn, self._session_id, recorded.change, principal=recorded.principal, now=now)
