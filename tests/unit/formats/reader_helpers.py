"""Helpers for the tests of readers: write a log, read it, inspect the items."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.formats.registry import read_log
from consolidator.models.payload import EventType, check_payload

_DEFAULT_DATA = Path(__file__).parents[3].parent / "shared" / "data"
DATA = Path(os.environ.get("CONSOLIDATOR_TEST_DATA", _DEFAULT_DATA))


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """Write objects as JSONL; strings are written unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts))
    return path


class Log:
    """The items that a reader yields for some files, with every payload checked."""

    def __init__(self, reader: Format, paths: Sequence[Path], root: Path) -> None:
        self.items: list[Item] = [item for path in paths for item in read_log(reader, path, root)]
        self.sessions: dict[str, ForeignSession] = {}
        self.events: list[ForeignEvent] = []
        self.by_session: dict[str, list[ForeignEvent]] = {}
        self.skipped: list[Skipped] = []
        self.problems: list[Problem] = []
        current = ""
        for item in self.items:
            if isinstance(item, ForeignSession):
                current = item.origin
                self.sessions.setdefault(current, item)
            elif isinstance(item, ForeignEvent):
                check_payload(item.type, item.data)
                self.events.append(item)
                self.by_session.setdefault(current, []).append(item)
            elif isinstance(item, Skipped):
                self.skipped.append(item)
            else:
                self.problems.append(item)

    def payloads(self, kind: EventType) -> list[dict[str, Any]]:
        """Return the payloads of one type, without their time."""
        return [
            {key: value for key, value in event.data.items() if key != "occurred_at"}
            for event in self.events
            if event.type is kind
        ]

    def types(self, origin: str | None = None) -> list[str]:
        """Return the types of a session's events, in order."""
        return [event.type.value for event in (self.events if origin is None else self.by_session[origin])]

    def user_texts(self) -> list[str]:
        """Return the texts of people's messages."""
        return [data["text"] for data in self.payloads(EventType.USER_MESSAGE) if data.get("origin", "user") == "user"]

    def skipped_kinds(self) -> list[str]:
        """Return the kinds of the skipped lines."""
        return [skipped.kind for skipped in self.skipped]

    def keys(self) -> list[str]:
        """Return the keys of the events."""
        return [event.key for event in self.events]

    def only_payload(self, kind: EventType) -> dict[str, Any]:
        """Return the payload of the one event of a type."""
        (data,) = self.payloads(kind)
        return data

    @property
    def session(self) -> ForeignSession:
        """Return the one session."""
        (session,) = self.sessions.values()
        return session


def results_follow_calls(log: Log) -> bool:
    """Tell whether every result follows an open call of its id."""
    open_calls: dict[str, int] = {}
    for event in log.events:
        call = str(event.data.get("call_id"))
        if event.type is EventType.TOOL_CALL:
            open_calls[call] = open_calls.get(call, 0) + 1
        elif event.type is EventType.TOOL_RESULT:
            if not open_calls.get(call):
                return False
            open_calls[call] -= 1
    return True
