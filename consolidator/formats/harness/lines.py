"""The harness vocabulary, line by line: what each line is as the data of an event, and back.

Pure functions of one line. What a mapping cannot carry exactly, the reader keeps as the whole line beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from consolidator.formats.common import timestamps
from consolidator.models.event import Event
from consolidator.models.payload import EventType

KINDS = {
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
FOLDED = ("GEN_START", "GEN_CHUNK")

# What a payload calls a field, and what the event calls it.
_NAMES = {
    EventType.THINKING_START: {"msg_id": "message_id", "context_strategy": "strategy"},
    EventType.ASSISTANT_RESPONSE: {"msg_id": "message_id"},
    EventType.POLICY_DECISION: {"msg_id": "message_id"},
    EventType.TOOL_CALL: {"msg_id": "message_id", "name": "tool", "args": "arguments"},
    # Another system's blob: our own events keep references to our own under the name data_ref.
    EventType.TOOL_RESULT: {"data_ref": "blob_ref"},
}
# Harnesses differ in what they call the one large field; the first is the name we write.
_BODIES = {
    EventType.USER_MESSAGE: ("text", ("text", "content")),
    EventType.TOOL_RESULT: ("content", ("content", "result", "output", "data", "error")),
}
_META = "harness"
_OURS = ("v", "occurred_at", _META, "incomplete", "status", "decision")  # never from a payload
_REASONS = ("rejected", "aborted", "cascade", "timeout")


def data_of(kind: str, line: Mapping[str, Any], payload: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """Return the event's data for a line; `text` is what the chunks of its generation say."""
    event = KINDS[kind]
    names = _NAMES.get(event, {})
    meta: dict[str, Any] = {}
    data: dict[str, Any] = {}
    body, calls_it = _body(event, payload)
    if calls_it is not None:
        data[body] = payload[calls_it]
        if calls_it != body:
            meta["body"] = calls_it
    for name, value in payload.items():
        ours = _field(event, names.get(name, name), value)
        if name != calls_it and ours not in data and ours not in _OURS:
            data[ours] = value
    data |= _fixed(kind, line, payload, data, text, meta)
    told = line.get("ts")
    data |= timestamps.at(told)
    if told is not None and told != _ts(data):
        meta["ts"] = told
    if line.get("id") is not None:
        meta["id"] = line["id"]
    return data | {_META: meta}


def _body(event: EventType, payload: Mapping[str, Any]) -> tuple[str, str | None]:
    body, candidates = _BODIES.get(event, ("", ()))
    return body, next((name for name in candidates if name in payload), None)


def _field(event: EventType, name: str, value: Any) -> str:
    """A tool result's reason is one of ours, or else only a remark."""
    return "remark" if event is EventType.TOOL_RESULT and name == "reason" and value not in _REASONS else name


def _fixed(
    kind: str,
    line: Mapping[str, Any],
    payload: Mapping[str, Any],
    data: Mapping[str, Any],
    text: str | None,
    meta: dict[str, Any],
) -> dict[str, Any]:
    """What an event of this kind must have, whatever the payload says."""
    if kind == "MESSAGE_RECEIVED":
        said: dict[str, Any] = {"text": _text(data.get("text"))}
        return said if payload.get("role") in (None, "user", "human") else said | {"origin": "harness"}
    if kind == "GEN_COMPLETE":
        if text is None and isinstance(payload.get("text"), str):
            meta["text"] = True  # a harness that does not stream says it here
            return {"text": payload["text"]}
        return {"text": text or ""}
    if kind in ("TOOL_INVOKED", "TOOL_RESULT", "TOOL_FAILED_UNCERTAIN"):
        call = {"call_id": _text(data.get("call_id", line.get("id")))}
        if kind == "TOOL_INVOKED":
            return call | {"tool": _text(data.get("tool", "unknown"))}
        failed = "error" if payload.get("ok") is False else "ok"
        return call | {"status": "uncertain" if kind == "TOOL_FAILED_UNCERTAIN" else failed}
    if kind == "GEN_SENT":
        return {"decision": "delivered"}
    if kind == "GEN_RESUMED":
        return {"decision": f"generation_{'replaced' if payload.get('strategy') == 'replace' else 'resumed'}"}
    return {}


def line_of(event: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line that an event's data was read from."""
    meta = data[_META]
    if "line" in meta:
        return dict(meta["line"])
    line = {"ts": meta.get("ts", _ts(data)), "type": _type(event, data), "payload": _payload(event, data)}
    return line | {"id": meta["id"]} if "id" in meta else line


def lines_of(event: Event) -> Iterator[dict[str, Any]]:
    """Yield the lines that say in this vocabulary what an event of another origin says; none where it has no word."""
    kind = _type(event.type, event.data)
    if kind is None:
        return
    name = f"{event.session_id}_{event.seq:06d}"  # of the session too, so that several files can go together
    ts = _ts(event.data) or event.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    payload = _payload(event.type, event.data)
    if kind == "MESSAGE_RECEIVED":
        payload.setdefault("role", "user")
    elif kind == "GEN_RESUMED":
        payload.setdefault("strategy", "replace" if event.data["decision"] == "generation_replaced" else "resume")
    elif kind == "GEN_COMPLETE":
        message = payload.setdefault("msg_id", f"{name}_msg")
        started = {"ts": ts, "type": "GEN_START", "id": f"{name}_start", "payload": {"msg_id": message}}
        yield started
        for number, delta in enumerate(_deltas(event.data)):
            chunk = {"msg_id": message, "seq": number, "delta": delta}
            yield {"ts": ts, "type": "GEN_CHUNK", "id": f"{name}_{number}", "payload": chunk}
        if event.data.get("incomplete"):
            return
    yield {"ts": ts, "type": kind, "id": name, "payload": payload}


def _deltas(data: Mapping[str, Any]) -> list[str]:
    chunks = data.get("chunks")
    if isinstance(chunks, list) and all(isinstance(one, str) for one in chunks):
        return chunks
    return [data["text"]] if data["text"] else []


def _type(event: EventType, data: Mapping[str, Any]) -> str | None:
    if event is EventType.POLICY_DECISION:
        decision = str(data.get("decision"))
        return "GEN_SENT" if decision == "delivered" else "GEN_RESUMED" if decision.startswith("generation_") else None
    if event is EventType.TOOL_RESULT and data.get("status") == "uncertain":
        return "TOOL_FAILED_UNCERTAIN"
    return next((kind for kind, one in KINDS.items() if one is event), None)


def _payload(event: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    meta = data.get(_META, {})
    names = {ours: theirs for theirs, ours in _NAMES.get(event, {}).items()}
    body = _BODIES.get(event, ("", ()))[0]
    payload: dict[str, Any] = {}
    for name, value in data.items():
        if name in _OURS or (event is EventType.USER_MESSAGE and name == "origin"):
            continue
        if event is EventType.ASSISTANT_RESPONSE and (name == "chunks" or (name == "text" and "text" not in meta)):
            continue
        theirs = "reason" if event is EventType.TOOL_RESULT and name == "remark" else names.get(name, name)
        payload[meta.get("body", body) if name == body else theirs] = value
    if event is EventType.TOOL_RESULT and data.get("status") != "uncertain":
        payload["ok"] = data.get("status") == "ok"
    return payload


def _ts(data: Mapping[str, Any]) -> str | None:
    told = data.get("occurred_at")
    return told.replace("+00:00", "Z") if isinstance(told, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
