"""Map the lines of a harness log to events' data, and back.

Pure functions of one line. Where the mapping back would not be exact, the reader keeps the whole line in the event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from consolidator.formats.common.fields import occurred_at_field
from consolidator.models.event import Event
from consolidator.models.payload import EventType

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
