"""Compares two runs of the same messages: what was answered, which tools were called with what, tokens and cost. Pure.

`RunFold` folds the events of each run into turns; `compare_runs` aligns the turns by their messages and, in each pair,
the calls by tool and arguments. Results are compared by their hash, and shown by their beginning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any, Literal

from consolidator.models.event import Event
from consolidator.models.payload import EventType

Status = Literal["same", "changed", "removed", "added"]
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
        return Figures(
            self.answers + other.answers,
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {**asdict(self), "cost": None if self.cost is None else str(self.cost)}


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
    def identity(self) -> tuple[str, str]:
        """What makes two calls the same call."""
        return self.tool, self.arguments

    def as_json(self) -> dict[str, Any]:
        """Return the call as JSON can hold it."""
        arguments = json.loads(self.arguments)
        return {
            "seq": self.seq,
            "tool": self.tool,
            "arguments": arguments,
            "status": self.status,
            "result": self.result,
        }


@dataclass(slots=True)
class RecordedTurn:
    """A message of the user's side and what followed it, up to the next one."""

    seq: int  # of the message; 0 for what came before any
    message: str
    answers: list[str] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)


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
        if event.type is EventType.USER_MESSAGE:
            if data.get("origin", "user") == "user":
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
                _add_result(waiting.pop(0), event)

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


def _add_result(call: RecordedCall, event: Event) -> None:
    content = event.data.get("content")
    text = content if isinstance(content, str) else canonical_arguments(content)
    call.status = str(event.data.get("status") or "ok")
    call.result_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    call.result = text[:_PREVIEW]


@dataclass(frozen=True, slots=True)
class CallDifference:
    """A call of one run, or the same place of both."""

    status: Status
    left: RecordedCall | None
    right: RecordedCall | None

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        return {
            "status": self.status,
            "left": None if self.left is None else self.left.as_json(),
            "right": None if self.right is None else self.right.as_json(),
        }


@dataclass(frozen=True, slots=True)
class TurnDifference:
    """A turn of one run, or of both after the same message."""

    status: Status
    left: RecordedTurn | None
    right: RecordedTurn | None
    calls: tuple[CallDifference, ...]

    @property
    def answers_differ(self) -> bool:
        """Whether the model said something else."""
        return (self.left.answers if self.left else []) != (self.right.answers if self.right else [])

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON can hold it."""
        turn = self.left or self.right
        return {
            "status": self.status,
            "message": "" if turn is None else turn.message,
            "left": None if self.left is None else _turn_as_json(self.left),
            "right": None if self.right is None else _turn_as_json(self.right),
            "calls": [call.as_json() for call in self.calls],
        }


def _turn_as_json(turn: RecordedTurn) -> dict[str, Any]:
    return {"seq": turn.seq, "message": turn.message, "answers": turn.answers, "figures": turn.figures.as_json()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two runs differ."""

    turns: tuple[TurnDifference, ...]
    left: Figures
    right: Figures

    @property
    def is_empty(self) -> bool:
        """Whether both runs said the same and called the same tools with the same arguments and results."""
        return all(turn.status == "same" for turn in self.turns)

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
    pairs = _align([turn.message for turn in left], [turn.message for turn in right], only_equal=True)
    turns = tuple(
        _compare_turns(None if one is None else left[one], None if other is None else right[other])
        for one, other in pairs
    )
    return Comparison(turns, _sum_up(left), _sum_up(right))


def _compare_turns(left: RecordedTurn | None, right: RecordedTurn | None) -> TurnDifference:
    left_calls, right_calls = left.calls if left else [], right.calls if right else []
    pairs = _align([call.identity for call in left_calls], [call.identity for call in right_calls])
    calls = tuple(
        _compare_calls(None if one is None else left_calls[one], None if other is None else right_calls[other])
        for one, other in pairs
    )
    if left is None or right is None:
        return TurnDifference("removed" if right is None else "added", left, right, calls)
    is_same = left.answers == right.answers and all(call.status == "same" for call in calls)
    return TurnDifference("same" if is_same else "changed", left, right, calls)


def _compare_calls(left: RecordedCall | None, right: RecordedCall | None) -> CallDifference:
    if left is None or right is None:
        return CallDifference("removed" if right is None else "added", left, right)
    is_same = left.identity == right.identity and (left.status, left.result_hash) == (right.status, right.result_hash)
    return CallDifference("same" if is_same else "changed", left, right)


def _align(
    left: Sequence[object], right: Sequence[object], *, only_equal: bool = False
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of two sequences side by side; what stands in the same place but differs is one pair.

    With `only_equal` it is none: each is by itself.
    """
    opcodes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for kind, left_from, left_to, right_from, right_to in opcodes:
        common = 0 if only_equal and kind == "replace" else min(left_to - left_from, right_to - right_from)
        yield from ((left_from + place, right_from + place) for place in range(common))
        yield from ((place, None) for place in range(left_from + common, left_to))
        yield from ((None, place) for place in range(right_from + common, right_to))


def _sum_up(turns: Sequence[RecordedTurn]) -> Figures:
    return sum((turn.figures for turn in turns), Figures())
