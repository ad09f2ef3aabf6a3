"""The frame of a reader: the reader says what a record is, the frame makes items, keys and times, and accounts for all.

Records are lines of JSONL, members of a JSON file, or rows of a database. A reader is a `RecordForm` and one function
that yields a `Conversation` where a session begins or goes on, and a draft for each event. A record of which no event
comes is skipped: as the `Skipped` that the function yields, or under its kind, where the form lists it; else under
"type:KIND", which says that a reader does not know it, as in a newer version's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, ItemName, Problem, Skipped
from consolidator.formats.common.drafts import Draft
from consolidator.formats.common.fields import describe_shape, fit_payload, occurred_at_field
from consolidator.formats.common.jsonl import guard_line
from consolidator.formats.common.project import derive_project
from consolidator.formats.common.remotes import find_repository
from consolidator.models.payload import EventType

Records = Iterable[tuple[int | None, Any]]  # each with its line; a value that is no object is a Skipped or a Problem
_MAX_KIND = 60  # characters of an unknown kind that are told


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session as its agent's log names it; the values may be anything that the log holds."""

    origin: str
    cwd: object = None
    time: object = None
    model: object = None
    version: object = None  # of the agent
    branch: object = None
    remote: object = None  # the address of the repository
    agent: str | None = None  # None: the format's name
    channel: str = "cli"
    kind: str | None = None  # None: a sub-agent's where it has a parent
    parent: object = None
    copied_from: str | None = None  # the session whose records these repeat
    follows: ItemName | None = None
    is_abandoned: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)  # further fields of its start
    begins: bool = False  # told by its record alone, also where no event follows


Statements = Iterator[Conversation | Draft | Skipped | Problem]  # what a record says


@dataclass(frozen=True, slots=True)
class RecordForm:
    """How the records of a format look: the fields, the first that is there counts."""

    name: str
    kind: tuple[str, ...] = ("type",)
    id: tuple[str, ...] = ("id",)
    time: tuple[str, ...] = ("timestamp",)
    silent: frozenset[str] = frozenset()  # kinds that are known to hold nothing for the log
    # Names an event by its place in its record; None: by what it holds.
    name_part: Callable[[dict[str, Any], int], ItemName] | None = None

    def read(self, records: Records, draft: Callable[[dict[str, Any]], Statements]) -> Iterator[Item]:
        """Yield the items of records."""
        frame = _Frame(self)
        for line, record in records:
            if isinstance(record, (Skipped, Problem)):
                yield record
            elif isinstance(record, dict):
                yield from guard_line(frame.read_record(record, draft(record), line), line)
            else:
                yield Problem(f"not an object but {type(record).__name__}", line)


class _Frame:
    """Makes items of what a reader says; keeps the keys of each session."""

    def __init__(self, form: RecordForm) -> None:
        self._form = form
        self._current: Conversation | None = None
        self._announced: Conversation | None = None
        self._started: set[str] = set()
        self._keys: dict[str, ItemKeys] = {}

    def read_record(self, record: dict[str, Any], drafts: Statements, line: int | None) -> Iterator[Item]:
        """Yield the items of one record."""
        time_field = occurred_at_field(_first(record, self._form.time))
        kind = str(_first(record, self._form.kind))
        skipped = Skipped(kind if kind in self._form.silent else f"type:{kind[:_MAX_KIND]}")
        is_told = False
        part = 0

        for draft in drafts:
            if isinstance(draft, Conversation):
                self._current = draft
                if draft.begins and draft != self._announced:
                    is_told = True
                    yield from self._announce(line)
            elif isinstance(draft, Skipped):
                skipped = draft
            elif isinstance(draft, Problem):
                is_told = True
                yield Problem(draft.reason, line)
            else:
                is_told = True
                yield from self._announce(line)
                event_type, values = draft
                data = fit_payload(event_type, {**time_field, **values})
                key, content = self._name_event(record, part, event_type, data)
                part += 1
                yield ForeignEvent(key, event_type, data, tool_name=data.get("tool"), line=line, content=content)

        if not is_told:
            is_unknown = skipped.shape is None and skipped.kind.startswith("type:")
            yield Skipped(skipped.kind, line, describe_shape(record) if is_unknown else skipped.shape)

    def _name_event(self, record: dict[str, Any], part: int, event_type: EventType, data: dict[str, Any]) -> ItemName:
        if self._form.name_part is not None:
            return self._form.name_part(record, part)
        assert self._current is not None
        origin = self._current.copied_from or self._current.origin
        keys = self._keys.setdefault(origin, ItemKeys(f"{self._form.name}/{origin}"))
        content = {name: value for name, value in data.items() if name not in ("usage", "occurred_at")}
        return keys.next_key(_first(record, self._form.id), event_type, content), None

    def _announce(self, line: int | None) -> Iterator[Item]:
        session = self._current
        if session is None:
            raise ValueError("no session begins before it")
        if session == self._announced:
            return
        self._announced = session

        parent = session.parent if isinstance(session.parent, str) and session.parent else None
        project = derive_project(session.cwd)
        yield ForeignSession(
            origin=session.origin,
            agent=session.agent or self._form.name,
            channel=session.channel,
            project=project,
            repository=find_repository(project, session.remote),
            model=session.model if isinstance(session.model, str) else None,
            kind=session.kind or ("sub-agent" if parent else "root"),
            parent_origin=parent,
            follows=session.follows,
            abandoned=session.is_abandoned,
        )

        if session.origin not in self._started:
            self._started.add(session.origin)
            start = {"cwd": session.cwd, "model": session.model, "version": session.version}
            start |= {"git_branch": session.branch, **session.details, **occurred_at_field(session.time)}
            data = fit_payload(EventType.SESSION_START, start)
            key = f"{self._form.name}/{session.origin}/start"
            yield ForeignEvent(key, EventType.SESSION_START, data, line=line)


def silent_kinds(name: str) -> frozenset[str]:
    """Return the kinds of a format's records that are known to hold nothing for the log."""
    text = (files("consolidator.formats.agents") / "silent_kinds.txt").read_text(encoding="utf-8")
    return frozenset(text.partition(f"[{name}]\n")[2].partition("\n\n")[0].split())


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)
