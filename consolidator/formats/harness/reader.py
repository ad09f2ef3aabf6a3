"""Read and write harness logs: JSONL of {"ts", "type", "id", "payload"}, one session per file, lossless both ways.

GEN_START and GEN_CHUNK are not events: their text is in the AssistantResponse of GEN_COMPLETE. The original lines are
kept in the next event, in data["harness"]["before"], so that writing restores them all.

A generation that never completes becomes an AssistantResponse with "incomplete": true and its text so far. If a later
import of the same file completes it, the log has both events, and writing writes each line once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.errors import InvalidEvent
from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.fields import derive_origin, occurred_at_field
from consolidator.formats.common.jsonl import encode_line, guard_line, join_surrogates, parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.harness.lines import EVENT_TYPES, GENERATION_TYPES, restore_line, to_event_data, to_lines
from consolidator.models.event import Event
from consolidator.models.payload import EventType, check_payload

NAME = "harness"
ONE_SESSION = True  # lines do not name their session
MAX_OPEN_GENERATIONS = 64  # beyond it the oldest is recorded as incomplete
MAX_OPEN_CALLS = MAX_OPEN_GENERATIONS * 16  # calls without a result; beyond it the oldest is dropped
MAX_PENDING_LINES = 20_000  # lines kept for the next event; beyond it their generation is recorded as incomplete
files = file_finder(".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for the vocabulary."""
    lines = parse_head(head)
    return any(str(line.get("type")) in EVENT_TYPES and isinstance(line.get("payload"), dict) for line in lines)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a log as one session."""
    reader = _HarnessReader(derive_origin(path, root))
    yield ForeignSession(origin=reader.origin, agent=NAME)
    for number, line in read_objects(path):
        if isinstance(line, (Skipped, Problem)):
            yield line
        else:
            yield from guard_line(reader.read_line(line, number), number)
    yield from reader.end_open_generations()


def write(session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a session: lines read from such a log unchanged, other events in the same vocabulary.

    Events that the vocabulary cannot express (session start, tasks, approvals, sub-agents, errors, decisions not about
    a generation) are left out.
    """
    incomplete_lines: set[str] = set()  # written lines of incomplete generations
    for event in events:
        harness_data = event.data.get(NAME)
        if not isinstance(harness_data, Mapping):
            yield from (encode_line(line) for line in to_lines(event))
            continue
        incomplete = bool(event.data.get("incomplete"))
        for line in harness_data.get("before", ()):
            text = encode_line(line)
            if text not in incomplete_lines:
                yield text
            if incomplete and isinstance(line.get("id"), str):  # a line without an id may occur twice
                incomplete_lines.add(text)
        if not incomplete:
            yield encode_line(restore_line(event.type, event.data))


@dataclass(slots=True)
class _Generation:
    """A generation that has not completed yet."""

    deltas: list[str] = field(default_factory=list)
    line_ids: set[str] = field(default_factory=set)  # a replay repeats lines
    resumed: bool = False

    def add_line(self, kind: str, line_id: Any, delta: Any) -> None:
        """Add a GEN_START or GEN_CHUNK line; a repeated line is ignored."""
        if isinstance(line_id, str):
            if line_id in self.line_ids:
                return
            self.line_ids.add(line_id)
        if kind == "GEN_CHUNK" and isinstance(delta, str):
            self.deltas.append(delta)
        elif kind == "GEN_START" and not self.resumed:
            self.deltas.clear()  # it starts over
        if kind == "GEN_START":
            self.resumed = False

    @property
    def text(self) -> str:
        """The text so far."""
        return join_surrogates("".join(self.deltas))


class _HarnessReader:
    """Converts the lines of one log to events."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._keys = ItemKeys(f"{NAME}/{origin}")
        self._generations: dict[str, _Generation] = {}
        self._pending_lines: list[dict[str, Any]] = []  # generation lines since the last event
        self._open_calls: dict[str, str] = {}  # calls without a result: call id -> tool

    def read_line(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Yield the items of the next line."""
        kind, payload = line.get("type"), line.get("payload", {})
        if not isinstance(kind, str) or not isinstance(payload, dict):
            yield Problem(
                "the line has no type" if not isinstance(kind, str) else f"the payload of {kind} is not an object",
                number,
            )
        elif kind in GENERATION_TYPES:
            yield from self._add_to_generation(kind, line, payload)
        elif kind not in EVENT_TYPES:
            yield Skipped(f"type:{kind}", number)
        else:
            if kind == "SESSION_TERMINATED":
                yield from self.end_open_generations()
                yield ForeignSession(origin=self.origin, agent=NAME, ended=True)
            yield self._make_event(kind, line, payload, number)

    def _add_to_generation(self, kind: str, line: dict[str, Any], payload: dict[str, Any]) -> Iterator[Item]:
        message_id = str(payload.get("msg_id"))
        self._generations.setdefault(message_id, _Generation()).add_line(kind, line.get("id"), payload.get("delta"))
        self._pending_lines.append(line)
        if len(self._generations) > MAX_OPEN_GENERATIONS:
            yield self._incomplete_response(next(iter(self._generations)))
        elif len(self._pending_lines) > MAX_PENDING_LINES:
            yield self._incomplete_response(message_id)

    def end_open_generations(self) -> Iterator[Item]:
        """Yield an incomplete response for each generation that never completed."""
        while self._generations:
            yield self._incomplete_response(next(iter(self._generations)))

    def _incomplete_response(self, message_id: str) -> ForeignEvent:
        generation = self._generations.pop(message_id)
        before, self._pending_lines = self._pending_lines, []
        last = before[-1] if before else {}
        data: dict[str, Any] = {"text": generation.text, "incomplete": True, **occurred_at_field(last.get("ts"))}
        if message_id != "None":
            data["message_id"] = message_id
        key = self._keys.next_key("incomplete", message_id, last.get("id"), generation.text)
        return ForeignEvent(key, EventType.ASSISTANT_RESPONSE, data | {NAME: {"before": before}})

    def _make_event(self, kind: str, line: dict[str, Any], payload: dict[str, Any], number: int) -> ForeignEvent:
        generation_text = self._end_generation(kind, payload) if kind in ("GEN_COMPLETE", "GEN_RESUMED") else None
        data = to_event_data(kind, line, payload, generation_text)
        event_type = EVENT_TYPES[kind]
        try:
            check_payload(event_type, data)
        except InvalidEvent:
            data = to_event_data(kind, line, {}, generation_text)  # an unusable payload: required fields only
        text = encode_line(line, canonical=True)
        if encode_line(restore_line(event_type, data), canonical=True) != text:
            data[NAME]["line"] = line
        if self._pending_lines:
            data[NAME]["before"], self._pending_lines = self._pending_lines, []
        key = self._make_key(line, text)
        return ForeignEvent(key, event_type, data, tool_name=self._resolve_tool(event_type, data), line=number)

    def _end_generation(self, kind: str, payload: dict[str, Any]) -> str | None:
        message_id = str(payload.get("msg_id"))
        if kind == "GEN_RESUMED" and payload.get("strategy") != "replace":
            if message_id in self._generations:
                self._generations[message_id].resumed = True
            return None
        generation = self._generations.pop(message_id, None)  # a replaced generation is discarded
        return generation.text if generation and kind == "GEN_COMPLETE" else None

    def _make_key(self, line: dict[str, Any], text: str) -> str:
        """Return the key of a line: repeated lines with an id have the same key, each line without one its own."""
        line_id = line.get("id")
        if not isinstance(line_id, str):
            return self._keys.next_key(line)
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return f"{NAME}/{self.origin}/{line_id}/{digest}"

    def _resolve_tool(self, event_type: EventType, data: Mapping[str, Any]) -> str | None:
        if event_type is EventType.TOOL_CALL:
            self._open_calls[data["call_id"]] = data["tool"]
            if len(self._open_calls) > MAX_OPEN_CALLS:
                del self._open_calls[next(iter(self._open_calls))]
            return str(data["tool"])
        return self._open_calls.pop(data["call_id"], None) if event_type is EventType.TOOL_RESULT else None
