"""Write and read bundles, version 2 of our own format: a session with all that belongs to it, under one checksum.

JSON lines, of which the same session gives the same bytes. The first is {"consolidator": 2, "bundle": {...}, "session":
{...}}; each further session begins with {"consolidator": 2, "session": {...}}, ancestors come first. Then come its
lines, in the order in which they were written: events as in version 1, and records with one key that names them:
lineage (what it reads of its ancestors), columns (the session's state, configuration, labels and totals), seed, view,
checkpoint, chunk, delivery. The last line is {"end": {"lines": n, "sha256": "..."}} over the bytes of all lines before
it.

Headers have the fields of version 1; of the session that an exact bundle is of, also chain: seq and hash of the last
event where it was exported first. Chunks stand where people saw them: before the event that ends their message, and
before a person's message that came later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any

from consolidator.errors import ImportRefused
from consolidator.formats import native
from consolidator.formats.base import ForeignEvent, ForeignSession, Item, Problem, Skipped
from consolidator.formats.common.json_parsing import parse_json
from consolidator.formats.common.jsonl import MAX_LINE, encode_line, parse_head
from consolidator.formats.common.log_files import file_finder, open_log
from consolidator.models.event import ChunkRow, Event, comes_before, parse_timestamp
from consolidator.models.lineage import MAX_RANGES
from consolidator.models.payload import EventType

NAME = "bundle"
VERSION = 2
COPY = "copy"  # in place of our name in the origins of copies: they are no evidence, whatever they are copies of
REDACTED_COPY = "redacted-copy"  # of a redacted bundle: the exact one is copied beside it
_MAX_NUMBER = 2**53  # above it no number is believed


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NUMBER


def _is_time(value: object) -> bool:
    return parse_timestamp(value) is not None


def _is_amount(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,18})?", value) is not None


def _optional(is_valid: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or is_valid(value)


def _is_shift(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER


def _is_list_of_ranges(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_RANGES and all(map(_is_range, value))


def _is_range(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("session"), str) or not _is_shift(value.get("shift")):
        return False
    return _is_number(value.get("after_seq")) and _is_number(value.get("upto_seq"))


# The fields of each kind of record, as they are written, and what they may be: of a type, or what a function takes.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "columns": {
        "open_task": str | None,
        "state": dict,
        "config": dict,
        "max_cost": _optional(_is_amount),
        "cost": _is_amount,
        "turns": _is_number,
        "input_tokens": _is_number,
        "output_tokens": _is_number,
        "cached_tokens": _is_number,
        "compactions": _is_number,
        "context_window": _optional(_is_number),
        "labels": dict,
        "trigger_type": str | None,
        "trigger_id": str | None,
        "completed_at": _optional(_is_time),
    },
    "lineage": {"base_seq": _is_number, "ranges": _is_list_of_ranges},
    "checkpoint": {
        "seq": _is_shift,
        "label": str | None,
        "metadata": dict,
        "delta": dict,
        "fold": dict,
        "created_at": _is_time,
        "expires_at": _optional(_is_time),
    },
    "seed": {
        "ordinal": _is_number,
        "role": str,
        "content": str,
        "is_new": bool,
        "occurred_at": _optional(_is_time),
        "details": dict,
    },
    "chunk": {
        "after_seq": _optional(_is_number),
        "message_id": str,
        "seq": _is_number,
        "started_seq": _is_number,
        "delta": str,
    },
    "delivery": {
        "message_id": str,
        "channel": str,
        "upto_seq": _is_number,
        "started_seq": _is_number,
        "sent_at": _is_time,
    },
    "view": {
        "upto": _is_number,
        "summary": dict,
        "compaction_seq": _is_number,
        "compaction": dict,
        "scratchpad_seq": _is_number,
        "scratchpad": str | None,
    },
}
_LEFT_OUT = ("open_task", "after_seq")  # fields that a line lacks where there is none
_TIMES, _AMOUNTS = ("completed_at", "created_at", "expires_at", "occurred_at", "sent_at"), ("max_cost", "cost")


# What a redacted bundle has as it is: ids that lines refer to, words of ours, and pieces of a text that is redacted as
# a whole before it is written. Every other field of every line is redacted, also one that is added here some day.
VERBATIM: Mapping[str, frozenset[str]] = {
    "session": frozenset({"id", "parent_id", "root_id", "chain"}),
    "event": frozenset({"seq", "type", "principal"}),
    "lineage": frozenset({"ranges"}),
    "chunk": frozenset({"message_id", "delta"}),
    "delivery": frozenset({"message_id"}),
}


@dataclass(frozen=True, slots=True)
class ChainHash:
    """The hash of an event in the log that a bundle was exported from first."""

    seq: int
    hash: str  # 64 hex digits


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """What the first and the last line of a bundle say."""

    session_id: str  # of the session that it is of, where it was exported
    sessions: tuple[str, ...]  # ids of all sessions in it, ancestors first
    redacted: bool
    lines: int
    sha256: str  # hex digits
    chain: ChainHash | None = None  # of an exact bundle


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """A line that is no event: something that belongs to the last session."""

    kind: str  # a name in _FIELDS
    values: Mapping[str, Any]  # times and amounts as such
    line: int


BundleItem = ForeignSession | ForeignEvent | BundleRecord


class BundleWriter:
    """Encodes the lines of one bundle and sums them up; with `redact` every value but those in VERBATIM passes it."""

    def __init__(self, session_id: str, *, redact: Callable[[Any], Any] | None) -> None:
        self._first: dict[str, Any] | None = {"session": session_id, "redacted": redact is not None}
        self._redact = redact
        self._lines = 0
        self._digest = hashlib.sha256()

    def session(self, header: Mapping[str, Any]) -> str:
        """Return the line that begins a session."""
        line = {native.NAME: VERSION, "session": _sorted(self._redacted("session", header))}
        if self._first is not None:
            line["bundle"], self._first = self._first, None
        return self._encode(line)

    def event(self, event: Event) -> str:
        """Return the line of an event."""
        line = self._redacted("event", native.build_event_line(event))
        return self._encode({**line, "data": _sorted(line["data"])})

    def record(self, kind: str, values: Mapping[str, Any]) -> str:
        """Return the line of a record."""
        return self._encode({kind: self._redacted(kind, values)})

    def row(self, kind: str, row: object) -> str:
        """Return the line of a row that is a record of this kind; times and amounts are texts."""
        values = {name: getattr(row, name) for name in _FIELDS[kind]}
        values |= {name: value.isoformat() for name, value in values.items() if isinstance(value, datetime)}
        values |= {name: str(value) for name, value in values.items() if isinstance(value, Decimal)}
        left_out = [name for name in _LEFT_OUT if values.get(name) is None]
        return self.record(kind, {name: value for name, value in values.items() if name not in left_out})

    def end(self) -> str:
        """Return the last line."""
        return encode_line({"end": {"lines": self._lines, "sha256": self._digest.hexdigest()}}, canonical=True)

    def _redacted(self, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a line's values without credentials; each by itself, as their names here are no credentials' names."""
        redact, verbatim = self._redact, VERBATIM.get(kind, frozenset())
        if redact is None:
            return dict(values)
        return {name: value if name in verbatim else redact(value) for name, value in values.items()}

    def _encode(self, value: Mapping[str, Any]) -> str:
        # Not canonical: a model is shown a result's keys in the order in which the log has them.
        line = encode_line(_sorted(value))
        self._lines += 1
        self._digest.update(line.encode())
        return line


def _sorted(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


files = file_finder(".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check the first line for a bundle's header, of this version or a later one."""
    return any(native.NAME in line and isinstance(line.get("bundle"), dict) for line in islice(parse_head(head), 1))


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read the sessions and events of a bundle, as of any log; raises ImportRefused for one that is damaged."""
    for item in read_bundle(path):
        yield Skipped(item.kind, item.line) if isinstance(item, BundleRecord) else item


def check_bundle(path: Path, check_event: Callable[[ForeignEvent], str | None] = lambda _: None) -> BundleInfo:
    """Return what a bundle is of, after reading it to its end.

    Raises ImportRefused where it is truncated, changed, or says what no session can be; `check_event` returns why the
    log would refuse an event.
    """
    reader = _BundleReader(path)
    for item in reader.read():
        if isinstance(item, ForeignEvent) and (reason := check_event(item)) is not None:
            raise reader.refuse(reason)
    return reader.info()


def read_bundle(path: Path) -> Iterator[BundleItem]:
    """Read a bundle that was checked, as a stream; raises ImportRefused at its end if it was changed since."""
    yield from _BundleReader(path, "the file was changed while it was imported: import it again").read()


@dataclass(slots=True)
class _BundleReader:
    """Reads one bundle; every line that is not as it must be raises ImportRefused."""

    path: Path
    _advice: str = "nothing was written: ask for the file again, or export the session again"
    _number: int = 0  # of the line
    _bundle: Mapping[str, Any] = field(default_factory=dict)
    _chain: ChainHash | None = None  # of the last session
    _sessions: list[str] = field(default_factory=list)
    _events: native.EventReader | None = None  # of the last session
    _end: Mapping[str, Any] | None = None

    def info(self) -> BundleInfo:
        """Return what the bundle is of, once it was read."""
        end = self._end or {}
        redacted = self._bundle.get("redacted") is not False
        name = str(self._bundle.get("session"))
        return BundleInfo(name, tuple(self._sessions), redacted, int(end["lines"]), str(end["sha256"]), self._chain)

    def read(self) -> Iterator[BundleItem]:
        """Yield what the lines say."""
        digest = hashlib.sha256()
        for raw in self._raw_lines():
            self._number += 1
            if self._end is not None:
                raise self.refuse("something follows its last line")
            try:
                line = parse_json(raw)
            except ValueError as error:
                raise self.refuse(f"it is not JSON ({error}): the file was cut off or changed") from error
            if not isinstance(line, dict):
                raise self.refuse("it is no object")
            if "end" in line:
                self._check_end(line["end"], digest.hexdigest())
                continue
            digest.update(raw)
            yield self._parse(line)
        if self._end is None:
            raise self.refuse("its last line is missing: the file was cut off")
        if not self._sessions or self._sessions[-1] != self._bundle.get("session"):
            raise self.refuse("it does not end with the session that it is of")

    def _raw_lines(self) -> Iterator[bytes]:
        with open_log(self.path) as file:
            while raw := file.readline(MAX_LINE + 1):
                if len(raw) > MAX_LINE:
                    raise self.refuse(f"a line is longer than {MAX_LINE} bytes")
                yield raw

    def _check_end(self, end: Any, digest: str) -> None:
        if not isinstance(end, dict):
            raise self.refuse("its last line is no checksum")
        if end.get("sha256") != digest or end.get("lines") != self._number - 1:
            raise ImportRefused(
                f"{self.path}: its contents are not what was exported: lines were changed, added or taken out; "
                f"{self._advice}"
            )
        self._end = end

    def _parse(self, line: dict[str, Any]) -> BundleItem:
        if native.NAME in line:
            return self._parse_session(line)
        if self._events is None:
            raise self.refuse("its first line is no header")
        if "seq" in line and "type" in line:
            return self._parse_event(self._events, line)
        kind = next(iter(line), "")
        if len(line) != 1 or kind not in _FIELDS or not isinstance(line[kind], dict):
            raise self.refuse(f"{kind[:60]!r} is nothing that this version knows: read it with a newer consolidator")
        return BundleRecord(kind, self._check_record(kind, line[kind]), self._number)

    def _parse_session(self, line: dict[str, Any]) -> ForeignSession:
        if line[native.NAME] != VERSION:
            raise self.refuse(f"it is of version {line[native.NAME]!r}, and this consolidator reads {VERSION}")
        if self._number == 1:
            if not isinstance(line.get("bundle"), dict):
                raise self.refuse("its first line is no header of a bundle")
            self._bundle = line["bundle"]
        session = native.parse_session(line, self._number)
        if isinstance(session, Problem):
            raise self.refuse(session.reason)
        if session.origin in self._sessions:
            raise self.refuse(f"session {session.origin[:60]} comes twice")
        self._sessions.append(session.origin)
        self._chain = self._parse_chain(session.details[native.EXPORTED].get("chain"))
        self._events = native.EventReader.from_session(session)
        return session

    def _parse_chain(self, chain: Any) -> ChainHash | None:
        if chain is None:
            return None
        digest = chain.get("hash") if isinstance(chain, dict) else None
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest) or not _is_number(chain.get("seq")):
            raise self.refuse("the session has no valid chain")
        return ChainHash(chain["seq"], chain["hash"])

    def _parse_event(self, events: native.EventReader, line: dict[str, Any]) -> ForeignEvent:
        expected = events.last_seq + 1
        event = events.parse_event(line, self._number)
        if isinstance(event, Problem):
            raise self.refuse(event.reason)
        if event.seq != expected:
            raise self.refuse(f"event {expected} is missing: event {event.seq} comes instead")
        return event

    def _check_record(self, kind: str, values: dict[str, Any]) -> Mapping[str, Any]:
        fields = _FIELDS[kind]
        for name, kind_of in fields.items():
            value = values.get(name)
            is_valid = isinstance(value, kind_of) if isinstance(kind_of, (type, UnionType)) else kind_of(value)
            if not is_valid:
                raise self.refuse(f"a {kind} has no valid {name}")
        checked: dict[str, Any] = {name: values.get(name) for name in fields}
        checked |= {name: parse_timestamp(checked[name]) for name in _TIMES if name in fields}
        return checked | {name: Decimal(checked[name]) for name in _AMOUNTS if checked.get(name) is not None}

    def refuse(self, reason: str) -> ImportRefused:
        """Return the error for the last line that was read."""
        return ImportRefused(f"{self.path}, line {self._number}: {reason}; {self._advice}")


@dataclass(slots=True)
class ChunkOrder:
    """Yields the chunks that come before or after an event; a message's chunks stay in their order."""

    _waiting: dict[str, list[ChunkRow]] = field(default_factory=dict)  # by message_id

    def add(self, chunks: Iterable[ChunkRow]) -> None:
        """Take the chunks of messages that began before the next window of events ends."""
        for chunk in chunks:
            self._waiting.setdefault(chunk.message_id, []).append(chunk)

    def before(self, event: Event) -> Iterator[ChunkRow]:
        """Yield what came before an event: the rest of the message that it ends, and what was said before a person."""
        if event.type is EventType.USER_MESSAGE:
            for message_id, chunks in list(self._waiting.items()):
                earlier = [chunk for chunk in chunks if comes_before(chunk, event)]
                self._waiting[message_id] = chunks[len(earlier) :]
                yield from earlier
        elif event.type is not EventType.THINKING_START and event.data.get("decision") != "generation_resumed":
            yield from self._waiting.pop(str(event.data.get("message_id") or ""), [])

    def after(self, event: Event) -> Iterator[ChunkRow]:
        """Yield what came with an event: the notice that people were shown of it."""
        yield from self._waiting.pop(str(event.data.get("notice_id") or ""), [])

    def rest(self) -> Iterator[ChunkRow]:
        """Yield the chunks of messages that have not ended."""
        for chunks in self._waiting.values():
            yield from chunks
        self._waiting.clear()
