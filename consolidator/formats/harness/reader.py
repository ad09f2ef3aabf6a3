"""Reads and writes harness logs: JSONL of {"ts", "type", "id", "payload"}, one file a session, lossless both ways.

GEN_START and GEN_CHUNK are no events of their own: their text is in the AssistantResponse that GEN_COMPLETE makes, and
the lines as they were go with whichever event comes next, in data["harness"]["before"], so that writing restores all.

A generation that the log never completes is an AssistantResponse too, with "incomplete": true and what there is of its
text. It may be completed by a later import of the same file: then the log holds both, and writing says each line once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.errors import InvalidEvent
from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common import timestamps
from consolidator.formats.common.json_lines import to_line, whole
from consolidator.formats.common.jsonl import files_below, head_objects, read_objects
from consolidator.formats.common.origin import origin_of
from consolidator.formats.harness.lines import FOLDED, KINDS, data_of, line_of, lines_of
from consolidator.models.event import Event
from consolidator.models.payload import EventType, check_payload

NAME = "harness"
ONE_SESSION = True  # no line says which session it is of, so a file can be written of one only
MAX_OPEN = 64  # generations at once, and calls times 16, that may wait for their end; the oldest is given up beyond it
MAX_PENDING = 20_000  # chunks that may wait for an event to go with


def default_paths(home: Path) -> list[Path]:
    """Return nothing: such logs lie where their harness puts them."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the logs at or below `path`."""
    yield from files_below(path, ".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the vocabulary."""
    found = head_objects(head)
    return any(str(one.get("type")) in KINDS and isinstance(one.get("payload"), dict) for one in found)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a log as one session."""
    log = _HarnessLog(origin_of(path, root))
    yield ForeignSession(origin=log.origin, agent=NAME)
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
        else:
            yield from log.take(line, number)
    yield from log.give_up()


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a session: what was read from such a log as it was, anything else in the same vocabulary.

    Events that the vocabulary has no word for (a session's start, tasks, approvals, sub-agents, errors, decisions other
    than about a generation) are left out.
    """
    given_up: set[str] = set()  # lines of generations that were incomplete when they were read
    for event in events:
        kept = event.data.get(NAME)
        if not isinstance(kept, Mapping):
            yield from (to_line(line) for line in lines_of(event))
            continue
        incomplete = bool(event.data.get("incomplete"))
        for line in kept.get("before", ()):
            text = to_line(line)
            if text not in given_up:
                yield text
            if incomplete and isinstance(line.get("id"), str):  # without an id it may really stand there twice
                given_up.add(text)
        if not incomplete:
            yield to_line(line_of(event.type, event.data))


@dataclass(slots=True)
class _Generation:
    """The text of a message on its way."""

    deltas: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)  # of its lines: a replay says some twice
    resumed: bool = False

    def take(self, kind: str, told: Any, delta: Any) -> None:
        """Take a folded line, with its id and its delta."""
        if isinstance(told, str):
            if told in self.ids:
                return
            self.ids.add(told)
        if kind == "GEN_CHUNK" and isinstance(delta, str):
            self.deltas.append(delta)
        elif kind == "GEN_START" and not self.resumed:
            self.deltas.clear()  # it begins again from nothing
        if kind == "GEN_START":
            self.resumed = False

    @property
    def text(self) -> str:
        """What the chunks say, put together."""
        return whole("".join(self.deltas))


class _HarnessLog:
    """A log on its way to events."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._keys = ItemKeys(f"{NAME}/{origin}")
        self._generations: dict[str, _Generation] = {}
        self._pending: list[dict[str, Any]] = []  # folded lines since the last event
        self._tools: dict[str, str] = {}  # names of the calls without a result, by call id

    def take(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Take the next line."""
        kind, payload = line.get("type"), line.get("payload", {})
        if not isinstance(kind, str) or not isinstance(payload, dict):
            yield Problem("no type" if not isinstance(kind, str) else f"the payload of {kind} is no object", number)
        elif kind in FOLDED:
            yield from self._fold(kind, line, payload)
        elif kind not in KINDS:
            yield Skipped(f"type:{kind}", number)
        elif kind == "SESSION_TERMINATED":
            yield from self.give_up()
            yield ForeignSession(origin=self.origin, agent=NAME, ended=True)
            yield self._event(kind, line, payload, number)
        else:
            yield self._event(kind, line, payload, number)

    def _fold(self, kind: str, line: dict[str, Any], payload: dict[str, Any]) -> Iterator[Item]:
        message = str(payload.get("msg_id"))
        self._generations.setdefault(message, _Generation()).take(kind, line.get("id"), payload.get("delta"))
        self._pending.append(line)
        if len(self._generations) > MAX_OPEN:
            yield self._incomplete(next(iter(self._generations)))
        elif len(self._pending) > MAX_PENDING:
            yield self._incomplete(message)

    def give_up(self) -> Iterator[Item]:
        """Yield what there is of the generations that never completed."""
        while self._generations:
            yield self._incomplete(next(iter(self._generations)))

    def _incomplete(self, message: str) -> ForeignEvent:
        generation = self._generations.pop(message)
        before, self._pending = self._pending, []
        last = before[-1] if before else {}
        data: dict[str, Any] = {"text": generation.text, "incomplete": True, **timestamps.at(last.get("ts"))}
        if message != "None":
            data["message_id"] = message
        key = self._keys.key("incomplete", message, last.get("id"), generation.text)
        return ForeignEvent(key, EventType.ASSISTANT_RESPONSE, data | {NAME: {"before": before}})

    def _event(self, kind: str, line: dict[str, Any], payload: dict[str, Any], number: int) -> ForeignEvent:
        said = self._generation_ends(kind, payload) if kind in ("GEN_COMPLETE", "GEN_RESUMED") else None
        data = data_of(kind, line, payload, said)
        event_type = KINDS[kind]
        try:
            check_payload(event_type, data)
        except InvalidEvent:
            data = data_of(kind, line, {}, said)  # a payload like none we know: only what every such event has
        text = to_line(line, canonical=True)
        if to_line(line_of(event_type, data), canonical=True) != text:
            data[NAME]["line"] = line
        if self._pending:
            data[NAME]["before"], self._pending = self._pending, []
        key = self._key(line, text)
        return ForeignEvent(key, event_type, data, tool_name=self._tool(event_type, data), line=number)

    def _generation_ends(self, kind: str, payload: dict[str, Any]) -> str | None:
        message = str(payload.get("msg_id"))
        if kind == "GEN_RESUMED" and payload.get("strategy") != "replace":
            if message in self._generations:
                self._generations[message].resumed = True
            return None
        ended = self._generations.pop(message, None)  # replaced: what was shown is void
        return ended.text if ended and kind == "GEN_COMPLETE" else None

    def _key(self, line: dict[str, Any], text: str) -> str:
        """A line with an id says the same thing however often it stands there; without one each occurrence counts."""
        told = line.get("id")
        if not isinstance(told, str):
            return self._keys.key(line)
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return f"{NAME}/{self.origin}/{told}/{digest}"

    def _tool(self, kind: EventType, data: Mapping[str, Any]) -> str | None:
        if kind is EventType.TOOL_CALL:
            self._tools[data["call_id"]] = data["tool"]
            if len(self._tools) > MAX_OPEN * 16:
                del self._tools[next(iter(self._tools))]
            return str(data["tool"])
        return self._tools.pop(data["call_id"], None) if kind is EventType.TOOL_RESULT else None
