"""A recorded session as a rerun repeats it: what people said and changed, and the results of its calls.

A call with the same tool and arguments has the result that it had; what people and programs did is done again at the
same places. What the model changed itself is no part of it: a rerun's model changes that again, or does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, find_role, role_of
from consolidator.models.session import SessionRow
from consolidator.models.viewer import Viewer
from consolidator.runtime.rerun.turns import RecordedTurn, RunFold, canonical_arguments
from consolidator.runtime.session.access import read_past
from consolidator.runtime.session.changes import SessionChange, apply_change
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.session.scratchpad import ChangeScratchpad, ScratchpadEdit
from consolidator.runtime.session.tasks import OUTCOMES, FinishTask, StartTask
from consolidator.runtime.tools.tool import BoundCall, CallContext, Tool, Toolbox
from consolidator.runtime.turn.sessions import send_message
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import find_event, load_lineage, read_latest

REPEATER = Viewer(surface="rerun")  # who says again what was said
_PERSONS = (Role.USER, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a recorded session that was not the model's own."""

    seq: int
    change: SessionChange
    principal: str


Repeated = RecordedChange | RecordedTurn  # of a turn, the steer that began it


def parse_change(event: Event) -> RecordedChange | None:
    """Return what a person or program changed by an event; None where it is none of that."""
    role = role_of(event.principal) or find_role(event.type, event.data)
    if role is Role.AGENT:
        return None
    data, is_persons = event.data, role in _PERSONS  # the harness abandons the task of a session that ends
    change: SessionChange
    if event.type is EventType.POLICY_DECISION and data.get("decision") == "scratchpad_set":
        text = str(data.get("text") or "")
        change = ChangeScratchpad(ScratchpadEdit("replace", text), len(text))
    elif is_persons and event.type is EventType.TASK_START:
        change = StartTask(str(data.get("goal") or data.get("task_id")))
    elif is_persons and event.type is EventType.TASK_END and data.get("outcome") in OUTCOMES:
        change = FinishTask(data["outcome"], data.get("note"))
    else:
        return None
    return RecordedChange(event.seq, change, event.principal if event.principal and is_persons else Role.OPERATOR.value)


async def say_again(
    database: Database, session_id: str, turn: RecordedTurn, mode: Literal["steer", "message"] = "message"
) -> None:
    """Say in another session what a person said in the recorded one."""
    await send_message(database, session_id, turn.message, mode=mode, speaker=turn.speaker, viewer=REPEATER)


class ChangeReplay:
    """Makes recorded changes in another session, each once, in their order.

    While a turn runs, nothing is made that the recording has after the turn: `turn_end` is the seq at which it ended.
    """

    def __init__(self, database: Database, session_id: str, changes: Iterable[Repeated]) -> None:
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

    def take_steer(self) -> RecordedTurn | None:
        """Return the next steer of the turn that just ended, for which the rerun's turn was too short; else None."""
        steer = next((change for change in self._changes if isinstance(change, RecordedTurn)), None)
        if steer is None or (self.turn_end is not None and steer.seq >= self.turn_end):
            return None
        self._changes.remove(steer)
        return steer

    async def _apply(self, recorded: Repeated) -> None:
        if isinstance(recorded, RecordedTurn):
            await say_again(self._database, self._session_id, recorded, mode="steer")
            return
        now = self._database.clock.now()
        async with self._database.transaction() as conn:
            await apply_change(conn, self._session_id, recorded.change, principal=recorded.principal, now=now)


@dataclass(slots=True)
class Recording:
    """The results of a session's calls, each to be used once, in their order."""

    load: Callable[[int], Awaitable[Outcome | None]]  # the result that the log has at a seq
    advance: Callable[[int], Awaitable[None]] | None = None  # has happen what the log has before a seq
    _seqs: dict[tuple[str, str], deque[int]] = field(default_factory=dict)
    used: int = 0
    missed: int = 0  # calls that the recording does not have, or not so often

    def add(self, tool: str, arguments: Any, result_seq: int) -> None:
        """Note that a call has its result at a seq."""
        self._seqs.setdefault((tool, canonical_arguments(arguments)), deque()).append(result_seq)

    async def take(self, tool: str, arguments: Any) -> Outcome | None:
        """Return the next recorded result of a call; None where there is none left."""
        seq = await self.pass_by(tool, arguments)
        outcome = None if seq is None else await self.load(seq)
        if outcome is None:
            self.missed += 1
        else:
            self.used += 1
        return outcome

    async def pass_by(self, tool: str, arguments: Any) -> int | None:
        """Return the seq of the next recorded result of a call, after what came before it; None where there is none."""
        seqs = self._seqs.get((tool, canonical_arguments(arguments)))
        if not seqs:
            return None
        seq = seqs.popleft()
        if self.advance is not None:
            await self.advance(seq)
        return seq


class RecordedToolbox(Toolbox):
    """Tools whose calls are answered from a recording; a call that it does not have is not run.

    With `live` such a call does run where its tool has no side effect. What changes only the session itself, always.
    """

    def __init__(self, tools: Iterable[Tool], recording: Recording, *, live: bool = False) -> None:
        super().__init__(replace(tool, needs_approval=False) for tool in tools)  # nothing happens that needs one
        self.recording = recording
        self._live = live

    def limited(self, names: Iterable[str] | None) -> RecordedToolbox:
        """Return the toolbox with those tools alone; with None, itself."""
        if names is None:
            return self
        allowed = set(names)
        tools = [tool for name in self.names if name in allowed and (tool := self.get(name))]
        return RecordedToolbox(tools, self.recording, live=self._live)

    def in_dry_run(self) -> RecordedToolbox:
        """Return itself: what the recording does not answer is a dry run already."""
        return self

    async def run(self, name: str, arguments: str | Mapping[str, Any] | None, call: CallContext) -> Outcome:
        """Answer a call from the recording, else as a dry run."""
        tool = self.get(name)
        if tool is not None and tool.changes_session:
            await self.recording.pass_by(name, arguments)
            return await super().run(name, arguments, call)
        recorded = await self.recording.take(name, arguments)
        if recorded is not None:
            return recorded
        if tool is not None and not (self._live and not tool.side_effect):
            text = canonical_arguments(arguments)
            return Outcome(f"Dry run: {name} was not run. It would have been called with {text}.")
        return await super().run(name, arguments, call)


def stand_in(name: str) -> Tool:
    """Return a tool that is known by its name alone: it takes any arguments, and runs nothing."""

    def run_nothing() -> None:
        """A tool of the recorded session."""

    def bind(arguments: Mapping[str, Any], call: CallContext) -> BoundCall:
        return run_nothing

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return Tool(name, "A tool of the recorded session.", schema, run_nothing, bind)


_LOOKBACK = 100  # messages among which the one that is open before a child's own events is looked for


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a recorded session has for a rerun."""

    turns: list[RecordedTurn]
    changes: list[RecordedChange]  # by people and programs, in their order
    calls: Recording

    @property
    def messages(self) -> list[RecordedTurn]:
        """The turns whose message waited for the end of the one before."""
        return [turn for turn in self.turns if not turn.is_steer]

    def list_repeated(self, *, after: int) -> list[Repeated]:
        """Return what was done while a turn was under way: changes and steers."""
        repeated: list[Repeated] = [*self.changes, *(turn for turn in self.turns if turn.is_steer)]
        return [each for each in repeated if each.seq > after]


async def find_own_start(database: Database, session: SessionRow) -> int | None:
    """Return the seq of the person's message that a session answered first itself; None if there is none.

    Of a child that is its own first message, or the one that was open where it began; what its ancestors answered is
    not its own.
    """
    looks_back = session.base_seq > 0
    async for event in read_past(database, session.id, after=session.base_seq):
        if event.is_user_message:
            return event.seq
        if looks_back and event.type is EventType.THINKING_START:  # it answered what was open where it began
            looks_back = False
            async with database.connection() as conn:
                lineage = await load_lineage(conn, session.id, session)
                types, upto = [EventType.USER_MESSAGE], session.base_seq
                messages = await read_latest(conn, lineage, types, upto=upto, limit=_LOOKBACK)
            seqs = [message.seq for message in messages if message.is_user_message]
            if seqs:
                return seqs[-1]
    return None


async def read_recording(database: Database, session_id: str, *, after: int) -> RecordedRun:
    """Return what people said and changed after a position, and the results of its calls, which are read when used."""

    async def load(seq: int) -> Outcome | None:
        async with database.connection() as conn:
            session = await sessions.get(conn, session_id)
            event = await find_event(conn, await load_lineage(conn, session_id, session), seq)
        if event is None:
            return None
        data = event.data
        status: Literal["ok", "error"] = "error" if data.get("status") == "error" else "ok"
        return Outcome(data.get("content", ""), status, data.get("reason"), data.get("state_patch"))

    fold, changes = RunFold(), list[RecordedChange]()
    async for event in read_past(database, session_id, after=after):
        fold.feed(event)
        if (change := parse_change(event)) is not None:
            changes.append(change)
    recording = Recording(load)
    calls = [call for turn in fold.turns for call in turn.calls if call.status not in (None, "uncertain")]
    for call in sorted(calls, key=lambda call: call.result_seq):
        recording.add(call.tool, call.arguments, call.result_seq)
    return RecordedRun([turn for turn in fold.turns if turn.seq], changes, recording)
