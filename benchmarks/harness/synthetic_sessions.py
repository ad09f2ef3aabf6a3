"""Synthetic coding sessions that resemble real ones in size and repetition; the same number gives the same session."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.sessions import sessions

START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
AGENTS, PROJECTS = 3, 12
_PARTS = ("parser", "store", "index", "queue", "cache", "config", "router", "model", "schema", "worker", "report")
_WORDS = re.findall(
    r"\w+",
    "def return import class self value none raise async await for with result error test assert key name path line "
    "file open read write close list dict tuple string bytes count index query event time zone table column row",
)
_REQUESTS = (
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


def generate_tool_result(number: int) -> NewEvent:
    """Return one event of the usual size: a tool result of half a kilobyte."""
    text = _text(random.Random(number), 500)
    return NewEvent(EventType.TOOL_RESULT, {"call_id": f"c{number}", "tool": "Read", "status": "ok", "content": text})


def agent_of(number: int) -> str:
    """Return the agent of a session."""
    return f"coder-{number % AGENTS}"


def project_of(number: int) -> str:
    """Return the project of a session."""
    return f"/home/ada/work/project-{number % PROJECTS}"


def generate_session(number: int, length: int, began_at: datetime | None = None) -> list[NewEvent]:
    """Return a coding session of `length` events: requests, reads, edits, failing and passing tests, commits."""
    generator = _SessionGenerator(number, began_at or START + timedelta(minutes=number))
    generated: list[NewEvent] = []
    while len(generated) < length:
        generated.extend(generator.generate_task())
    return generated[:length]


def prepare_session(number: int, length: int, began_at: datetime | None = None) -> list[events.PreparedEvent]:
    """Return a session as prepared events for a bulk load."""
    return [events.prepare(event) for event in generate_session(number, length, began_at)]


async def write_session(
    conn: Connection, number: int, length: int, *, now: datetime, name: str = "", began_at: datetime | None = None
) -> str:
    """Open a synthetic session and load its events; return its id. The caller must have a transaction open."""
    session_id = name or f"made-{number:07}"
    columns = {"id": session_id, "agent": agent_of(number), "project": project_of(number)}
    await sessions.open_session(conn, columns, now=now)
    await events.load_each(conn, {session_id: prepare_session(number, length, began_at)}, now=now)
    return session_id


def _text(rng: random.Random, size: int) -> str:
    """Return lines of code-like words, about `size` characters."""
    words = rng.choices(_WORDS, k=max(size // 6, 1))
    for position in range(7, len(words), 8):
        words[position] += "\n"
    return " ".join(words)


class _SessionGenerator:
    """Generates a session task by task; tasks are of several kinds, with detours."""

    def __init__(self, number: int, began_at: datetime) -> None:
        self._rng = random.Random(number)
        self._time = began_at
        self._calls = 0
        self._project = project_of(number)
        self._kinds = (self._fix_test, self._fix_test, self._build, self._release, self._explore, self._close_order)

    def generate_task(self) -> Iterator[NewEvent]:
        """Yield a request, the calls that it takes, and the answer."""
        rng = self._rng
        part = rng.choice(_PARTS)
        path = f"{self._project}/src/{part}_{rng.randrange(30)}.py"
        yield self._event(EventType.USER_MESSAGE, {"text": rng.choice(_REQUESTS).format(part)})
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(rng, 200)})
        for call in rng.choice(self._kinds)(part, path):
            yield from call
            if rng.random() < 0.15:
                yield from self._detour(part)
        yield self._event(EventType.ASSISTANT_RESPONSE, {"text": _text(rng, 400)})

    def _fix_test(self, part: str, path: str) -> Iterator[_Call]:
        rng, test = self._rng, f"tests/test_{part}.py"
        yield self._call("Grep", {"pattern": f"{part}_{rng.choice(_WORDS)}", "path": self._project}, 400)
        yield self._call("Read", {"file_path": path}, 2500)
        if rng.random() < 0.2:
            yield self._call("Edit", self._edit(path), 90, failed="File has not been read yet. Read it first.")
            yield self._call("Read", {"file_path": path}, 2500)
        yield self._call("Edit", self._edit(path), 300)
        command = f"python -m pytest -q {test}"
        if rng.random() < 0.4:
            output = f"E   AssertionError: assert {rng.randrange(99)} == {rng.randrange(99)}\nFAILED {test}"
            yield self._shell(command, 0, failed=output)
            yield self._call("Edit", self._edit(path), 300)
        yield self._shell(command, 600)
        yield self._shell("git status --short", 80)
        message = " ".join(rng.choices(_WORDS, k=5))
        yield self._shell(f"git add -A && git commit -m '{message}'", 120)

    def _build(self, part: str, path: str) -> Iterator[_Call]:
        if self._rng.random() < 0.3:
            yield self._shell("npm run build", 0, failed=f"sh: 1: {part}-cli: not found")
            yield self._shell(f"npm install {part}-cli", 500)
        yield self._shell("npm run build", 900)
        yield self._shell(f"docker build -t {part}:{self._rng.randrange(40)} .", 1500)
        yield self._shell(f"docker run --rm {part}", 400)

    def _release(self, part: str, path: str) -> Iterator[_Call]:
        branch = f"release-{self._rng.randrange(90)}"
        yield self._shell(f"git checkout -b {branch}", 60)
        yield self._call("Edit", self._edit(f"{self._project}/pyproject.toml"), 300)
        if self._rng.random() < 0.3:
            yield self._shell(
                f"git push origin {branch}", 0, failed="fatal: The current branch has no upstream branch."
            )
            yield self._shell(f"git push -u origin {branch}", 200)
        else:
            yield self._shell(f"git push -u origin {branch}", 200)
        yield self._shell(f"gh pr create --fill --head {branch}", 100)

    def _explore(self, part: str, path: str) -> Iterator[_Call]:
        yield self._call("Glob", {"pattern": f"**/{part}*.py"}, 300)
        for _ in range(self._rng.randrange(1, 5)):
            yield self._call("Read", {"file_path": path}, 2500)
        yield self._call("Write", {"file_path": f"{self._project}/docs/{part}.md", "content": self._prose(800)}, 80)

    def _close_order(self, part: str, path: str) -> Iterator[_Call]:
        number = self._rng.randrange(1000, 9999)
        yield self._call(
            "find_order", {"customer": f"{part}-{number}"}, 0, result={"order": {"id": f"W{number}{part}"}}
        )
        yield self._call("get_order", {"order_id": f"W{number}{part}"}, 700)
        yield self._call("close_order", {"order_id": f"W{number}{part}", "reason": "no longer needed"}, 100)

    def _detour(self, part: str) -> _Call:
        command = self._rng.choice(_DETOURS).format(part=part, number=self._rng.randrange(500))
        return self._shell(command, self._rng.randrange(50, 1500))

    def _shell(self, command: str, size: int, failed: str = "") -> _Call:
        return self._call("Bash", {"command": command}, size, failed)

    def _prose(self, size: int) -> str:
        return _text(self._rng, size)

    def _edit(self, path: str) -> dict[str, Any]:
        old, new = _text(self._rng, 120), _text(self._rng, 150)
        return {"file_path": path, "old_string": old, "new_string": new}

    def _call(
        self, tool: str, arguments: dict[str, Any], size: int, failed: str = "", result: dict[str, Any] | None = None
    ) -> _Call:
        """Return a call and its result: `result`, the error `failed`, or text of about `size` characters."""
        self._calls += 1
        call = {"call_id": f"call-{self._calls}", "tool": tool}
        content = result or failed or _text(self._rng, int(size * self._rng.uniform(0.5, 1.5)))
        result_data = {**call, "status": "error" if failed else "ok", "content": content}
        return [
            self._event(EventType.TOOL_CALL, {**call, "arguments": arguments}),
            self._event(EventType.TOOL_RESULT, result_data),
        ]

    def _event(self, kind: EventType, data: dict[str, Any]) -> NewEvent:
        self._time += timedelta(seconds=self._rng.randrange(2, 40))
        return NewEvent(kind, {"v": 1, **data, "occurred_at": self._time.isoformat()}, None, data.get("tool"))
