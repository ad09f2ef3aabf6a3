"""Reads and writes claw0 transcripts: JSONL lines of type session, user, assistant, tool_use and tool_result.

The first line names the session and its key (agent:channel:peer); older and newer versions leave it out, and then the
file's name and directory tell. Lines may carry more than claw0 writes: it is kept, and that is how writing keeps the
rest of an event's data. Only these five kinds of events can be said in this format; writing leaves the others out.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common import timestamps
from consolidator.formats.common.json_lines import to_line
from consolidator.formats.common.jsonl import files_below, head_objects, read_objects
from consolidator.formats.common.origin import origin_of
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NAME = "claw0"
MAX_OPEN = 1024  # calls that may wait for a result

# line type -> event, and what the line calls the fields that the event calls otherwise
_KINDS = {
    "user": (EventType.USER_MESSAGE, {"content": "text"}),
    "assistant": (EventType.ASSISTANT_RESPONSE, {"content": "text"}),
    "tool_use": (EventType.TOOL_CALL, {"tool_use_id": "call_id", "name": "tool", "input": "arguments"}),
    "tool_result": (EventType.TOOL_RESULT, {"tool_use_id": "call_id", "output": "content", "content": "content"}),
}
_TYPES = {kind: (line, names) for line, (kind, names) in _KINDS.items()}
_MORE = "more"  # where a line keeps fields of an event whose names it uses for something else
_NOT_DATA = ("type", "ts", "is_error", "v", "occurred_at")
_NAMING = ("type", "id", "key")
_KEY_IN_NAME = re.compile(r"^(.+)_[0-9a-f]{12}$")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Whose session it is: `agent:channel:peer`, or `agent:<id>:<channel>:<kind>:<peer>` and its shorter forms."""

    agent: str
    channel: str | None = None
    peer: str | None = None

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Read a key. A peer that is no single person keeps its kind, as in "group:ops"."""
        parts = key.split(":")
        if parts[0] == "agent" and len(parts) >= 3 and (len(parts) != 3 or parts[2] == "main"):
            agent, rest = parts[1], parts[2:]
            if rest == ["main"]:  # all direct messages share one session
                return cls(agent)
            if rest[0] == "direct":
                return cls(agent, None, ":".join(rest[1:]))
            if len(rest) == 2:
                return cls(agent, rest[0], rest[1])
            return cls(agent, rest[0], ":".join(rest[2:] if rest[1] in ("direct", "dm") else rest[1:]))
        if len(parts) >= 3:
            return cls(parts[0], parts[1], ":".join(parts[2:]))
        return cls(parts[0], parts[1] if len(parts) == 2 else None)


def default_paths(home: Path) -> list[Path]:
    """Return nothing: its sessions lie in the workspace it was started in."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the transcripts at or below `path`."""
    yield from files_below(path, ".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the fields, since other formats use the same words for types."""
    found = head_objects(head)
    return bool(found) and all(_is_ours(one) for one in found) and path.suffix == ".jsonl"


def _is_ours(line: Mapping[str, Any]) -> bool:
    kind = str(line.get("type"))
    if kind == "session":
        return isinstance(line.get("id"), str) and not {"cwd", "timestamp", "message", "payload"} & set(line)
    if kind in ("user", "assistant"):
        return "content" in line and "message" not in line
    return kind in _KINDS and "tool_use_id" in line


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a transcript; each session line begins a session, and lines before any belong to the file's own."""
    reading: _Claw0Session | None = None
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
        elif line.get("type") == "session":
            reading = _Claw0Session(_session_of(line, path, root))
            yield reading.session
            yield reading.start(line, number) if set(line).difference(_NAMING) else Skipped("session", number)
        elif not isinstance(line.get("type"), str):
            yield Problem("no type", number)
        elif line["type"] not in _KINDS:
            yield Skipped(f"type:{line['type']}", number)
        else:
            if reading is None:
                reading = _Claw0Session(_session_of({}, path, root))
                yield reading.session
            yield from reading.take(line, number)


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the transcript of a session: its line first, then each event that the format has a word for."""
    came_from, _, name = str(session.get("origin") or "").partition(":")
    head: dict[str, Any] = {"type": "session", "id": name if came_from == NAME else str(session["id"])}
    if session.get("key"):
        head["key"] = session["key"]
    started = False
    for event in events:
        is_start = event.type is EventType.SESSION_START
        if not started:
            created = event.occurred_at.isoformat()
            yield to_line(head | _more(event.data) | {"created": created} if is_start else head)
            started = True
        if event.type in _TYPES:
            yield to_line(_line_of(event))
    if not started:
        yield to_line(head)


def _line_of(event: Event) -> dict[str, Any]:
    kind, names = _TYPES[event.type]
    # Of two names for the same field the last is the one that claw0 reads, and so the one to write.
    theirs = {ours: name for name, ours in names.items()}
    line: dict[str, Any] = {"type": kind}
    data = {name: value for name, value in event.data.items() if name not in _NOT_DATA}
    line |= {theirs[name]: value for name, value in data.items() if name in theirs}
    taken = {*names, *theirs.values(), _MORE}
    line |= {name: value for name, value in data.items() if name not in theirs and name not in taken}
    if more := {name: value for name, value in data.items() if name not in theirs and name in taken}:
        line[_MORE] = more
    if event.type is EventType.TOOL_RESULT and line.get("status", "ok") != "uncertain":
        line["is_error"] = line.pop("status", "ok") == "error"
    return line | {"ts": event.occurred_at.isoformat()}


def _more(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NOT_DATA and name not in (*_NAMING, "created")}


def _session_of(line: Mapping[str, Any], path: Path, root: Path) -> ForeignSession:
    named = line.get("key") or line.get("session_key") or _key_in(path)
    told = SessionKey.parse(named) if isinstance(named, str) else SessionKey(_agent_in(path))
    origin = line.get("id")
    return ForeignSession(
        origin=origin if isinstance(origin, str) and origin else origin_of(path, root),
        agent=told.agent or NAME,
        channel=told.channel or None,
        peer=told.peer or None,
        key=named if isinstance(named, str) else None,
    )


def _key_in(path: Path) -> str | None:
    """A file is named <key>_<id>, with "_" for ":"; only a key whose parts hold no "_" can be read back."""
    found = _KEY_IN_NAME.match(path.stem)
    parts = found[1].split("_") if found else []
    return ":".join(parts) if len(parts) == 3 or (len(parts) in (4, 5) and parts[0] == "agent") else None


def _agent_in(path: Path) -> str:
    """Newer versions keep transcripts in agents/<agent>/sessions/."""
    parts = path.parts
    return parts[-3] if len(parts) > 3 and parts[-4] == "agents" and parts[-2] == "sessions" else NAME


class _Claw0Session:
    """A session on its way to events."""

    def __init__(self, session: ForeignSession) -> None:
        self.session = session
        self._keys = ItemKeys(f"{NAME}/{session.origin}")
        self._open: OrderedDict[str, tuple[str, bool]] = OrderedDict()  # tool, and if an answer's block said it

    def start(self, line: dict[str, Any], number: int) -> ForeignEvent:
        """The event of the session's own line."""
        data = timestamps.at(line.get("created", line.get("ts"))) | {
            name: value for name, value in line.items() if name not in (*_NOT_DATA, *_NAMING, "created")
        }
        return self._event(EventType.SESSION_START, data, number)

    def take(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Take a line of one of the four other types."""
        kind, names = _KINDS[line["type"]]
        told = {name: value for name, value in line.items() if name not in _NOT_DATA and name != _MORE}
        data: dict[str, Any] = {names.get(name, name): value for name, value in told.items()}
        data |= timestamps.at(line.get("ts"))
        if isinstance(more := line.get(_MORE), dict):
            data = more | data
        if kind in (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE):
            yield from self._message(kind, data, number)
            return
        if not isinstance(data.get("call_id"), str):
            yield Problem(f"{line['type']} without a tool_use_id", number)
        elif kind is EventType.TOOL_CALL:
            data["tool"] = str(data.get("tool", "unknown"))
            if self._open.get(data["call_id"], ("", False))[1]:
                self._open[data["call_id"]] = (data["tool"], False)
                yield Skipped("repeated", number)  # newer versions say a call in the answer, and again by itself
            else:
                yield self._call(data, number)
        else:
            data.setdefault("status", "error" if line.get("is_error") is True else "ok")
            tool, _ = self._open.pop(data["call_id"], (data.get("tool"), False))
            yield self._event(kind, data, number, tool if isinstance(tool, str) else None)

    def _message(self, kind: EventType, data: dict[str, Any], number: int) -> Iterator[Item]:
        content = data.get("text")
        blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
        calls = [one for one in blocks if one.get("type") == "tool_use" and isinstance(one.get("id"), str)]
        results = [
            one for one in blocks if one.get("type") == "tool_result" and isinstance(one.get("tool_use_id"), str)
        ]
        if blocks or not isinstance(content, str):
            data["text"] = "".join(str(one.get("text", "")) for one in blocks if one.get("type", "text") == "text")
        when = {name: data[name] for name in ("occurred_at",) if name in data}
        for one in results:
            status = "error" if one.get("is_error") is True else "ok"
            result = {"call_id": one["tool_use_id"], "status": status, "content": one.get("content")} | when
            yield self._event(
                EventType.TOOL_RESULT, result, number, self._open.pop(result["call_id"], (None, False))[0]
            )
        if data["text"] or not (calls or results):
            yield self._event(kind, data, number)
        for one in calls:
            call = {"call_id": one["id"], "tool": str(one.get("name", "unknown")), "arguments": one.get("input")} | when
            yield self._call(call, number, in_answer=True)

    def _call(self, data: dict[str, Any], number: int, *, in_answer: bool = False) -> ForeignEvent:
        self._open[data["call_id"]] = (data["tool"], in_answer)
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return self._event(EventType.TOOL_CALL, data, number, data["tool"])

    def _event(self, kind: EventType, data: dict[str, Any], number: int, tool: str | None = None) -> ForeignEvent:
        return ForeignEvent(self._keys.key(kind, data), kind, data, tool_name=tool, line=number)
