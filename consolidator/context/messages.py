"""Events as a conversation: turns whose calls stand with their results, rendered as OpenAI or Anthropic messages.

A call without a result, or a result without its call, is in no turn (I5); calls that still run are told apart. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from consolidator.models.event import Event
from consolidator.models.payload import EventType

MessageFormat = Literal["openai", "anthropic"]
MAX_RESULT_BYTES = 32 * 1024  # bytes of a tool's result that a context holds, unless its tool says otherwise
UNCERTAIN = (
    "The outcome of this call is not known: the process that ran it ended before the result was recorded. "
    "It may have had its effect. Do not repeat it; say so and ask."
)
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_HIDDEN_ORIGINS = frozenset({"memory"})  # what recall once put there; the context brings its own


@dataclass(slots=True)
class RequestedCall:
    """A tool call, and its result where there is one."""

    seq: int
    call_id: str
    tool: str
    arguments: str  # a JSON object
    result: str | None = None
    ok: bool = True
    result_seq: int = 0


@dataclass(slots=True)
class Turn:
    """What one side said at once: a person (or the harness to the model), or the model with its calls."""

    seq: int
    role: Literal["user", "assistant"]
    text: str
    message_id: str | None = None
    calls: list[RequestedCall] = field(default_factory=list)
    from_person: bool = False  # whether a person said it


@dataclass(slots=True)
class Conversation:
    """A stretch of a session as turns, oldest first, and its calls that have no result yet."""

    turns: list[Turn]
    open_calls: list[RequestedCall]


def build_conversation(events: Sequence[Event], limits: Mapping[str, int] | None = None) -> Conversation:
    """Return events as turns; `limits` are the most bytes of a result by its tool."""
    folding = _ConversationFold(limits or {})
    for event in events:
        take = _TAKES.get(event.type)
        if take is not None:
            take(folding, event)
    waiting = [call for turn in folding.turns for call in turn.calls if call.result is None]
    for turn in folding.turns:
        turn.calls = [call for call in turn.calls if call.result is not None]
    turns = [turn for turn in folding.turns if turn.calls or turn.text.strip()]
    return Conversation(turns, waiting)


class _ConversationFold:
    """Takes events in order of seq; a result belongs to the oldest call of its id that has none."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.turns: list[Turn] = []
        self._limits = limits
        self._waiting: dict[str, list[RequestedCall]] = {}
        self._answering: Turn | None = None  # the model's turn that a call may still belong to
        self._asked: dict[str, RequestedCall] = {}

    def person(self, event: Event) -> None:
        origin = event.data.get("origin", "user")
        if origin in _HIDDEN_ORIGINS:
            return
        text, speaker = str(event.data.get("text") or ""), event.data.get("speaker")
        self._say(event, f"{speaker}: {text}" if speaker else text, asks=origin == "user")

    def model(self, event: Event) -> None:
        message = event.data.get("message_id")
        self._answering = Turn(event.seq, "assistant", str(event.data.get("text") or ""), message)
        place = self._place(event.data.get("upto_seq", event.data.get("started_seq")))
        self.turns.insert(place, self._answering)
        if isinstance(held := event.data.get("held"), list):
            self._put_after(place, set(held))

    def _place(self, known: object) -> int:
        """Return where an answer stands: before what people said while it was on its way, which it did not know."""
        place = len(self.turns)
        if isinstance(known, int):
            while place and self.turns[place - 1].role == "user" and self.turns[place - 1].seq > known:
                place -= 1
        return place

    def _put_after(self, place: int, held: set[int]) -> None:
        """Have what people said, and the answer at a place was not shown, follow that answer."""
        before, after = self.turns[: place + 1], self.turns[place + 1 :]
        unknown = [turn for turn in before if turn.role == "user" and turn.seq in held]
        self.turns = [*(turn for turn in before if turn not in unknown), *unknown, *after] if unknown else self.turns

    def call(self, event: Event) -> None:
        message = event.data.get("message_id")
        if self._answering is None or (message or None) != (self._answering.message_id or None):
            self._answering = Turn(event.seq, "assistant", "", message)
            self.turns.append(self._answering)
        identity = str(event.data.get("call_id"))
        arguments = normalize_arguments(event.data.get("arguments"))
        asked = RequestedCall(event.seq, identity, str(event.data.get("tool") or ""), arguments)
        self._answering.calls.append(asked)
        self._waiting.setdefault(identity, []).append(asked)
        self._asked[identity] = asked

    def result(self, event: Event) -> None:
        waiting = self._waiting.get(str(event.data.get("call_id")))
        if not waiting:
            return
        asked = waiting.pop(0)
        asked.result_seq = event.seq
        asked.ok = event.data.get("status", "ok") == "ok"
        text = truncate_bytes(result_text(event.data.get("content")), self._limits.get(asked.tool, MAX_RESULT_BYTES))
        asked.result = _with_status(text, event.data)
        if self._answering is not None and not self._answering.message_id:
            self._answering = None  # without a name for it, what comes next is another answer

    def failure(self, event: Event) -> None:
        if not event.data.get("call_id"):  # of a call its result tells
            self._say(event, f"[harness: error: {truncate_middle(str(event.data.get('message') or ''), 1000)}]")

    def decision(self, event: Event) -> None:
        kind = event.data.get("decision")
        if kind == "call_settled":
            asked = self._asked.get(str(event.data.get("call_id")))
            of = f" of {asked.tool}" if asked else ""
            outcome = event.data.get("outcome") or event.data.get("status") or "settled"
            self._say(event, f"[harness: a person found out how call {event.data.get('call_id')}{of} went: {outcome}]")
        elif kind == "turn_interrupted":
            self._say(event, "[harness: the user interrupted the answer]")

    def _say(self, event: Event, text: str, *, asks: bool = False) -> None:
        self.turns.append(Turn(event.seq, "user", text, from_person=asks))
        self._answering = None if self._answering is None or not self._answering.message_id else self._answering


_TAKES = {
    EventType.USER_MESSAGE: _ConversationFold.person,
    EventType.ASSISTANT_RESPONSE: _ConversationFold.model,
    EventType.TOOL_CALL: _ConversationFold.call,
    EventType.TOOL_RESULT: _ConversationFold.result,
    EventType.ERROR: _ConversationFold.failure,
    EventType.POLICY_DECISION: _ConversationFold.decision,
}


def _with_status(text: str, data: Mapping[str, Any]) -> str:
    status = data.get("status", "ok")
    if status == "uncertain":
        return f"{UNCERTAIN}\n{text}" if text else UNCERTAIN
    if status == "ok":
        return text
    reason = data.get("reason")
    return f"[error: {reason}] {text}".rstrip() if reason else f"[error] {text}".rstrip()


def result_text(content: object) -> str:
    """Return a result's text: of JSON the JSON, of parts their texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content and all(isinstance(one, dict) and "text" in one for one in content):
        return "\n".join(str(one["text"]) for one in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def normalize_arguments(arguments: object) -> str:
    """Return arguments as a JSON object, which servers insist on; what the model wrote badly is kept as a string."""
    if isinstance(arguments, str):
        try:
            told = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict):
            return arguments or "{}"
        return json.dumps({"not_an_object": arguments}, ensure_ascii=False)
    if arguments is None:
        return "{}"
    told = arguments if isinstance(arguments, Mapping) else {"not_an_object": arguments}
    return json.dumps(told, ensure_ascii=False, default=str)


def truncate_bytes(text: str, limit: int) -> str:
    """Return a text of about `limit` bytes at most."""
    if len(text) * 4 <= limit:
        return text
    large = len(text.encode("utf-8", "surrogatepass"))
    return text if large <= limit else truncate_middle(text, len(text) * limit // large)


def truncate_middle(text: str, most: int) -> str:
    """Return the beginning and the end of a text of more than `most` characters, and how much is missing."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    note = f"\n[… {len(text) - most} characters left out; the log has them …]\n"
    return text[:head] + note + text[len(text) - tail :]


def render_messages(turns: Sequence[Turn], message_format: MessageFormat, *, before: str = "", after: str = "") -> list[dict[str, Any]]:
    """Return turns as messages; `before` and `after` are said in the user's place at the beginning and the end.

    Roles alternate, a user's message comes first, every call is followed by its result, and call ids are unique.
    """
    told = [Turn(0, "user", before), *turns] if before else list(turns)
    if told and told[0].role == "assistant":
        told.insert(0, Turn(0, "user", "[harness: what was said before this is left out]"))
    if after:
        told.append(Turn(0, "user", after))
    names = _Names()
    messages: list[dict[str, Any]] = []
    for turn in told:
        write = _openai if message_format == "openai" else _anthropic
        for message in write(turn, names):
            _put(messages, message)
    return messages


def _put(messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Append a message; to the one before where the same side goes on, since not every server takes two in a row."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != message["role"] or message["role"] == "tool" or last.get("tool_calls"):
        messages.append(message)
    elif isinstance(last["content"], str) and isinstance(message["content"], str) and not message.get("tool_calls"):
        last["content"] = f"{last['content']}\n\n{message['content']}"
    elif isinstance(last["content"], list):
        last["content"] += message["content"]
    else:
        last["content"] = "\n\n".join(part for part in (last["content"], message["content"]) if part)
        last["tool_calls"] = message["tool_calls"]


class _Names:
    """Gives each call of a context an id of its own that every server takes; real logs reuse theirs."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of(self, call: RequestedCall) -> str:
        name = call.call_id
        if name in self._used or not _IDENTITY.fullmatch(name):
            name = f"call_{call.seq}"
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name


def _openai(turn: Turn, names: _Names) -> list[dict[str, Any]]:
    text = _sendable(turn.text)
    if turn.role == "user":
        return [{"role": "user", "content": text}]
    if not turn.calls:
        return [{"role": "assistant", "content": text}]
    named = [(names.of(call), call) for call in turn.calls]
    calls = [
        {"id": name, "type": "function", "function": {"name": sanitize_tool_name(c.tool), "arguments": _sendable(c.arguments)}}
        for name, c in named
    ]
    results = [{"role": "tool", "tool_call_id": name, "content": _sendable(call.result or "")} for name, call in named]
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}, *results]


def _anthropic(turn: Turn, names: _Names) -> list[dict[str, Any]]:
    text = _sendable(turn.text)
    said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    if turn.role == "user":
        return [{"role": "user", "content": said}] if said else []
    named = [(names.of(call), call) for call in turn.calls]
    calls = [
        {"type": "tool_use", "id": name, "name": sanitize_tool_name(c.tool), "input": _input(c.arguments)} for name, c in named
    ]
    results = [_tool_result(name, call) for name, call in named]
    answer = [{"role": "assistant", "content": said + calls}]
    return [*answer, {"role": "user", "content": results}] if results else answer


def _input(arguments: str) -> Any:
    """Return arguments as a value, without what an escape in them makes of half a character."""
    return json.loads(_sendable(json.dumps(json.loads(arguments), ensure_ascii=False)))


def _tool_result(name: str, call: RequestedCall) -> dict[str, Any]:
    told = {"type": "tool_result", "tool_use_id": name, "content": _sendable(call.result or "")}
    return told if call.ok else {**told, "is_error": True}


def sanitize_tool_name(name: str) -> str:
    """Return a tool's name as servers take it."""
    return _NO_NAME.sub("_", name)[:64] or "tool"


def convert_tool_definitions(tools: Sequence[Mapping[str, Any]], message_format: MessageFormat) -> list[dict[str, Any]]:
    """Return OpenAI's definitions of function tools in a form."""
    if message_format == "openai":
        return [dict(tool) for tool in tools]
    functions = [tool.get("function", tool) for tool in tools]
    return [
        {"name": f["name"], "description": f.get("description", ""), "input_schema": f.get("parameters", {})}
        for f in functions
    ]


def _sendable(text: str) -> str:
    """Return a text that UTF-8 can hold: logs that were cut in the middle of an emoji hold lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
