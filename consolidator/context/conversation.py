"""Folds events into a conversation: turns in which every call stands with its result.

No turn holds a call without a result, or a result without a call (I5); calls that still run are listed apart. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from consolidator.models.event import Event
from consolidator.models.payload import EventType

MAX_RESULT_BYTES = 32 * 1024  # of a tool's result in a context, unless its tool sets another limit
UNCERTAIN = (
    "The outcome of this call is not known: the process that ran it ended before the result was recorded. "
    "It may have had its effect. Do not repeat it; say so and ask."
)
_HIDDEN_ORIGINS = frozenset({"memory"})  # memory recalled earlier; a context brings its own


@dataclass(slots=True)
class RequestedCall:
    """A tool call, and its result if there is one."""

    seq: int
    call_id: str
    tool: str
    arguments: str  # a JSON object
    result: str | None = None
    ok: bool = True
    result_seq: int = 0


RenderedTurn = tuple[str, tuple[str, ...], list[dict[str, Any]]]  # format, ids of the calls, messages


@dataclass(slots=True)
class Turn:
    """One side's contribution: a message to the model by a person or the harness, or an answer with its calls."""

    seq: int
    role: Literal["user", "assistant"]
    text: str
    message_id: str | None = None
    calls: list[RequestedCall] = field(default_factory=list)
    from_person: bool = False
    tokens: int | None = field(default=None, compare=False, repr=False)  # once they are counted
    messages: RenderedTurn | None = field(default=None, compare=False, repr=False)  # once it is rendered


@dataclass(slots=True)
class Conversation:
    """A range of a session as turns, oldest first, and its calls that have no result yet."""

    turns: list[Turn]
    open_calls: list[RequestedCall]
    sizes: list[int] = field(default_factory=list)  # tokens of the turns, where they are counted


def build_conversation(events: Sequence[Event], limits: Mapping[str, int] | None = None) -> Conversation:
    """Return events as turns; `limits` maps a tool to the maximum bytes of its results."""
    fold = ConversationFold(limits or {})
    for event in events:
        fold.feed(event)
    return fold.conversation()


class ConversationFold:
    """Folds events in order of seq; a result belongs to the oldest call with its id that has no result."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.turns: list[Turn] = []
        self._limits = limits
        self._unanswered: dict[str, list[RequestedCall]] = {}  # by call id
        self._answer: Turn | None = None  # the model's turn that the next call may belong to
        self._latest_calls: dict[str, RequestedCall] = {}  # by call id
        self._open_calls = 0
        self._blank: list[Turn] = []  # turns without a text, which are none until they have a call

    def conversation(self) -> Conversation:
        """Return what was folded so far; more can be folded afterwards."""
        self._blank = [turn for turn in self._blank if not turn.calls]
        if not self._open_calls and not self._blank:
            return Conversation(list(self.turns), [])
        open_calls = [call for turn in self.turns for call in turn.calls if call.result is None]
        turns = [_without_open_calls(turn) for turn in self.turns] if open_calls else self.turns
        return Conversation([turn for turn in turns if turn.calls or not _is_blank(turn.text)], open_calls)

    def feed(self, event: Event) -> None:
        """Add the next event."""
        match event.type:
            case EventType.USER_MESSAGE:
                self._add_message(event)
            case EventType.ASSISTANT_RESPONSE:
                self._add_answer(event)
            case EventType.TOOL_CALL:
                self._add_call(event)
            case EventType.TOOL_RESULT:
                self._add_result(event)
            case EventType.ERROR:
                if not event.data.get("call_id"):  # the result of a call shows its error
                    message = truncate_middle(str(event.data.get("message") or ""), 1000)
                    self._add_user_turn(event, f"[harness: error: {message}]")
            case EventType.POLICY_DECISION:
                self._add_decision(event)
            case (
                EventType.SESSION_START | EventType.SESSION_END | EventType.THINKING_START | EventType.TASK_START
                | EventType.TASK_END | EventType.SUBAGENT_SPAWN | EventType.SUBAGENT_COMPLETE
                | EventType.APPROVAL_REQUESTED | EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED
            ):  # fmt: skip
                pass
            case _:
                assert_never(event.type)

    def _add_message(self, event: Event) -> None:
        origin = event.data.get("origin", "user")
        if origin in _HIDDEN_ORIGINS:
            return
        text, speaker = str(event.data.get("text") or ""), event.data.get("speaker")
        self._add_user_turn(event, f"{speaker}: {text}" if speaker else text, from_person=origin == "user")

    def _add_answer(self, event: Event) -> None:
        message_id = event.data.get("message_id")
        self._answer = self._note_blank(Turn(event.seq, "assistant", str(event.data.get("text") or ""), message_id))
        index = self._find_answer_index(event.data.get("upto_seq", event.data.get("started_seq")))
        self.turns.insert(index, self._answer)
        if isinstance(withheld := event.data.get("held"), list):  # messages that the answer did not see stand behind it
            before, after = self.turns[: index + 1], self.turns[index + 1 :]
            unseen = [turn for turn in before if turn.role == "user" and turn.seq in withheld]
            self.turns = [*(turn for turn in before if turn not in unseen), *unseen, *after] if unseen else self.turns

    def _note_blank(self, turn: Turn) -> Turn:
        if _is_blank(turn.text):
            self._blank.append(turn)
        return turn

    def _find_answer_index(self, last_seen_seq: object) -> int:
        """Return where an answer stands: before the messages that arrived while it was generated, which it missed."""
        index = len(self.turns)
        if isinstance(last_seen_seq, int):
            while index and self.turns[index - 1].role == "user" and self.turns[index - 1].seq > last_seen_seq:
                index -= 1
        return index

    def _add_call(self, event: Event) -> None:
        message_id = event.data.get("message_id")
        if self._answer is None or (message_id or None) != (self._answer.message_id or None):
            self._answer = Turn(event.seq, "assistant", "", message_id)
            self.turns.append(self._answer)
        call_id = str(event.data.get("call_id"))
        arguments = normalize_arguments(event.data.get("arguments"))
        call = RequestedCall(event.seq, call_id, str(event.data.get("tool") or ""), arguments)
        self._answer.calls.append(call)
        self._answer.tokens = self._answer.messages = None
        self._open_calls += 1
        self._unanswered.setdefault(call_id, []).append(call)
        self._latest_calls[call_id] = call

    def _add_result(self, event: Event) -> None:
        unanswered = self._unanswered.get(str(event.data.get("call_id")))
        if not unanswered:
            return
        call = unanswered.pop(0)
        self._open_calls -= 1
        call.result_seq = event.seq
        call.ok = event.data.get("status", "ok") == "ok"
        text = truncate_bytes(result_text(event.data.get("content")), self._limits.get(call.tool, MAX_RESULT_BYTES))
        call.result = _prefix_status(text, event.data)
        if note := event.data.get("note"):
            call.result = f"{call.result}\n[harness: {truncate_middle(str(note), 1000)}]"
        if self._answer is not None and not self._answer.message_id:
            self._answer = None  # without a message id, the next call belongs to another answer

    def _add_decision(self, event: Event) -> None:
        decision = event.data.get("decision")
        if decision == "call_settled":
            call = self._latest_calls.get(str(event.data.get("call_id")))
            of_tool = f" of {call.tool}" if call else ""
            outcome = event.data.get("outcome") or event.data.get("status") or "settled"
            self._add_user_turn(
                event, f"[harness: a person found out how call {event.data.get('call_id')}{of_tool} went: {outcome}]"
            )
        elif decision == "turn_interrupted":
            self._add_user_turn(event, "[harness: the user interrupted the answer]")
        elif decision == "turn_stopped":
            self._add_user_turn(event, "[harness: the user stopped the turn]")

    def _add_user_turn(self, event: Event, text: str, *, from_person: bool = False) -> None:
        self.turns.append(self._note_blank(Turn(event.seq, "user", text, from_person=from_person)))
        self._answer = None if self._answer is None or not self._answer.message_id else self._answer


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _without_open_calls(turn: Turn) -> Turn:
    if all(call.result is not None for call in turn.calls):
        return turn
    return replace(turn, calls=[call for call in turn.calls if call.result is not None], tokens=None, messages=None)


def _prefix_status(text: str, data: Mapping[str, Any]) -> str:
    status = data.get("status", "ok")
    if status == "uncertain":
        return f"{UNCERTAIN}\n{text}" if text else UNCERTAIN
    if status == "ok":
        return text
    reason = data.get("reason")
    return f"[error: {reason}] {text}".rstrip() if reason else f"[error] {text}".rstrip()


def result_text(content: object) -> str:
    """Return a result's content as text: joined parts, or JSON for anything else that is no string."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content and all(isinstance(part, dict) and "text" in part for part in content):
        return "\n".join(str(part["text"]) for part in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def normalize_arguments(arguments: object) -> str:
    """Return arguments as a JSON object, which servers require; malformed ones are kept in it as a string."""
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return arguments or "{}"
        return json.dumps({"not_an_object": arguments}, ensure_ascii=False)
    if arguments is None:
        return "{}"
    value = arguments if isinstance(arguments, Mapping) else {"not_an_object": arguments}
    return json.dumps(value, ensure_ascii=False, default=str)


def truncate_bytes(text: str, limit: int) -> str:
    """Return a text of about `limit` bytes at most."""
    if len(text) * 4 <= limit:
        return text
    size = len(text.encode("utf-8", "surrogatepass"))
    return text if size <= limit else truncate_middle(text, len(text) * limit // size)


def fit_text(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return a text of at most so many tokens, but for the note about what is missing: its beginning and its end."""
    tokens = count(text)
    return text if tokens <= max_tokens else truncate_middle(text, len(text) * max_tokens // tokens)


def truncate_middle(text: str, max_chars: int) -> str:
    """Return a text; if it is longer than `max_chars`, only its beginning and end, and how much is missing."""
    if len(text) <= max_chars:
        return text
    head = max_chars * 2 // 3
    tail = max_chars - head
    note = f"\n[… {len(text) - max_chars} characters left out; the log has them …]\n"
    return text[:head] + note + text[len(text) - tail :]


MESSAGE_TOKENS, CALL_TOKENS = 8, 24  # overhead of a message and of a call, an upper estimate
_MIN_TEXT_TOKENS = 24  # a shorter text is not shortened further
_CALL_TEXTS = ("result", "arguments")
TokenCounter = Callable[[str], int]
_TextField = tuple[Turn | RequestedCall, str]  # a text in a turn: the object and its attribute


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The turns of a context, oldest first."""

    turns: list[Turn]
    tokens: int
    truncated: bool  # whether earlier turns did not fit


def count_turn_tokens(turn: Turn, count: TokenCounter) -> int:
    """Return an upper estimate of a turn's tokens."""
    calls = sum(
        CALL_TOKENS + MESSAGE_TOKENS + count(call.tool) + count(call.arguments) + count(call.result or "")
        for call in turn.calls
    )
    return MESSAGE_TOKENS + count(turn.text) + calls


def known_turn_tokens(turn: Turn, count: TokenCounter) -> int:
    """Return a turn's tokens; they are counted once for a turn that stays as it is."""
    if turn.tokens is None:
        turn.tokens = count_turn_tokens(turn, count)
    return turn.tokens


def fit_turns(
    turns: Sequence[Turn], budget: int, count: TokenCounter, *, stride: int = 1, sizes: Sequence[int] | None = None
) -> ContextWindow:
    """Return the latest turns within a budget; `sizes` are their tokens, where they are counted already.

    The person's last message is always included, because it states the task. If turns are left out, the window begins
    at a multiple of `stride` events, so that the next windows begin with the same messages.
    """
    sizes = [known_turn_tokens(turn, count) for turn in turns] if sizes is None else list(sizes)
    if sum(sizes) <= budget:
        return ContextWindow(list(turns), sum(sizes), truncated=False)
    latest = len(turns) - 1
    task = next((index for index in range(latest, -1, -1) if turns[index].from_person), None)
    shrunk: dict[int, Turn] = {}
    first, available = latest + 1, budget

    def shrink(index: int, limit: int) -> None:
        shrunk[index] = shrink_turn(turns[index], limit, count)
        sizes[index] = known_turn_tokens(shrunk[index], count)

    if task is not None:
        # Other turns get at least a quarter of the budget, unless the task is the last turn.
        limit = budget if task == latest else budget * 3 // 4
        if sizes[task] > limit:
            shrink(task, limit)
        available -= sizes[task]
    for index in range(latest, -1, -1):
        if index == task:
            first = index
            continue
        if sizes[index] > available and index == latest and available > 0:
            shrink(index, available)
            first = index if sizes[index] <= available else first
            break
        if sizes[index] > available:
            break
        available -= sizes[index]
        first = index
    selected = [*range(first, latest + 1)] if task is None or task >= first else [task, *range(first, latest + 1)]
    selected = _align_start(selected, turns, sizes, task, stride, budget)
    window = [shrunk.get(index) or turns[index] for index in selected]
    return ContextWindow(window, sum(sizes[index] for index in selected), truncated=True)


def _align_start(
    selected: list[int], turns: Sequence[Turn], sizes: Sequence[int], task: int | None, stride: int, budget: int
) -> list[int]:
    """Drop the oldest turns up to a multiple of `stride`, unless that would leave half of the budget unused."""
    first = next((index for index in selected if index != task), None)
    if first is None or stride <= 1:
        return selected
    start_seq = -(-turns[first].seq // stride) * stride
    aligned = [index for index in selected if index == task or turns[index].seq >= start_seq]
    return aligned if sum(sizes[index] for index in aligned) * 2 >= budget else selected


def shrink_turn(turn: Turn, budget: int, count: TokenCounter) -> Turn:
    """Return a turn whose longest texts are shortened until it fits or cannot be shortened further."""
    shrunk = replace(turn, calls=[replace(call) for call in turn.calls], tokens=None, messages=None)
    for _ in range(64):
        excess = count_turn_tokens(shrunk, count) - budget
        if excess <= 0:
            return shrunk
        fields: list[_TextField] = [(shrunk, "text"), *((call, name) for call in shrunk.calls for name in _CALL_TEXTS)]
        largest = max(fields, key=lambda text_field: count(_read_text(text_field)))
        tokens = count(_read_text(largest))
        if tokens <= _MIN_TEXT_TOKENS:
            return shrunk
        _shorten_text(largest, max(_MIN_TEXT_TOKENS // 2, min(tokens - excess, tokens * 9 // 10)) / tokens)
    return shrunk


def _read_text(text_field: _TextField) -> str:
    return getattr(*text_field) or ""


def _shorten_text(text_field: _TextField, share: float) -> None:
    """Shorten a text to a share of itself; cut it hard if the note about the gap would make it longer."""
    text = _read_text(text_field)
    max_chars = int(len(text) * share)
    if text_field[1] == "arguments":
        short = _truncate_arguments(text, share)
    else:
        short = truncate_middle(text, max_chars)
        short = short if len(short) < len(text) else text[:max_chars]
    setattr(*text_field, short)


def _truncate_arguments(arguments: str, share: float) -> str:
    """Return the beginning of arguments as a JSON object with the number of characters that are missing."""
    value = json.loads(arguments)
    is_truncated = value.keys() == {"left_out", "begins"}
    begins, left_out = (str(value["begins"]), int(value["left_out"])) if is_truncated else (arguments, 0)
    prefix = begins[: int(len(begins) * share)]
    return json.dumps({"left_out": left_out + len(begins) - len(prefix), "begins": prefix}, ensure_ascii=False)
