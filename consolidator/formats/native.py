"""Read and write version 1 of our own lossless export; version 2 is `bundle`.

JSONL, a line {"consolidator": 1, "session": {...}}, then one per event. Fields of a session: id, origin, key,
conversation_id, agent, channel, peer, project, parent_id, parent_seq, root_id, kind, simulated, model, details, status,
error, base_seq if its numbers go on from its parent's, past_id and past_seq if it reads on from another log than its
parent's, and pruned_to if its first numbers are not there. Fields of an event: seq, type, task_id, tool_name, data, and
principal (its role) where that is not the one that the type implies; every type of event is written the same way. An
event without data.occurred_at gets its created_at there. Derived and local fields are not exported: head, watermarks,
consolidated_at, leases, totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from itertools import chain, islice
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, Problem, Skipped, hash_content
from consolidator.formats.common.jsonl import encode_line, parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import find_role, role_of
from consolidator.models.session import has_controls

NAME = "consolidator"
VERSION = 1
REDACTED = "redacted"  # in what follows: whether it came in a redacted bundle
EXPORTED = "exported"  # in details: the exporting system's columns without a field in ForeignSession
_COLUMNS = ("key", "conversation_id", "agent", "channel", "peer", "project", "kind", "model", "status", "error")
# Identity and parents of a session: an importing system has its own values; a re-export keeps the original ones.
_IDENTITY: tuple[str, ...] = (
    "id",
    "origin",
    "parent_id",
    "parent_seq",
    "past_id",
    "past_seq",
    "base_seq",
    "root_id",
    "simulated",
)
_IDENTITY += ("conversation_id", "error")
_SESSION_KINDS = ("root", "fork", "resume", "branch", "sub-agent")
_EVENT_TYPES = {event_type.value: event_type for event_type in EventType}
files = file_finder(".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check the first line for a header."""
    return any(NAME in line and isinstance(line.get("session"), dict) for line in islice(parse_head(head), 1))


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a session in canonical JSON: the same session gives the same bytes on every system."""
    remaining = iter(events)
    first = next(remaining, None)
    pruned = int(session.get("pruned_to") or 0) if first is None else first.seq - 1
    yield encode_line({NAME: VERSION, "session": build_header(session, pruned)}, canonical=True)
    for event in chain([] if first is None else [first], remaining):
        yield encode_line(build_event_line(event), canonical=True)


def build_header(session: Mapping[str, Any], pruned: int) -> dict[str, Any]:
    """Return a session's header, given up to where its events are gone; an import has the header that it came with."""
    details = dict(session.get("details") or {})
    exported = {name: value for name, value in details.pop(EXPORTED, {}).items() if name != REDACTED}
    header = {name: session.get(name) for name in (*_IDENTITY, *_COLUMNS)}
    header["base_seq"] = session.get("base_seq") or None  # 0 is what an export without it means
    header |= {name: value for name, value in exported.items() if name in _IDENTITY or name not in header}
    if exported:
        # Absent there means unknown: the importing system may have set it (a root's own id, a foreign name).
        header |= {name: None for name in _IDENTITY if name not in exported}
    header |= {"details": details, "pruned_to": pruned or None}
    return {name: value for name, value in header.items() if value is not None and value is not False and value != {}}


def build_event_line(event: Event) -> dict[str, Any]:
    """Return an event as its line says it."""
    data = event.data
    if not data.get("occurred_at"):
        data = {**data, "occurred_at": event.created_at.astimezone(UTC).isoformat()}
    line: dict[str, Any] = {"seq": event.seq, "type": event.type.value, "data": data}
    role = role_of(event.principal)
    is_implied = role is None or role is find_role(event.type, event.data)
    principal = None if is_implied or role is None else role.value
    optional_fields = {"task_id": event.task_id, "tool_name": event.tool_name, "principal": principal}
    return line | {name: value for name, value in optional_fields.items() if value is not None}


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read an export; each header begins a session, named by its id."""
    session: EventReader | None = None
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
            if isinstance(line, Problem) and session is not None:
                session.unreadable_lines += 1
        elif NAME in line:
            item: Item = Problem(f"export version {line[NAME]!r}; this format's is {VERSION}", number)
            if line[NAME] == VERSION:
                item = parse_session(line, number)
            yield item
            session = EventReader.from_session(item) if isinstance(item, ForeignSession) else None
        elif session is None:
            yield Problem("an event without a session: the header line is missing", number)
        elif session.belongs(line.get("seq")):
            yield session.parse_event(line, number)
        else:
            session = None
            yield Problem("an event of another session, whose header line could not be read", number)


def parse_session(line: Mapping[str, Any], number: int) -> ForeignSession | Problem:
    """Return the session that a header begins."""
    header = line.get("session")
    if not isinstance(header, dict) or not all(_text(header.get(name)) for name in ("id", "agent")):
        return Problem("the session has no id or no agent", number)
    if header.get("kind", "root") not in _SESSION_KINDS:
        return Problem(f"unknown kind of session {header['kind']!r}", number)
    if has_controls(_text(header.get("key")) or ""):
        return Problem(f"{header['key']!r} is not a valid session key", number)
    details = header.get("details")
    fields = ("agent", "channel", "peer", "project", "model", "kind", "key", "status", "details")
    return ForeignSession(
        origin=header["id"],
        agent=header["agent"],
        channel=_text(header.get("channel")),
        peer=_text(header.get("peer")),
        project=_text(header.get("project")),
        model=_text(header.get("model")),
        kind=header.get("kind", "root"),
        parent_origin=_text(header.get("parent_id")),
        key=_text(header.get("key")),
        ended=header.get("status") == "ended",
        details={
            **(details if isinstance(details, dict) else {}),
            EXPORTED: {name: value for name, value in header.items() if name not in fields},
        },
    )


@dataclass(slots=True)
class EventReader:
    """Reads the events of one session."""

    id: str
    last_seq: int  # seq of the last event
    unreadable_lines: int = 0  # since the last event

    @classmethod
    def from_session(cls, session: ForeignSession) -> EventReader:
        pruned = session.details[EXPORTED].get("pruned_to")
        return cls(session.origin, pruned if isinstance(pruned, int) else 0)

    def belongs(self, seq: object) -> bool:
        """Tell whether an event belongs to this session: an unreadable line may have been the next one's header."""
        return not self.unreadable_lines or seq == self.last_seq + self.unreadable_lines + 1

    def parse_event(self, line: Mapping[str, Any], number: int) -> ForeignEvent | Problem:
        """Return the event of a line."""
        seq, data, kind = line.get("seq"), line.get("data"), str(line.get("type"))
        if not isinstance(seq, int) or isinstance(seq, bool) or seq < 1:
            return Problem("the event has no seq", number)
        if kind not in _EVENT_TYPES:
            return Problem(f"unknown event type {kind!r}", number)
        if not isinstance(data, dict):
            return Problem("the event has no data", number)
        self.last_seq, self.unreadable_lines = seq, 0
        return ForeignEvent(
            key=f"{self.id}/{seq}",
            type=_EVENT_TYPES[kind],
            data=data,
            task_id=_text(line.get("task_id")),
            tool_name=_text(line.get("tool_name")),
            line=number,
            content=hash_content([kind, data]),
            seq=seq,
            role=None if line.get("principal") is None else str(line["principal"]),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
