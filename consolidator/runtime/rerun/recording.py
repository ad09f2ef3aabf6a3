"""A recorded session as a rerun repeats it: what people said and changed, the results of its calls, and its turns.

A call with the same tool and arguments has the result that it had; what people and programs did is done again at the
same places. What the model changed itself is no part of it: a rerun's model changes that again, or does not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.prices import calculate_cost
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, find_role, role_of
from consolidator.models.session import SessionRow
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.access import read_past
from consolidator.runtime.session.changes import SessionChange, apply_change
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.session.scratchpad import ChangeScratchpad, ScratchpadEdit
from consolidator.runtime.session.tasks import OUTCOMES, FinishTask, StartTask
from consolidator.runtime.tools.tool import BoundCall, CallContext, Tool, Toolbox
from consolidator.runtime.turn.sessions import send_message
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import find_event, load_lineage

T = TypeVar("T", "RecordedCall", "RecordedTurn")
Status = Literal["same", "changed", "removed", "added"]
_COUNTS = ("answers", "calls", "input_tokens", "cached_tokens", "output_tokens")
_PREVIEW = 300  # characters of a result that are shown
PriceFunction = Callable[[str, int, int, int], Decimal | None]  # (model, input, cached, output tokens) -> USD


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run or a turn took."""

    answers: int = 0
    calls: int = 0
    input_tokens: int = 0  # cached ones included
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = Decimal(0)  # USD; None where a model's price is unknown

    def __add__(self, other: Figures) -> Figures:
        """Return the sum."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in _COUNTS}, cost=cost)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {**asdict(self), "cost": None if self.cost is None else f"{self.cost:f}"}


@dataclass(slots=True)
class RecordedCall:
    """A call of a tool, with its result as far as it is compared."""

    seq: int
    tool: str
    arguments: str  # canonical JSON
    status: str | None = None  # of the result; None where there is none
    result_hash: str | None = None
    result: str = ""  # its beginning

    @property
    def compared(self) -> tuple[str | None, ...]:
        """What is the same of two calls that are the same."""
        return self.tool, self.arguments, self.status, self.result_hash

    def as_json(self) -> dict[str, Any]:
        """Return the call as JSON can hold it."""
        values = asdict(self) | {"arguments": json.loads(self.arguments)}
        del values["result_hash"]
        return values


@dataclass(slots=True)
class RecordedTurn:
    """A message of the user's side and what followed it, up to the next one."""

    seq: int  # of the message; 0 for what came before any
    message: str
    answers: list[str] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def as_json(self) -> dict[str, Any]:
        """Return the turn without its calls as JSON can hold it."""
        return {"seq": self.seq, "message": self.message, "answers": self.answers, "figures": self.figures.as_json()}


class RunFold:
    """Folds events into turns."""

    def __init__(self, price: PriceFunction) -> None:
        self.turns: list[RecordedTurn] = []
        self._price = price
        self._open: dict[str, list[RecordedCall]] = {}  # calls without a result, by call_id: logs may reuse one
        self._answered: dict[str, RecordedTurn] = {}  # by message_id of the answer

    def feed(self, event: Event) -> None:
        """Take the next event."""
        data = event.data
        if event.is_user_message:
            self.turns.append(RecordedTurn(event.seq, str(data.get("text") or "")))
        elif event.type is EventType.ASSISTANT_RESPONSE or (
            data.get("decision") == "turn_interrupted" and "usage" in data  # before it had any text
        ):
            self._add_answer(self._turn_of(event), event)
        elif event.type is EventType.TOOL_CALL:
            call = RecordedCall(event.seq, str(data.get("tool")), canonical_arguments(data.get("arguments")))
            turn = self._turn_of(event)
            turn.calls.append(call)
            turn.figures += Figures(calls=1)
            self._open.setdefault(str(data.get("call_id")), []).append(call)
        elif event.type is EventType.TOOL_RESULT:
            waiting = self._open.get(str(data.get("call_id")))
            if waiting:
                call, content = waiting.pop(0), data.get("content")
                text = content if isinstance(content, str) else canonical_arguments(content)
                call.status = str(data.get("status") or "ok")
                call.result_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                call.result = text[:_PREVIEW]

    def _turn_of(self, event: Event) -> RecordedTurn:
        """Return the turn of the latest message that the model had seen; of a log that does not say, the latest."""
        message_id, upto, held = (event.data.get(name) for name in ("message_id", "upto_seq", "held"))
        turn = self._answered.get(str(message_id))
        if turn is None and isinstance(upto, int):
            unseen = held if isinstance(held, list) else ()
            turn = next((turn for turn in reversed(self.turns) if turn.seq <= upto and turn.seq not in unseen), None)
        if turn is None:
            if not self.turns:
                self.turns.append(RecordedTurn(0, ""))
            turn = self.turns[-1]
        if message_id is not None:
            self._answered[str(message_id)] = turn
        return turn

    def _add_answer(self, turn: RecordedTurn, event: Event) -> None:
        text, usage = str(event.data.get("text") or ""), event.data.get("usage")
        if text:
            turn.answers.append(text)
        counts = usage if isinstance(usage, dict) else {}
        read, cached, written = (int(counts.get(name) or 0) for name in ("input", "cached", "output"))
        cost = self._price(str(event.data.get("model") or ""), read, cached, written) if counts else Decimal(0)
        turn.figures += Figures(1, 0, read, cached, written, cost)


def canonical_arguments(arguments: Any) -> str:
    """Return a call's arguments as one text: equal arguments give equal texts, whatever the order of their names."""
    value = arguments
    if isinstance(arguments, str):  # as the model wrote them
        try:
            value = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            value = arguments
    return json.dumps(
        {} if value is None else value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str
    )


@dataclass(frozen=True, slots=True)
class Difference(Generic[T]):
    """A call or a turn of one run, or what stands in the same place of both."""

    left: T | None
    right: T | None
    is_equal: bool

    @property
    def status(self) -> Status:
        """How the two sides differ."""
        if self.left is None or self.right is None:
            return "removed" if self.right is None else "added"
        return "same" if self.is_equal else "changed"

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        sides = {"left": self.left, "right": self.right}
        values = {name: None if side is None else side.as_json() for name, side in sides.items()}
        return {"status": self.status, **values}


CallDifference = Difference[RecordedCall]


@dataclass(frozen=True, slots=True)
class TurnDifference(Difference[RecordedTurn]):
    """A turn of one run, or of both after the same message."""

    calls: tuple[CallDifference, ...]

    @property
    def answers_differ(self) -> bool:
        """Whether the model said something else."""
        return (self.left.answers if self.left else []) != (self.right.answers if self.right else [])

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        turn = self.left or self.right
        sides = super(TurnDifference, self).as_json()
        return {**sides, "message": turn.message if turn else "", "calls": [call.as_json() for call in self.calls]}


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two runs differ."""

    turns: tuple[TurnDifference, ...]
    left: Figures
    right: Figures

    @property
    def is_empty(self) -> bool:
        """Whether both runs said the same and called the same tools with the same arguments and results."""
        return not any(self.differences())

    def differences(self) -> Iterator[TurnDifference]:
        """Yield the turns that are not the same."""
        return (turn for turn in self.turns if turn.status != "same")

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it; of turns that are the same only their number."""
        return {
            "is_empty": self.is_empty,
            "turns": len(self.turns),
            "differences": [turn.as_json() for turn in self.differences()],
            "left": self.left.as_json(),
            "right": self.right.as_json(),
        }


def compare_runs(left: Sequence[RecordedTurn], right: Sequence[RecordedTurn]) -> Comparison:
    """Compare two runs, turn by turn.

    A turn is compared with one of the same message; one whose message the other run does not have there stands alone:
    a session may go on with something else than what is compared with it.
    """
    pairs = _align(left, right, lambda turn: turn.message, only_equal=True)
    sums = (sum((turn.figures for turn in turns), Figures()) for turns in (left, right))
    return Comparison(tuple(_compare_turns(*pair) for pair in pairs), *sums)


def _compare_turns(left: RecordedTurn | None, right: RecordedTurn | None) -> TurnDifference:
    pairs = _align(left.calls if left else [], right.calls if right else [], lambda call: (call.tool, call.arguments))
    calls = tuple(
        Difference(one, other, one is not None and other is not None and one.compared == other.compared)
        for one, other in pairs
    )
    is_equal = left is not None and right is not None and left.answers == right.answers
    return TurnDifference(left, right, is_equal and all(call.status == "same" for call in calls), calls)


def _align(
    left: Sequence[T], right: Sequence[T], identity: Callable[[T], object], *, only_equal: bool = False
) -> Iterator[tuple[T | None, T | None]]:
    """Yield two sequences side by side; what stands in the same place but differs is one pair.

    With `only_equal` it is none: each is by itself.
    """
    matcher = SequenceMatcher(None, list(map(identity, left)), list(map(identity, right)), autojunk=False)
    for kind, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        if kind == "replace" and only_equal:
            yield from ((item, None) for item in left[left_from:left_to])
            yield from ((None, item) for item in right[right_from:right_to])
        else:
            yield from zip_longest(left[left_from:left_to], right[right_from:right_to])


REPEATER = Viewer(surface="rerun")  # who says again what was said
_PERSONS = (Role.USER, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A person's message of a recorded session: one that began a turn, or a steer, said while one was under way."""

    seq: int
    text: str
    speaker: str | None


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a recorded session that was not the model's own."""

    seq: int
    change: SessionChange
    principal: str


Repeated = RecordedChange | RecordedMessage  # a message is a steer here


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


class ChangeReplay:
    """Makes recorded changes in another session, each once, in their order.

    While a turn runs, nothing is made that the recording has after the turn: `turn_end` is the seq at which it ended.
    """

    def __init__(
        self, database: Database, session_id: str, changes: Iterable[RecordedChange | RecordedMessage]
    ) -> None:
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

    def take_steer(self) -> RecordedMessage | None:
        """Return the next steer of the turn that just ended, for which the rerun's turn was too short; else None."""
        waiting = [change for change in self._changes if self.turn_end is None or change.seq < self.turn_end]
        steer = next((change for change in waiting if isinstance(change, RecordedMessage)), None)
        if steer is not None:
            self._changes.remove(steer)
        return steer

    async def _apply(self, recorded: Repeated) -> None:
        if isinstance(recorded, RecordedMessage):
            await send_message(
                self._database, self._session_id, recorded.text, mode="steer", speaker=recorded.speaker, viewer=REPEATER
            )
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


_LOOKBACK = 200  # events in which the message before a child's own events is looked for at once


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a recorded session has for a rerun."""

    messages: list[RecordedMessage]
    changes: list[RecordedChange]  # by people and programs, in their order
    steers: list[RecordedMessage]  # said while a turn was under way, and no part of `messages`
    calls: Recording


async def find_own_start(database: Database, session: SessionRow) -> int | None:
    """Return the seq of the person's message that a session answered first itself; None if there is none.

    Of a child that is its own first message, or the one that was open where it began; what its ancestors answered is
    not its own.
    """
    answered_first = False
    own: int | None = None
    async for event in read_past(database, session.id, after=session.base_seq):
        if event.is_user_message:
            own = event.seq
            break
        answered_first = answered_first or event.type is EventType.THINKING_START
    low = session.base_seq if answered_first else 0
    while low > 0:  # back to the message that was open, which is near in any case
        low, upto = max(low - _LOOKBACK, 0), low
        page = read_past(database, session.id, after=low, upto=upto)
        asked = [event.seq async for event in page if event.is_user_message]
        if asked:
            return asked[-1]
    return own


async def read_turns(
    database: Database, session_id: str, *, after: int | None = None, limit: int = 2**62
) -> list[RecordedTurn]:
    """Return the turns of a session's first events after a position; results of calls as their hash and beginning."""
    fold = RunFold(_price)
    async for event in read_past(database, session_id, after=after, limit=limit):
        fold.feed(event)
    return fold.turns


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

    messages: list[RecordedMessage] = []
    changes: list[RecordedChange] = []
    steers: list[RecordedMessage] = []
    is_at_work = False
    recording = Recording(load)
    calls: dict[str, list[Event]] = {}  # without a result, by call_id: logs may reuse one
    async for event in read_past(database, session_id, after=after):
        data = event.data
        if event.is_user_message:
            message = RecordedMessage(event.seq, str(data.get("text") or ""), data.get("speaker"))
            is_steer = is_at_work and data.get("mode") == "steer" and messages
            (steers if is_steer else messages).append(message)
            is_at_work = True
        elif event.type is EventType.ASSISTANT_RESPONSE:
            is_at_work = False  # unless it calls
        elif event.type is EventType.TOOL_CALL:
            is_at_work = True
            calls.setdefault(str(data.get("call_id")), []).append(event)
        elif event.type is EventType.TOOL_RESULT and (waiting := calls.get(str(data.get("call_id")))):
            call = waiting.pop(0)
            if data.get("status") != "uncertain":
                recording.add(str(call.data.get("tool")), call.data.get("arguments"), event.seq)
        elif (change := parse_change(event)) is not None:
            changes.append(change)
    return RecordedRun(messages, changes, steers, recording)


def _price(model: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> Decimal | None:
    return calculate_cost(model, input_tokens=input_tokens, cached_tokens=cached_tokens, output_tokens=output_tokens)
