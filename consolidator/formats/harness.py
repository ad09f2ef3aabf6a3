"""Read and write harness logs: JSONL of {"ts", "type", "id", "payload"}, one session per file, lossless both ways.

GEN_START and GEN_CHUNK are not events: their text is in the AssistantResponse of GEN_COMPLETE. The original lines are
kept in the next event, in data["harness"]["before"], so that writing restores them all.

A generation that never completes becomes an AssistantResponse with "incomplete": true and its text so far. If a later
import of the same file completes it, the log has both events, and writing writes each line once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from consolidator.errors import InvalidEvent
from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.fields import derive_origin, occurred_at_field
from consolidator.formats.common.jsonl import encode_line, guard_line, join_surrogates, parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.models.event import Event
from consolidator.models.payload import EventType, check_payload

EVENT_TYPES = {
    "MESSAGE_RECEIVED": EventType.USER_MESSAGE,
    "LLM_CALLED": EventType.THINKING_START,
    "GEN_COMPLETE": EventType.ASSISTANT_RESPONSE,
    "GEN_SENT": EventType.POLICY_DECISION,
    "GEN_RESUMED": EventType.POLICY_DECISION,
    "TOOL_INVOKED": EventType.TOOL_CALL,
    "TOOL_RESULT": EventType.TOOL_RESULT,
    "TOOL_FAILED_UNCERTAIN": EventType.TOOL_RESULT,
    "SESSION_TERMINATED": EventType.SESSION_END,
}
GENERATION_TYPES = ("GEN_START", "GEN_CHUNK")

# Fields whose names differ: name in the payload -> name in the event.
_FIELD_NAMES = {
    EventType.THINKING_START: {"msg_id": "message_id", "context_strategy": "strategy"},
    EventType.ASSISTANT_RESPONSE: {"msg_id": "message_id"},
    EventType.POLICY_DECISION: {"msg_id": "message_id"},
    EventType.TOOL_CALL: {"msg_id": "message_id", "name": "tool", "args": "arguments"},
    # A blob of another system; data_ref in an event refers to our own blobs.
    EventType.TOOL_RESULT: {"data_ref": "blob_ref"},
}
# The event's name for the one large field, and its names in harness logs; the first is the one to write.
_BODY_FIELDS = {
    EventType.USER_MESSAGE: ("text", ("text", "content")),
    EventType.TOOL_RESULT: ("content", ("content", "result", "output", "data", "error")),
}
SENT = "delivered"  # the decision that says that a channel received a message
_META = "harness"
_RESERVED_FIELDS = ("v", "occurred_at", _META, "incomplete", "status", "decision")  # never taken from a payload
_REASONS = ("rejected", "aborted", "cascade", "timeout")


def to_event_data(kind: str, line: Mapping[str, Any], payload: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """Return the event's data for a line; `text` is the text of its generation's chunks, if it had any."""
    event_type = EVENT_TYPES[kind]
    names = _FIELD_NAMES.get(event_type, {})
    meta: dict[str, Any] = {}
    data: dict[str, Any] = {}
    body, candidates = _BODY_FIELDS.get(event_type, ("", ()))
    body_name = next((name for name in candidates if name in payload), None)
    if body_name is not None:
        data[body] = payload[body_name]
        if body_name != body:
            meta["body"] = body_name
    for name, value in payload.items():
        event_name = names.get(name, name)
        if event_type is EventType.TOOL_RESULT and event_name == "reason" and value not in _REASONS:
            event_name = "remark"
        if name != body_name and event_name not in data and event_name not in _RESERVED_FIELDS:
            data[event_name] = value
    data |= _required_fields(kind, line, payload, data, text, meta)
    timestamp = line.get("ts")
    data |= occurred_at_field(timestamp)
    if timestamp is not None and timestamp != _timestamp(data):
        meta["ts"] = timestamp
    if line.get("id") is not None:
        meta["id"] = line["id"]
    return data | {_META: meta}


def _required_fields(
    kind: str,
    line: Mapping[str, Any],
    payload: Mapping[str, Any],
    data: Mapping[str, Any],
    text: str | None,
    meta: dict[str, Any],
) -> dict[str, Any]:
    """Return the fields that an event of this kind must have, whatever the payload contains."""
    if kind == "MESSAGE_RECEIVED":
        text = data.get("text")
        is_persons = payload.get("role") in (None, "user", "human") and isinstance(text, str)
        message: dict[str, Any] = {"text": _to_text(text)}
        return message if is_persons or text is None else message | {"origin": "harness"}
    if kind == "GEN_COMPLETE":
        if text is None and isinstance(payload.get("text"), str):
            meta["text"] = True  # a harness that does not stream has the text here
            return {"text": payload["text"]}
        return {"text": text or ""}
    if kind in ("TOOL_INVOKED", "TOOL_RESULT", "TOOL_FAILED_UNCERTAIN"):
        call = {"call_id": _to_text(data.get("call_id", line.get("id")))}
        if kind == "TOOL_INVOKED":
            return call | {"tool": _to_text(data.get("tool", "unknown"))}
        status = "error" if payload.get("ok") is False else "ok"
        return call | {"status": "uncertain" if kind == "TOOL_FAILED_UNCERTAIN" else status}
    if kind == "GEN_SENT":
        return {"decision": SENT}
    if kind == "GEN_RESUMED":
        return {"decision": f"generation_{'replaced' if payload.get('strategy') == 'replace' else 'resumed'}"}
    return {}


def restore_line(event_type: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line from which an event's data was read."""
    meta = data[_META]
    if "line" in meta:
        return dict(meta["line"])
    line = {
        "ts": meta.get("ts", _timestamp(data)),
        "type": _line_type(event_type, data),
        "payload": _build_payload(event_type, data),
    }
    return line | {"id": meta["id"]} if "id" in meta else line


def to_lines(event: Event) -> Iterator[dict[str, Any]]:
    """Yield the lines for an event of another origin; none if the vocabulary cannot express it."""
    kind = _line_type(event.type, event.data)
    if kind is None:
        return
    name = f"{event.session_id}_{event.seq:06d}"  # with the session, so that ids stay unique when files are joined
    ts = _timestamp(event.data) or event.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    payload = _build_payload(event.type, event.data)
    if kind == "MESSAGE_RECEIVED":
        payload.setdefault("role", "user")
    elif kind == "GEN_SENT":
        name = f"{name}_sent_{payload.get('channel')}"  # beside the event of what was sent
    elif kind == "GEN_RESUMED":
        payload.setdefault("strategy", "replace" if event.data["decision"] == "generation_replaced" else "resume")
    elif kind == "GEN_COMPLETE":
        message = payload.setdefault("msg_id", f"{name}_msg")
        yield {"ts": ts, "type": "GEN_START", "id": f"{name}_start", "payload": {"msg_id": message}}
        for number, delta in enumerate(_deltas(event.data)):
            chunk = {"msg_id": message, "seq": number, "delta": delta}
            yield {"ts": ts, "type": "GEN_CHUNK", "id": f"{name}_{number}", "payload": chunk}
        if event.data.get("incomplete"):
            return
    yield {"ts": ts, "type": kind, "id": name, "payload": payload}


def _deltas(data: Mapping[str, Any]) -> list[str]:
    chunks = data.get("chunks")
    if isinstance(chunks, list) and all(isinstance(delta, str) for delta in chunks):
        return chunks
    return [data["text"]] if data["text"] else []


def _line_type(event_type: EventType, data: Mapping[str, Any]) -> str | None:
    """Return the type of line for an event; None if the vocabulary cannot express it."""
    if event_type is EventType.POLICY_DECISION:
        decision = str(data.get("decision"))
        return "GEN_SENT" if decision == SENT else "GEN_RESUMED" if decision.startswith("generation_") else None
    if event_type is EventType.TOOL_RESULT and data.get("status") == "uncertain":
        return "TOOL_FAILED_UNCERTAIN"
    return next((kind for kind, of in EVENT_TYPES.items() if of is event_type), None)


def _build_payload(event_type: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    meta = data.get(_META, {})
    names = {event_name: line_name for line_name, event_name in _FIELD_NAMES.get(event_type, {}).items()}
    body = _BODY_FIELDS.get(event_type, ("", ()))[0]
    payload: dict[str, Any] = {}
    for name, value in data.items():
        if name in _RESERVED_FIELDS or (event_type is EventType.USER_MESSAGE and name == "origin"):
            continue
        if event_type is EventType.ASSISTANT_RESPONSE and (name == "chunks" or (name == "text" and "text" not in meta)):
            continue
        line_name = "reason" if event_type is EventType.TOOL_RESULT and name == "remark" else names.get(name, name)
        payload[meta.get("body", body) if name == body else line_name] = value
    if event_type is EventType.TOOL_RESULT and data.get("status") != "uncertain":
        payload["ok"] = data.get("status") == "ok"
    return payload


def _timestamp(data: Mapping[str, Any]) -> str | None:
    occurred_at = data.get("occurred_at")
    return occurred_at.replace("+00:00", "Z") if isinstance(occurred_at, str) else None


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


NAME = "harness"
ONE_SESSION = True  # lines do not name their session
MAX_OPEN_GENERATIONS = 64  # beyond it the oldest is recorded as incomplete
MAX_OPEN_CALLS = MAX_OPEN_GENERATIONS * 16  # calls without a result; beyond it the oldest is dropped
MAX_PENDING_LINES = 20_000  # lines kept for the next event; beyond it their generation is recorded as incomplete
files = file_finder(".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for the vocabulary."""
    lines = parse_head(head)
    return any(str(line.get("type")) in EVENT_TYPES and isinstance(line.get("payload"), dict) for line in lines)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a log as one session."""
    reader = _HarnessReader(derive_origin(path, root))
    yield ForeignSession(origin=reader.origin, agent=NAME)
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
        else:
            yield from guard_line(reader.read_line(line, number), number)
    yield from reader.end_open_generations()


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a session: lines read from such a log unchanged, other events in the same vocabulary.

    Events that the vocabulary cannot express (session start, tasks, approvals, sub-agents, errors, decisions not about
    a generation) are left out.
    """
    incomplete_lines: set[str] = set()  # written lines of incomplete generations
    for event in events:
        harness_data = event.data.get(NAME)
        if not isinstance(harness_data, Mapping):
            yield from (encode_line(line) for line in to_lines(event))
            continue
        incomplete = bool(event.data.get("incomplete"))
        for line in harness_data.get("before", ()):
            text = encode_line(line)
            if text not in incomplete_lines:
                yield text
            if incomplete and isinstance(line.get("id"), str):  # a line without an id may occur twice
                incomplete_lines.add(text)
        if not incomplete:
            yield encode_line(restore_line(event.type, event.data))


@dataclass(slots=True)
class _Generation:
    """A generation that has not completed yet."""

    deltas: list[str] = field(default_factory=list)
    line_ids: set[str] = field(default_factory=set)  # a replay repeats lines
    resumed: bool = False

    def add_line(self, kind: str, line_id: Any, delta: Any) -> None:
        """Add a GEN_START or GEN_CHUNK line; a repeated line is ignored."""
        if isinstance(line_id, str):
            if line_id in self.line_ids:
                return
            self.line_ids.add(line_id)
        if kind == "GEN_CHUNK" and isinstance(delta, str):
            self.deltas.append(delta)
        elif kind == "GEN_START" and not self.resumed:
            self.deltas.clear()  # it starts over
        if kind == "GEN_START":
            self.resumed = False

    @property
    def text(self) -> str:
        """The text so far."""
        return join_surrogates("".join(self.deltas))


class _HarnessReader:
    """Converts the lines of one log to events."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._keys = ItemKeys(f"{NAME}/{origin}")
        self._generations: dict[str, _Generation] = {}
        self._pending_lines: list[dict[str, Any]] = []  # generation lines since the last event
        self._open_calls: dict[str, str] = {}  # calls without a result: call id -> tool

    def read_line(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Yield the items of the next line."""
        kind, payload = line.get("type"), line.get("payload", {})
        if not isinstance(kind, str) or not isinstance(payload, dict):
            yield Problem(
                "the line has no type" if not isinstance(kind, str) else f"the payload of {kind} is not an object",
                number,
            )
        elif kind in GENERATION_TYPES:
            yield from self._add_to_generation(kind, line, payload)
        elif kind not in EVENT_TYPES:
            yield Skipped(f"type:{kind}", number)
        else:
            if kind == "SESSION_TERMINATED":
                yield from self.end_open_generations()
                yield ForeignSession(origin=self.origin, agent=NAME, ended=True)
            yield self._make_event(kind, line, payload, number)

    def _add_to_generation(self, kind: str, line: dict[str, Any], payload: dict[str, Any]) -> Iterator[Item]:
        message_id = str(payload.get("msg_id"))
        self._generations.setdefault(message_id, _Generation()).add_line(kind, line.get("id"), payload.get("delta"))
        self._pending_lines.append(line)
        if len(self._generations) > MAX_OPEN_GENERATIONS:
            yield self._incomplete_response(next(iter(self._generations)))
        elif len(self._pending_lines) > MAX_PENDING_LINES:
            yield self._incomplete_response(message_id)

    def end_open_generations(self) -> Iterator[Item]:
        """Yield an incomplete response for each generation that never completed."""
        while self._generations:
            yield self._incomplete_response(next(iter(self._generations)))

    def _incomplete_response(self, message_id: str) -> ForeignEvent:
        generation = self._generations.pop(message_id)
        before, self._pending_lines = self._pending_lines, []
        last = before[-1] if before else {}
        data: dict[str, Any] = {"text": generation.text, "incomplete": True, **occurred_at_field(last.get("ts"))}
        if message_id != "None":
            data["message_id"] = message_id
        key = self._keys.next_key("incomplete", message_id, last.get("id"), generation.text)
        return ForeignEvent(key, EventType.ASSISTANT_RESPONSE, data | {NAME: {"before": before}})

    def _make_event(self, kind: str, line: dict[str, Any], payload: dict[str, Any], number: int) -> ForeignEvent:
        generation_text = self._end_generation(kind, payload) if kind in ("GEN_COMPLETE", "GEN_RESUMED") else None
        data = to_event_data(kind, line, payload, generation_text)
        event_type = EVENT_TYPES[kind]
        try:
            check_payload(event_type, data)
        except InvalidEvent:
            data = to_event_data(kind, line, {}, generation_text)  # an unusable payload: required fields only
        text = encode_line(line, canonical=True)
        if encode_line(restore_line(event_type, data), canonical=True) != text:
            data[NAME]["line"] = line
        if self._pending_lines:
            data[NAME]["before"], self._pending_lines = self._pending_lines, []
        key = self._make_key(line, text)
        return ForeignEvent(key, event_type, data, tool_name=self._resolve_tool(event_type, data), line=number)

    def _end_generation(self, kind: str, payload: dict[str, Any]) -> str | None:
        message_id = str(payload.get("msg_id"))
        if kind == "GEN_RESUMED" and payload.get("strategy") != "replace":
            if message_id in self._generations:
                self._generations[message_id].resumed = True
            return None
        generation = self._generations.pop(message_id, None)  # a replaced generation is discarded
        return generation.text if generation and kind == "GEN_COMPLETE" else None

    def _make_key(self, line: dict[str, Any], text: str) -> str:
        """Return the key of a line: repeated lines with an id have the same key, each line without one its own."""
        line_id = line.get("id")
        if not isinstance(line_id, str):
            return self._keys.next_key(line)
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return f"{NAME}/{self.origin}/{line_id}/{digest}"

    def _resolve_tool(self, event_type: EventType, data: Mapping[str, Any]) -> str | None:
        if event_type is EventType.TOOL_CALL:
            self._open_calls[data["call_id"]] = data["tool"]
            if len(self._open_calls) > MAX_OPEN_CALLS:
                del self._open_calls[next(iter(self._open_calls))]
            return str(data["tool"])
        return self._open_calls.pop(data["call_id"], None) if event_type is EventType.TOOL_RESULT else None
