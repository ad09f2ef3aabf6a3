"""Made-up coding sessions that look like real ones to the nights: the same for the same number, on every machine."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store.log import events, sessions

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
_DETOURS = (
    "ls -la src/{part}",
    "cat src/{part}/README.md | head -40",
    "git log --oneline -5",
    "git diff HEAD~1 -- src/{part}",
    "grep -rn {part} src | wc -l",
    "find . -name '{part}*' -newer setup.cfg",
    "curl -s http://localhost:8000/{part}/{number}",
    "ruff check src/{part}",
    "mypy src/{part}",
    "sed -n 1,80p src/{part}/{part}_{number}.py",
    "psql -c 'select count(*) from {part}'",
    "kubectl get pods -l app={part}",
    "make {part}",
    "cargo test {part}",
    "du -sh build/{part}",
)
_Call = list[NewEvent]  # a call and its result


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


async def write(conn: Connection, number: int, length: int, *, now: datetime, name: str = "") -> str:
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
    """Writes a session task by task; what is done about each is of several kinds, with detours."""

    def __init__(self, number: int) -> None:
        self._chance = random.Random(number)
        self._time = FIRST + timedelta(minutes=number)
        self._calls = 0
        self._project = project_of(number)
        self._kinds = (self._mend, self._mend, self._build, self._release, self._look, self._query)

    def task(self) -> Iterator[NewEvent]:
        """Yield one request, what is done about it, and the answer."""
        chance = self._chance
        part = chance.choice(_PARTS)
        path = f"{self._project}/src/{part}_{chance.randrange(30)}.py"
        yield self._event(EventType.USER_MESSAGE, {"text": chance.choice(_ASKED).format(part)})
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(chance, 200)})
        for call in chance.choice(self._kinds)(part, path):
            yield from call
            if chance.random() < 0.15:
                yield from self._detour(part)
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(chance, 400)})

    def _mend(self, part: str, path: str) -> Iterator[_Call]:
        chance, test = self._chance, f"tests/test_{part}.py"
        yield self._call("Grep", {"pattern": f"{part}_{chance.choice(_WORDS)}", "path": self._project}, 400)
        yield self._call("Read", {"file_path": path}, 2500)
        if chance.random() < 0.2:
            yield self._call("Edit", self._edit(path), 90, failed="File has not been read yet. Read it first.")
            yield self._call("Read", {"file_path": path}, 2500)
        yield self._call("Edit", self._edit(path), 300)
        command = f"python -m pytest -q {test}"
        if chance.random() < 0.4:
            told = f"E   AssertionError: assert {chance.randrange(99)} == {chance.randrange(99)}\nFAILED {test}"
            yield self._shell(command, 0, failed=told)
            yield self._call("Edit", self._edit(path), 300)
        yield self._shell(command, 600)
        yield self._shell("git status --short", 80)
        said = " ".join(chance.choices(_WORDS, k=5))
        yield self._shell(f"git add -A && git commit -m '{said}'", 120)

    def _build(self, part: str, path: str) -> Iterator[_Call]:
        if self._chance.random() < 0.3:
            yield self._shell("npm run build", 0, failed=f"sh: 1: {part}-cli: not found")
            yield self._shell(f"npm install {part}-cli", 500)
        yield self._shell("npm run build", 900)
        yield self._shell(f"docker build -t {part}:{self._chance.randrange(40)} .", 1500)
        yield self._shell(f"docker run --rm {part}", 400)

    def _release(self, part: str, path: str) -> Iterator[_Call]:
        branch = f"release-{self._chance.randrange(90)}"
        yield self._shell(f"git checkout -b {branch}", 60)
        yield self._call("Edit", self._edit(f"{self._project}/pyproject.toml"), 300)
        if self._chance.random() < 0.3:
            yield self._shell(
                f"git push origin {branch}", 0, failed="fatal: The current branch has no upstream branch."
            )
            yield self._shell(f"git push -u origin {branch}", 200)
        else:
            yield self._shell(f"git push -u origin {branch}", 200)
        yield self._shell(f"gh pr create --fill --head {branch}", 100)

    def _look(self, part: str, path: str) -> Iterator[_Call]:
        yield self._call("Glob", {"pattern": f"**/{part}*.py"}, 300)
        for _ in range(self._chance.randrange(1, 5)):
            yield self._call("Read", {"file_path": path}, 2500)
        yield self._call("Write", {"file_path": f"{self._project}/docs/{part}.md", "content": self._prose(800)}, 80)

    def _query(self, part: str, path: str) -> Iterator[_Call]:
        number = self._chance.randrange(1000, 9999)
        yield self._call(
            "find_order", {"customer": f"{part}-{number}"}, 0, result={"order": {"id": f"W{number}{part}"}}
        )
        yield self._call("get_order", {"order_id": f"W{number}{part}"}, 700)
        yield self._call("close_order", {"order_id": f"W{number}{part}", "reason": "no longer needed"}, 100)

    def _detour(self, part: str) -> _Call:
        command = self._chance.choice(_DETOURS).format(part=part, number=self._chance.randrange(500))
        return self._shell(command, self._chance.randrange(50, 1500))

    def _shell(self, command: str, size: int, failed: str = "") -> _Call:
        return self._call("Bash", {"command": command}, size, failed)

    def _prose(self, size: int) -> str:
        return _text(self._chance, size)

    def _edit(self, path: str) -> dict[str, Any]:
        old, new = _text(self._chance, 120), _text(self._chance, 150)
        return {"file_path": path, "old_string": old, "new_string": new}

    def _call(
        self, tool: str, arguments: dict[str, Any], size: int, failed: str = "", result: dict[str, Any] | None = None
    ) -> _Call:
        """Return a call with its result: what is given, the error, or text of about `size` characters."""
        self._calls += 1
        call = {"call_id": f"call-{self._calls}", "tool": tool}
        content = result or failed or _text(self._chance, int(size * self._chance.uniform(0.5, 1.5)))
        ended = {**call, "status": "error" if failed else "ok", "content": content}
        return [
            self._event(EventType.TOOL_CALL, {**call, "arguments": arguments}),
            self._event(EventType.TOOL_RESULT, ended),
        ]

    def _event(self, kind: EventType, data: dict[str, Any]) -> NewEvent:
        self._time += timedelta(seconds=self._chance.randrange(2, 40))
        return NewEvent(kind, {"v": 1, **data, "occurred_at": self._time.isoformat()}, None, data.get("tool"))
