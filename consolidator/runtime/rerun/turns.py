"""The turns of a session's log, and how those of two runs differ: messages, answers, calls, tokens and cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

from consolidator.database import Database
from consolidator.llm.prices import calculate_cost
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.runtime.session.access import read_past

T = TypeVar("T", "RecordedCall", "RecordedTurn")
Status = Literal["same", "changed", "removed", "added"]
_COUNTS = ("answers", "calls", "input_tokens", "cached_tokens", "output_tokens")
_PREVIEW = 300  # characters of a result that are shown


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
    result_seq: int = 0

    @property
    def compared(self) -> tuple[str | None, ...]:
        """What is the same of two calls that are the same."""
        return self.tool, self.arguments, self.status, self.result_hash

    def as_json(self) -> dict[str, Any]:
        """Return the call as JSON can hold it."""
        values = asdict(self) | {"arguments": json.loads(self.arguments)}
        del values["result_hash"], values["result_seq"]
        return values


@dataclass(slots=True)
class RecordedTurn:
    """A message of the user's side and what followed it, up to the next one."""

    seq: int  # of the message; 0 for what came before any
    message: str
    answers: list[str] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    speaker: str | None = None
    is_steer: bool = False  # whether it came while the turn before was under way

    def as_json(self) -> dict[str, Any]:
        """Return the turn without its calls as JSON can hold it."""
        return {"seq": self.seq, "message": self.message, "answers": self.answers, "figures": self.figures.as_json()}


class RunFold:
    """Folds events into turns."""

    def __init__(self) -> None:
        self.turns: list[RecordedTurn] = []
        self._open: dict[str, list[RecordedCall]] = {}  # calls without a result, by call_id: logs may reuse one
        self._answered: dict[str, RecordedTurn] = {}  # by message_id of the answer
        self._is_at_work = False  # whether a message is open, or the model is to go on after a call

    def feed(self, event: Event) -> None:
        """Take the next event."""
        data = event.data
        if event.is_user_message:
            is_steer = self._is_at_work and data.get("mode") == "steer" and bool(self.turns)
            text, speaker = str(data.get("text") or ""), data.get("speaker")
            self.turns.append(RecordedTurn(event.seq, text, speaker=speaker, is_steer=is_steer))
            self._is_at_work = True
        elif event.type is EventType.ASSISTANT_RESPONSE or (
            data.get("decision") == "turn_interrupted" and "usage" in data  # before it had any text
        ):
            self._add_answer(self._turn_of(event), event)
            self._is_at_work = self._is_at_work and event.type is not EventType.ASSISTANT_RESPONSE  # unless it calls
        elif event.type is EventType.TOOL_CALL:
            call = RecordedCall(event.seq, str(data.get("tool")), canonical_arguments(data.get("arguments")))
            turn = self._turn_of(event)
            turn.calls.append(call)
            turn.figures += Figures(calls=1)
            self._open.setdefault(str(data.get("call_id")), []).append(call)
            self._is_at_work = True
        elif event.type is EventType.TOOL_RESULT:
            waiting = self._open.get(str(data.get("call_id")))
            if waiting:
                call, content = waiting.pop(0), data.get("content")
                text = content if isinstance(content, str) else canonical_arguments(content)
                call.status = str(data.get("status") or "ok")
                call.result_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                call.result, call.result_seq = text[:_PREVIEW], event.seq

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
        tokens = {"input_tokens": read, "cached_tokens": cached, "output_tokens": written}
        cost = calculate_cost(str(event.data.get("model") or ""), **tokens) if counts else Decimal(0)
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
    status: Status

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        left, right = (None if side is None else side.as_json() for side in (self.left, self.right))
        return {"status": self.status, "left": left, "right": right}


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
    calls = tuple(Difference(old, new, _find_status(old, new, lambda call: call.compared)) for old, new in pairs)
    status = _find_status(left, right, lambda turn: turn.answers)
    if status == "same" and any(call.status != "same" for call in calls):
        status = "changed"
    return TurnDifference(left, right, status, calls)


def _find_status(left: T | None, right: T | None, compared: Callable[[T], object]) -> Status:
    if left is None or right is None:
        return "removed" if right is None else "added"
    return "same" if compared(left) == compared(right) else "changed"


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


async def read_turns(
    database: Database, session_id: str, *, after: int | None = None, limit: int = 2**62
) -> list[RecordedTurn]:
    """Return the turns of a session's first events after a position; results of calls as their hash and beginning."""
    fold = RunFold()
    async for event in read_past(database, session_id, after=after, limit=limit):
        fold.feed(event)
    return fold.turns
