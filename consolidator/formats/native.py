"""Our own export: JSONL, first a line {"consolidator": 1, "session": {...}}, then one for each event; lossless.

Kept of a session: id, origin, key, conversation_id, agent, channel, peer, project, parent_id, parent_seq, root_id,
kind, simulated, model, details, status, error, and pruned_to where a prefix is gone; of an event: seq, type, task_id,
tool_name, data. One that does not say when it happened gets its created_at, which is local, as data.occurred_at. Not
kept is what is derived or local: head, watermarks, consolidated_at, leases, totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from itertools import chain
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, Problem, Skipped
from consolidator.formats.common.json_lines import to_line
from consolidator.formats.common.jsonl import files_below, head_objects, read_objects
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NAME = "consolidator"
VERSION = 1
EXPORTED = "exported"  # in details: the columns of the exporting system that a ForeignSession has no field for
_COLUMNS = ("key", "conversation_id", "agent", "channel", "peer", "project", "kind", "model", "status", "error")
# Who a session is and where it hangs: an importing system has its own idea of these, and re-export keeps the first.
_IDENTITY = ("id", "origin", "parent_id", "parent_seq", "root_id", "simulated", "conversation_id", "error")
_KINDS = ("root", "fork", "resume", "branch", "sub-agent")
_TYPES = {kind.value: kind for kind in EventType}


def default_paths(home: Path) -> list[Path]:
    """Return nothing: an export lies where it was asked for."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the exports at or below `path`."""
    yield from files_below(path, ".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the first line."""
    return any(NAME in one and isinstance(one.get("session"), dict) for one in head_objects(head)[:1])


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a session: canonical JSON, so that the same session is the same bytes, wherever it is."""
    coming = iter(events)
    first = next(coming, None)
    pruned = int(session.get("pruned_to") or 0) if first is None else first.seq - 1
    yield to_line({NAME: VERSION, "session": _header(session, pruned)}, canonical=True)
    for event in chain([] if first is None else [first], coming):
        yield to_line(_line_of(event), canonical=True)


def _header(session: Mapping[str, Any], pruned: int) -> dict[str, Any]:
    details = dict(session.get("details") or {})
    first = details.pop(EXPORTED, {})
    header = {name: session.get(name) for name in (*_IDENTITY, *_COLUMNS)}
    header |= {name: value for name, value in first.items() if name in _IDENTITY or name not in header}
    if first:
        # Not told there is not known: an importing system may have made it up (a root's own id, a foreign name).
        header |= {name: None for name in _IDENTITY if name not in first}
    header |= {"details": details, "pruned_to": pruned or None}
    return {name: value for name, value in header.items() if value is not None and value is not False and value != {}}


def _line_of(event: Event) -> dict[str, Any]:
    data = event.data
    if not data.get("occurred_at"):
        data = {**data, "occurred_at": event.created_at.astimezone(UTC).isoformat()}
    line: dict[str, Any] = {"seq": event.seq, "type": event.type.value, "data": data}
    told = {"task_id": event.task_id, "tool_name": event.tool_name}
    return line | {name: value for name, value in told.items() if value is not None}


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read an export; each header begins a session, named by its id."""
    session: _NativeSession | None = None
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
            if isinstance(line, Problem) and session is not None:
                session.damaged += 1
        elif NAME in line:
            item = _session_of(line, number)
            yield item
            session = _NativeSession.of(item) if isinstance(item, ForeignSession) else None
        elif session is None:
            yield Problem("an event of no session: the line that names it is missing", number)
        elif session.belongs(line.get("seq")):
            yield session.event(line, number)
        else:
            session = None
            yield Problem("an event of another session: the line that names it could not be read", number)


def _session_of(line: Mapping[str, Any], number: int) -> ForeignSession | Problem:
    header = line.get("session")
    version = line[NAME]
    if version != VERSION:
        return Problem(f"export version {version!r}; this consolidator reads {VERSION}", number)
    if not isinstance(header, dict) or not _is_name(header.get("id")) or not _is_name(header.get("agent")):
        return Problem("a session without id or agent", number)
    if header.get("kind", "root") not in _KINDS:
        return Problem(f"no session is of kind {header['kind']!r}", number)
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
class _NativeSession:
    """The session that the lines belong to."""

    id: str
    last: int  # seq of the last event
    damaged: int = 0  # lines since then that could not be read

    @classmethod
    def of(cls, session: ForeignSession) -> _NativeSession:
        pruned = session.details[EXPORTED].get("pruned_to")
        return cls(session.origin, pruned if isinstance(pruned, int) else 0)

    def belongs(self, seq: object) -> bool:
        """Tell whether an event is of this session: among the lines lost before it may be the next one's header."""
        return not self.damaged or seq == self.last + self.damaged + 1

    def event(self, line: Mapping[str, Any], number: int) -> ForeignEvent | Problem:
        """Return the event that a line is."""
        seq, data, kind = line.get("seq"), line.get("data"), str(line.get("type"))
        if not isinstance(seq, int) or isinstance(seq, bool) or seq < 1:
            return Problem("an event without a seq", number)
        if kind not in _TYPES or not isinstance(data, dict):
            return Problem("an event without data" if kind in _TYPES else f"no event type is called {kind!r}", number)
        self.last, self.damaged = seq, 0
        return ForeignEvent(
            key=f"{self.id}/{seq}",
            type=_TYPES[kind],
            data=data,
            task_id=_text(line.get("task_id")),
            tool_name=_text(line.get("tool_name")),
            line=number,
            seq=seq,
        )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
