"""Made-up coding sessions that look like real ones to the nights: the same for the same number, on every machine."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.database.partitions import Driver
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store import events, sessions

FIRST = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
AGENTS, PROJECTS = 3, 12
_PARTS = ("parser", "store", "index", "queue", "cache", "config", "router", "model", "schema", "worker", "report")
_WORDS = re.findall(
    r"\w+",
    "def return import class self value none raise async await for with result error test assert key name path line "
    "file open read write close list dict tuple string bytes count index query event time zone table column row",
)
_ASKED = (
    "Please fix the failing test in {}.",
    "Add a flag to {} that skips empty rows, please.",
    "Why does {} raise on an empty list?",
    "Rename the helper in {} and run the tests.",
    "We use tabs in {}, keep it so.",
)


def tool_result(number: int) -> NewEvent:
    """Return one event of the usual size, a tool's result of half a kilobyte."""
    text = _text(random.Random(number), 500)
    return NewEvent(EventType.TOOL_RESULT, {"call_id": f"c{number}", "tool": "Read", "status": "ok", "content": text})


def agent_of(number: int) -> str:
    """Return whose session this is."""
    return f"coder-{number % AGENTS}"


def project_of(number: int) -> str:
    """Return in which project this session works."""
    return f"/home/ada/work/project-{number % PROJECTS}"


def session(number: int, length: int) -> list[NewEvent]:
    """Return a coding session of `length` events: asked, read, edited, tested, failed, mended, committed."""
    steps = _Steps(number)
    found: list[NewEvent] = []
    while len(found) < length:
        found.extend(steps.task())
    return found[:length]


def prepared(number: int, length: int) -> list[events.Prepared]:
    """Return a session as the table takes it."""
    return [events.prepare(event, checked=True) for event in session(number, length)]


async def write(conn: Driver, number: int, length: int, *, now: datetime, name: str = "") -> str:
    """Open a made-up session and load it; return its id. The caller's transaction must be open."""
    identity = name or f"made-{number:07}"
    columns = {"id": identity, "agent": agent_of(number), "project": project_of(number)}
    await sessions.open_session(conn, columns, now=now)
    await events.load_bulk(conn, identity, prepared(number, length), now=now)
    return identity


def _text(chance: random.Random, size: int) -> str:
    """Return lines of code-like words, about `size` characters."""
    words = chance.choices(_WORDS, k=max(size // 6, 1))
    for position in range(7, len(words), 8):
        words[position] += "\n"
    return " ".join(words)


class _Steps:
    """Writes a session task by task."""

    def __init__(self, number: int) -> None:
        self._chance = random.Random(number)
        self._time = FIRST + timedelta(minutes=number)
        self._calls = 0
        self._project = project_of(number)

    def task(self) -> Iterator[NewEvent]:
        """Yield one request and what is done about it."""
        chance = self._chance
        part = chance.choice(_PARTS)
        path = f"{self._project}/src/{part}_{chance.randrange(30)}.py"
        test = f"tests/test_{part}.py"
        yield self._event(EventType.USER_MESSAGE, {"text": chance.choice(_ASKED).format(part)})
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(chance, 200)})
        yield from self._call("Grep", {"pattern": f"{part}_{chance.choice(_WORDS)}", "path": self._project}, 400)
        yield from self._call("Read", {"file_path": path}, 2500)
        if chance.random() < 0.2:
            yield from self._call("Edit", self._edit(path), 90, failed="File has not been read yet. Read it first.")
            yield from self._call("Read", {"file_path": path}, 2500)
        yield from self._call("Edit", self._edit(path), 300)
        command = f"python -m pytest -q {test}"
        if chance.random() < 0.4:
            told = f"E   AssertionError: assert {chance.randrange(99)} == {chance.randrange(99)}\nFAILED {test}"
            yield from self._call("Bash", {"command": command}, 0, failed=told)
            yield from self._call("Edit", self._edit(path), 300)
        yield from self._call("Bash", {"command": command}, 600)
        yield from self._call("Bash", {"command": "git status --short"}, 80)
        said = " ".join(chance.choices(_WORDS, k=5))
        yield from self._call("Bash", {"command": f"git add -A && git commit -m '{said}'"}, 120)
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(chance, 400)})

    def _edit(self, path: str) -> dict[str, Any]:
        old, new = _text(self._chance, 120), _text(self._chance, 150)
        return {"file_path": path, "old_string": old, "new_string": new}

    def _call(self, tool: str, arguments: dict[str, Any], size: int, failed: str = "") -> Iterator[NewEvent]:
        self._calls += 1
        call = {"call_id": f"call-{self._calls}", "tool": tool}
        yield self._event(EventType.TOOL_CALL, {**call, "arguments": arguments})
        content = failed or _text(self._chance, int(size * self._chance.uniform(0.5, 1.5)))
        status = "error" if failed else "ok"
        yield self._event(EventType.TOOL_RESULT, {**call, "status": status, "content": content})

    def _event(self, kind: EventType, data: dict[str, Any]) -> NewEvent:
        self._time += timedelta(seconds=self._chance.randrange(2, 40))
        return NewEvent(kind, {"v": 1, **data, "occurred_at": self._time.isoformat()}, None, data.get("tool"))
