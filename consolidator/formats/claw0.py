"""Read and write claw0 transcripts: JSONL lines of type session, user, assistant, tool_use and tool_result.

The first line has the session's id and key (agent:channel:peer). Some versions leave it out; then both come from the
index `sessions.json`, or from the file's name and directory. The index also says which session a key names now. Extra
fields of a line are kept, and writing uses them for the rest of an event's data. Events that these five types cannot
express are left out when writing.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.fields import derive_origin, occurred_at_field
from consolidator.formats.common.jsonl import encode_line, guard_line, parse_head, read_objects
from consolidator.formats.common.log_files import file_finder, open_log
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionKey, has_controls

NAME = "claw0"
MAX_OPEN_CALLS = 1024  # calls kept while they wait for a result; beyond it the oldest is dropped

# line type -> event type, and the fields whose names differ: name in the line -> name in the event
_EVENTS_BY_LINE_TYPE = {
    "user": (EventType.USER_MESSAGE, {"content": "text"}),
    "assistant": (EventType.ASSISTANT_RESPONSE, {"content": "text"}),
    "tool_use": (EventType.TOOL_CALL, {"tool_use_id": "call_id", "name": "tool", "input": "arguments"}),
    "tool_result": (EventType.TOOL_RESULT, {"tool_use_id": "call_id", "content": "content", "output": "content"}),
}
_LINE_TYPES = {event_type: line_type for line_type, (event_type, _) in _EVENTS_BY_LINE_TYPE.items()}
_COLLIDING = "more"  # the field for event data whose names a line uses for something else
_NOT_DATA = ("type", "ts", "is_error", "v", "occurred_at")
_SESSION_FIELDS = ("type", "id", "key", "log_id", "is_current")
INDEX = "sessions.json"
_MAX_INDEX_BYTES = 64 * 1024 * 1024
_KEY_IN_NAME = re.compile(r"^(.+)_[0-9a-f]{12}$")
files = file_finder(".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check the fields of the first lines: other formats have the same types of lines."""
    if path.name == INDEX:
        return b'"transcript_file"' in head
    objects = list(parse_head(head))
    return bool(objects) and all(_is_claw0_line(line) for line in objects) and path.suffix == ".jsonl"


def _is_claw0_line(line: Mapping[str, Any]) -> bool:
    kind = str(line.get("type"))
    if kind == "session":
        return isinstance(line.get("id"), str) and not {"cwd", "timestamp", "message", "payload"} & set(line)
    if kind in ("user", "assistant"):
        return "content" in line and "message" not in line
    return kind in _EVENTS_BY_LINE_TYPE and "tool_use_id" in line


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a transcript; each session line begins a session, lines before the first belong to the file's own."""
    if path.name == INDEX:
        yield Skipped("index", 1)
        return

    transcript: _Claw0Reader | None = None
    is_refused = False
    indexed = _find_indexed(path)

    for number, line in read_objects(path):
        if isinstance(line, dict) and line.get("type") == "session":
            line = {**indexed, **{name: value for name, value in line.items() if value is not None}}
        if isinstance(line, (Skipped, Problem)):
            yield line
        elif line.get("type") == "session" and has_controls(str(key := line.get("key") or line.get("session_key"))):
            is_refused = True
            yield Problem(f"{key!r} is not a valid session key", number)
        elif is_refused and line.get("type") != "session":
            yield Problem("a line of a session without a valid key", number)
        elif line.get("type") == "session":
            is_refused = False
            transcript = _Claw0Reader(_build_session(line, path, root))
            yield transcript.session
            has_data = bool(set(line).difference(_SESSION_FIELDS))
            yield transcript.start_event(line, number) if has_data else Skipped("session", number)
        elif not isinstance(line.get("type"), str):
            yield Problem("the line has no type", number)
        elif line["type"] not in _EVENTS_BY_LINE_TYPE:
            yield Skipped(f"type:{line['type']}", number)
        else:
            if transcript is None:
                transcript = _Claw0Reader(_build_session(indexed, path, root))
                yield transcript.session
                if indexed.get("created"):
                    yield transcript.start_event(indexed, 0)
            yield from guard_line(transcript.read_line(line, number), number)


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the transcript of a session: its own line first, then a line for each event that the format can express."""
    source_format, _, name = str(session.get("origin") or "").partition(":")
    head: dict[str, Any] = {"type": "session", "id": name if source_format == NAME else str(session["id"])}
    names = (session.get("agent"), session.get("channel"), session.get("peer") or head["id"])
    head["key"] = session.get("key") or ":".join(str(part or "") for part in names)
    started = False
    for event in events:
        is_start = event.type is EventType.SESSION_START
        if not started:
            created = _write_time(event.occurred_at)
            yield encode_line(head | _extra_fields(event.data) | {"created": created} if is_start else head)
            started = True
        yield from write_event(event)
    if not started:
        yield encode_line(head)


def write_event(event: Event) -> Iterator[str]:
    """Yield the line of an event; nothing where the format cannot express it."""
    line_type = _LINE_TYPES.get(event.type)  # a start is the session's line
    is_empty = event.data.get("finish") == "tool_calls" and not event.data.get("text")  # the calls say it all
    if line_type is not None and not is_empty:
        yield encode_line(_build_line(event, line_type))


def _build_line(event: Event, line_type: str) -> dict[str, Any]:
    _, names = _EVENTS_BY_LINE_TYPE[line_type]
    # Where two line fields map to one event field, the last one is written: a result is in `output` by the layout.
    line_names = {event_name: name for name, event_name in names.items()}
    line: dict[str, Any] = {"type": line_type}
    data = {name: value for name, value in event.data.items() if name not in _NOT_DATA}
    line |= {line_names[name]: value for name, value in data.items() if name in line_names}
    reserved_names = {*names, *line_names.values(), _COLLIDING}
    line |= {name: value for name, value in data.items() if name not in line_names and name not in reserved_names}
    if colliding := {name: value for name, value in data.items() if name not in line_names and name in reserved_names}:
        line[_COLLIDING] = colliding
    if event.type is EventType.TOOL_RESULT and line.get("status", "ok") != "uncertain":
        line["is_error"] = line.pop("status", "ok") == "error"
    return line | {"ts": _write_time(event.occurred_at)}


def _write_time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _extra_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in data.items()
        if name not in _NOT_DATA and name not in (*_SESSION_FIELDS, "created")
    }


def _build_session(line: Mapping[str, Any], path: Path, root: Path) -> ForeignSession:
    key = line.get("key") or line.get("session_key") or _key_from_filename(path)
    folders = path.parts[-4:-1]  # newer versions have agents/<agent>/sessions/<file>
    agent = folders[1] if len(folders) == 3 and folders[::2] == ("agents", "sessions") else NAME
    session_key = SessionKey.parse(key) if isinstance(key, str) else SessionKey(agent)
    origin = line.get("id")
    is_named = origin is None or session_key.peer != origin  # a keyless one is written with its id there
    return ForeignSession(
        origin=origin if isinstance(origin, str) and origin else derive_origin(path, root),
        agent=session_key.agent or NAME,
        channel=session_key.channel or None,
        peer=session_key.peer or None if is_named else None,
        key=key if isinstance(key, str) and is_named else None,
        own_ids=tuple(name for name in (origin, line.get("log_id")) if isinstance(name, str) and name),
        details={"is_current": True} if line.get("is_current") else {},
    )


def _find_indexed(path: Path) -> dict[str, Any]:
    """Return what the index says of a transcript, by the names of its own line; nothing where there is no index."""
    for index in (path.parent.parent / INDEX, path.parent / INDEX):
        if index.is_file() and (entry := _read_index(index, index.stat().st_mtime_ns).get(path.name)) is not None:
            return entry
    return {}


@lru_cache(maxsize=1)
def _read_index(path: Path, _changed: int) -> dict[str, dict[str, Any]]:
    """Return an index by the transcripts' names; an unreadable one says nothing, since the transcripts have it all."""
    try:
        with open_log(path) as file:
            index = json.loads(file.read(_MAX_INDEX_BYTES))
        entries = {name: entry for name, entry in index.items() if isinstance(entry.get("transcript_file"), str)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return {
        str(entry["transcript_file"]): {
            "type": "session",
            "id": entry.get("session_id"),
            "key": None if has_controls(str(entry.get("session_key"))) else entry.get("session_key"),
            "created": entry.get("created_at"),
            "log_id": entry.get("log_id"),
            "is_current": name == entry.get("session_key"),
        }
        for name, entry in entries.items()
    }


def _key_from_filename(path: Path) -> str | None:
    """Return the key of a file named <key>_<id>, with "_" for ":"; None if a part may itself contain "_"."""
    match = None if has_controls(path.stem) else _KEY_IN_NAME.match(path.stem)
    parts = match[1].split("_") if match else []
    return ":".join(parts) if len(parts) == 3 or (len(parts) in (4, 5) and parts[0] == "agent") else None


class _Claw0Reader:
    """Converts the lines of one session to events."""

    def __init__(self, session: ForeignSession) -> None:
        self.session = session
        self._keys = ItemKeys(f"{NAME}/{session.origin}")
        self._open_calls: OrderedDict[str, tuple[str, bool]] = (
            OrderedDict()
        )  # call id -> tool, and whether it came from an answer's block

    def start_event(self, line: dict[str, Any], number: int) -> ForeignEvent:
        """Return the start event of the session's own line."""
        data = occurred_at_field(line.get("created", line.get("ts"))) | _extra_fields(line)
        return self._make_event(EventType.SESSION_START, data, number)

    def read_line(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Yield the items of a line of one of the four other types."""
        event_type, names = _EVENTS_BY_LINE_TYPE[line["type"]]
        fields = {name: value for name, value in line.items() if name not in _NOT_DATA and name != _COLLIDING}
        data: dict[str, Any] = {names.get(name, name): value for name, value in fields.items()}
        data |= occurred_at_field(line.get("ts"))
        if isinstance(colliding := line.get(_COLLIDING), dict):
            data = colliding | data
        if event_type in (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE):
            yield from self._read_message(event_type, data, number)
            return
        if not isinstance(data.get("call_id"), str):
            yield Problem(f"the {line['type']} line has no tool_use_id", number)
        elif event_type is EventType.TOOL_CALL:
            data["tool"] = str(data.get("tool", "unknown"))
            if self._open_calls.get(data["call_id"], ("", False))[1]:
                self._open_calls[data["call_id"]] = (data["tool"], False)
                yield Skipped("repeated", number)  # newer versions log a call in the answer and again on its own line
            else:
                yield self._call_event(data, number)
        else:
            data.setdefault("status", "error" if line.get("is_error") is True else "ok")
            tool, _ = self._open_calls.pop(data["call_id"], (data.get("tool"), False))
            yield self._make_event(event_type, data, number, tool if isinstance(tool, str) else None)

    def _read_message(self, event_type: EventType, data: dict[str, Any], number: int) -> Iterator[Item]:
        content = data.get("text")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        calls = [block for block in blocks if block.get("type") == "tool_use" and isinstance(block.get("id"), str)]
        results = [
            block
            for block in blocks
            if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)
        ]
        if blocks or not isinstance(content, str):
            texts = [str(block.get("text", "")) for block in blocks if block.get("type", "text") == "text"]
            data["text"] = "".join(texts)
            if results:
                data["origin"] = "harness"  # what stands beside a result, nobody typed
        time_field = {name: data[name] for name in ("occurred_at",) if name in data}
        for block in results:
            status = "error" if block.get("is_error") is True else "ok"
            result = {"call_id": block["tool_use_id"], "status": status, "content": block.get("content")} | time_field
            tool, _ = self._open_calls.pop(result["call_id"], (None, False))
            yield self._make_event(EventType.TOOL_RESULT, result, number, tool)
        if data["text"] or not (calls or results):
            yield self._make_event(event_type, data, number)
        for block in calls:
            tool = str(block.get("name", "unknown"))
            call = {"call_id": block["id"], "tool": tool, "arguments": block.get("input")} | time_field
            yield self._call_event(call, number, in_answer=True)

    def _call_event(self, data: dict[str, Any], number: int, *, in_answer: bool = False) -> ForeignEvent:
        self._open_calls[data["call_id"]] = (data["tool"], in_answer)
        if len(self._open_calls) > MAX_OPEN_CALLS:
            self._open_calls.popitem(last=False)
        return self._make_event(EventType.TOOL_CALL, data, number, data["tool"])

    def _make_event(
        self, event_type: EventType, data: dict[str, Any], number: int, tool: str | None = None
    ) -> ForeignEvent:
        return ForeignEvent(self._keys.next_key(event_type, data), event_type, data, tool_name=tool, line=number)
