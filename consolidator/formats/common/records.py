"""The frame of a reader: the reader says what a record is, the frame makes items, keys and times, and accounts for all.

Records are lines of JSONL, members of a JSON file, or rows of a database. A reader is a `RecordForm` and one function
that yields a `Conversation` where a session begins or goes on, and a draft for each event. A record of which no event
comes is skipped: as the `Skipped` that the function yields, or under its kind, where the form lists it; else under
"type:KIND", which says that a reader does not know it, as in a newer version's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.drafts import Draft
from consolidator.formats.common.fields import fit_payload, occurred_at_field
from consolidator.formats.common.jsonl import guard_line
from consolidator.formats.common.project import derive_project
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
    agent: str | None = None  # None: the format's name
    kind: str = "root"
    parent: str | None = None
    copied_from: str | None = None  # the session whose records these repeat


Statements = Iterator[Conversation | Draft | Skipped]  # what a record says


@dataclass(frozen=True, slots=True)
class RecordForm:
    """How the records of a format look: the fields, the first that is there counts."""

    name: str
    kind: tuple[str, ...] = ("type",)
    id: tuple[str, ...] = ("id",)
    time: tuple[str, ...] = ("timestamp",)
    silent: frozenset[str] = frozenset()  # kinds that are known to hold nothing for the log

    def read(
        self,
        records: Records,
        draft: Callable[[dict[str, Any]], Statements],
        first: Conversation | None = None,
    ) -> Iterator[Item]:
        """Yield the items of records; `first` is the session of what comes before one is named."""
        frame = _Frame(self, first)
        for line, record in records:
            if isinstance(record, (Skipped, Problem)):
                yield record
            elif isinstance(record, dict):
                yield from guard_line(frame.read_record(record, draft(record), line), line)
            else:
                yield Problem(f"not an object but {type(record).__name__}", line)


class _Frame:
    """Makes items of what a reader says; keeps the keys of each session."""

    def __init__(self, form: RecordForm, first: Conversation | None) -> None:
        self._form = form
        self._current = first
        self._announced: Conversation | None = None
        self._started: set[str] = set()
        self._keys: dict[str, ItemKeys] = {}

    def read_record(self, record: dict[str, Any], drafts: Statements, line: int | None) -> Iterator[Item]:
        """Yield the items of one record."""
        time_field = occurred_at_field(_first(record, self._form.time))
        kind = str(_first(record, self._form.kind))
        skipped = kind if kind in self._form.silent else f"type:{kind[:_MAX_KIND]}"
        has_events = False
        for draft in drafts:
            if isinstance(draft, Conversation):
                self._current = draft
            elif isinstance(draft, Skipped):
                skipped = draft.kind
            else:
                has_events = True
                yield from self._announce(line)
                assert self._current is not None
                event_type, values = draft
                data = fit_payload(event_type, {**time_field, **values})
                content = {name: value for name, value in data.items() if name not in ("usage", "occurred_at")}
                keys = self._keys_of(self._current.copied_from or self._current.origin)
                key = keys.next_key(_first(record, self._form.id), event_type, content)
                yield ForeignEvent(key, event_type, data, tool_name=data.get("tool"), line=line)
        if not has_events:
            yield Skipped(skipped, line)

    def _keys_of(self, origin: str) -> ItemKeys:
        return self._keys.setdefault(origin, ItemKeys(f"{self._form.name}/{origin}"))

    def _announce(self, line: int | None) -> Iterator[Item]:
        session = self._current
        if session is None:
            raise ValueError("no session begins before it")
        if session == self._announced:
            return
        self._announced = session
        agent = session.agent or self._form.name
        yield ForeignSession(
            origin=session.origin,
            agent=agent,
            channel="cli",
            project=derive_project(session.cwd if isinstance(session.cwd, str) else None),
            model=session.model if isinstance(session.model, str) else None,
            kind=session.kind,
            parent_origin=session.parent,
        )
        if session.origin not in self._started:
            self._started.add(session.origin)
            start = {"cwd": session.cwd, "model": session.model, "version": session.version}
            start |= {"git_branch": session.branch, **occurred_at_field(session.time)}
            data = fit_payload(EventType.SESSION_START, start)
            key = f"{self._form.name}/{session.origin}/start"
            yield ForeignEvent(key, EventType.SESSION_START, data, line=line)


def silent_kinds(name: str) -> frozenset[str]:
    """Return the kinds of a format's records that are known to hold nothing for the log."""
    text = (files("consolidator.formats.agents") / "silent_kinds.txt").read_text(encoding="utf-8")
    return frozenset(text.partition(f"[{name}]\n")[2].partition("\n\n")[0].split())


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)
