"""Read exchanges of OpenAI's chat completions and responses and of Anthropic's messages: a request, and its reply.

Pure: bytes and JSON in, chat messages and drafts of events out. A conversation is known by the hash of its messages, so
that a request continues the session that answered the messages before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.formats.base import ForeignEvent
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.drafts import object_of, objects_of
from consolidator.formats.common.json_parsing import parse_json
from consolidator.formats.openai import responses
from consolidator.formats.openai.conversation import ChatRecord
from consolidator.models.payload import EventType

Message = dict[str, Any]  # in the form of chat completions
MAX_TOKENS = 10**12  # of an exchange; a server that says more is not believed
MAX_REPLY_BYTES = 32 * 1024 * 1024  # of a reply that is read; a longer one is passed on and not kept


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of an exchange, as its server counted them."""

    input_tokens: int = 0  # the cached ones included
    cached_tokens: int = 0
    output_tokens: int = 0


def read_messages(body: Mapping[str, Any]) -> list[Message]:
    """Return a request's messages as chat messages; an Anthropic one's blocks are taken apart."""
    if "messages" not in body:
        return responses.read_request(body)
    messages: list[Message] = []
    if body.get("system") and objects_of(body["messages"]):
        messages.append({"role": "system", "content": extract_text(body["system"])})
    for message in objects_of(body.get("messages")):
        blocks = message.get("content")
        if isinstance(blocks, list) and any(block.get("type") in _BLOCKS for block in objects_of(blocks)):
            messages.extend(_split_blocks(str(message.get("role")), objects_of(blocks)))
        else:
            messages.append(message)
    return messages


_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def _split_blocks(role: str, blocks: list[dict[str, Any]]) -> Iterator[Message]:
    """Yield an answer with its calls; or results, and what came beside them, which nobody typed."""
    if role == "assistant":
        yield _answer_of(blocks)
        return
    others: list[dict[str, Any]] = []
    call_id = ""
    for block in blocks:
        if block.get("type") == "tool_result":
            call_id = str(block.get("tool_use_id") or "")
            content = extract_text(block.get("content"))
            is_error = block.get("is_error") is True
            yield {"role": "tool", "tool_call_id": call_id, "content": content, "is_error": is_error}
        else:
            others.append(block)
    if others:
        yield {"role": role, "content": others, "tool_call_id": call_id}


def _answer_of(blocks: Iterable[dict[str, Any]]) -> Message:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        if block.get("type") == "text":
            texts.append(str(block.get("text") or ""))
        elif block.get("type") == "tool_use":
            calls.append(
                {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
            )
    return {"role": "assistant", "content": "\n".join(texts), "tool_calls": calls}


def hash_messages(messages: Iterable[Message]) -> list[str]:
    """Return for each message the hash of all up to it; what clients change when they send it again does not count."""
    digest = hashlib.sha256()
    hashes = []
    for message in messages:
        if message.get("role") not in ("system", "developer"):  # a client may put the time into its instructions
            digest.update(json.dumps(_identity(message), sort_keys=True, default=str).encode() + b"\n")
        hashes.append(digest.hexdigest())
    return hashes


def _identity(message: Message) -> list[Any]:
    calls = []
    for call in objects_of(message.get("tool_calls")):
        function = object_of(call.get("function"))
        calls.append([call.get("id"), function.get("name"), _arguments(function.get("arguments"))])
    text = extract_text(message.get("content")).strip()
    return [message.get("role"), text, calls, str(message.get("tool_call_id") or "")]


def _arguments(value: Any) -> Any:
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def last_answer(messages: Sequence[Message]) -> int:
    """Return how many messages there are up to the last answer, which a client sends back; 0 if there is none."""
    return next(
        (number for number in range(len(messages), 0, -1) if messages[number - 1].get("role") == "assistant"), 0
    )


def draft_events(messages: Sequence[Message], new: int) -> list[ForeignEvent]:
    """Return the events of the last `new` messages; those before say which calls are answered."""
    record = ChatRecord({}, "exchange", "proxy")
    drafted: list[ForeignEvent] = []
    for number, message in enumerate(messages):
        if message.get("role") in ("system", "developer"):
            continue
        events = [item for item in record.read_message(message, None) if isinstance(item, ForeignEvent)]
        if number >= len(messages) - new:
            drafted.extend(event for event in events if event.type is not EventType.SESSION_START)
    return drafted


@dataclass(slots=True)
class ReplyReader:
    """Puts a reply together from its bytes, whole or a stream of server-sent events, while they are passed on."""

    is_stream: bool
    is_finished: bool = False
    usage: Usage = Usage()
    response_id: str | None = None  # by which a later request may continue it
    _buffer: bytearray = field(default_factory=bytearray)
    _size: int = 0
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    _items: list[dict[str, Any]] = field(default_factory=list)  # of a response

    def feed(self, piece: bytes) -> None:
        """Read on; `is_finished` is set where the reply is whole."""
        self._size += len(piece)
        if self._size > MAX_REPLY_BYTES:
            self._buffer.clear()
            return
        self._buffer += piece
        if not self.is_stream:
            return
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            if line.startswith(b"data:"):
                self._read_data(line[5:].strip())

    def close(self) -> None:
        """Read what arrived as one reply, if it is no stream."""
        if self.is_stream or not self._buffer:
            return
        reply = _load(self._buffer)
        if isinstance(reply.get("output"), list):
            self._read_response(reply)
            return
        self._count(object_of(reply.get("usage")))
        choices = objects_of(reply.get("choices"))
        if choices:
            self._read_delta(object_of(choices[0].get("message")))
        elif isinstance(reply.get("content"), list):
            self._read_delta(_answer_of(objects_of(reply["content"])))
        self.is_finished = bool(self._text or self._calls)

    @property
    def message(self) -> Message:
        """The reply as a chat message."""
        calls = [self._calls[index] for index in sorted(self._calls)]
        return {"role": "assistant", "content": "".join(self._text), "tool_calls": calls}

    def _read_data(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.is_finished = True
            return
        event = _load(data)
        self._count(object_of(event.get("usage")) or object_of(object_of(event.get("message")).get("usage")))
        for choice in objects_of(event.get("choices")):
            if choice.get("index", 0) == 0:
                self._read_delta(object_of(choice.get("delta")))
        index, delta = event.get("index", 0), object_of(event.get("delta"))
        match event.get("type"):
            case "content_block_start":
                block = object_of(event.get("content_block"))
                if block.get("type") == "tool_use":
                    self._add_call(index, block.get("id"), block.get("name"), "")
                elif block.get("type") == "text" and self._text:
                    self._text.append("\n")
            case "content_block_delta" if (
                isinstance(index, int) and index in self._calls
            ):  # its server's tools make none
                self._add_call(index, None, None, delta.get("partial_json"))
            case "content_block_delta" if delta.get("text"):
                self._text.append(str(delta["text"]))
            case "message_stop":
                self.is_finished = True
            case "response.output_item.done":
                self._items.append(object_of(event.get("item")))
            case "response.completed" | "response.incomplete":
                self._read_response(object_of(event.get("response")))

    def _read_response(self, response: Mapping[str, Any]) -> None:
        """Read a whole response; a server may leave out the items that it has streamed."""
        if response.get("status") in ("failed", "cancelled", "queued", "in_progress"):
            return
        self._count(object_of(response.get("usage")))
        self._read_delta(responses.read_answer(objects_of(response.get("output")) or self._items))
        self.response_id = str(response.get("id") or "") or None
        self.is_finished = True  # also where its server's own tools are all that it holds

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        """Read a message or a part of one, in the form of chat completions."""
        self._text.append(extract_text(delta.get("content")) or extract_text(delta.get("refusal")))
        for position, call in enumerate(objects_of(delta.get("tool_calls"))):
            function, index = object_of(call.get("function")), call.get("index", position)
            self._add_call(index, call.get("id"), function.get("name"), function.get("arguments"))

    def _add_call(self, index: Any, call_id: Any, name: Any, arguments: Any) -> None:
        """Add what came of a call: its arguments as parts of a text, or as a value, which a text does not follow."""
        number = index if isinstance(index, int) else len(self._calls)
        call = self._calls.setdefault(number, {"id": None, "function": {"name": "", "arguments": ""}})
        function = call["function"]
        call["id"] = call["id"] or call_id
        function["name"] += str(name or "")
        if isinstance(arguments, str) and isinstance(function["arguments"], str):
            function["arguments"] += arguments
        elif arguments is not None:
            function["arguments"] = arguments

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Take what the server counted; Anthropic's tells the cached tokens beside the others, and in parts."""
        if not usage:
            return
        cached = _number(usage.get("cache_read_input_tokens"))
        beside = cached + _number(usage.get("cache_creation_input_tokens"))
        details = object_of(usage.get("prompt_tokens_details")) or object_of(usage.get("input_tokens_details"))
        inside = _number(details.get("cached_tokens"))
        sent = _number(usage.get("prompt_tokens")) or _number(usage.get("input_tokens")) + beside
        output = _number(usage.get("completion_tokens")) or _number(usage.get("output_tokens"))
        earlier = self.usage
        self.usage = Usage(
            max(sent, earlier.input_tokens),
            max(cached, inside, earlier.cached_tokens),
            max(output, earlier.output_tokens),
        )


def _load(data: bytes | bytearray) -> dict[str, Any]:
    try:
        return object_of(parse_json(bytes(data)))
    except ValueError:
        return {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value <= MAX_TOKENS else 0
