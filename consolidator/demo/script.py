"""Reads the sample sessions, which are written down as scripts for people to read and write; pure but for the files.

=== NAME | day N HH:MM | KEY VALUE begins a session. Then, one thing a line, and `|` for the lines that belong to it:
`>` a person, `>>` a steer, `<` the agent, `$` a command, `@` another tool, `=` its result, `!` its failure,
`?` a call that asks for approval, `+` granted, `-` denied, `&` a sub-agent and its goal, `...` a pause, `#` a remark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from typing import Any, Literal

AGENTS = ("claude-code", "support-desk", "ops-bot")
Kind = Literal["person", "steer", "agent", "call", "result", "failure", "ask", "granted", "denied", "spawn"]

_KINDS: dict[str, Kind] = {
    ">": "person",
    ">>": "steer",
    "<": "agent",
    "$": "call",
    "=": "result",
    "!": "failure",
    "?": "ask",
    "+": "granted",
    "-": "denied",
    "&": "spawn",
}
_SECONDS: dict[Kind, int] = {"person": 95, "steer": 20, "agent": 9, "granted": 41, "denied": 37, "spawn": 180}
_BEGIN = re.compile(r"day (\d+) (\d\d):(\d\d)")
_TOOL = re.compile(r"@(\w+) (.+)", re.DOTALL)
_EDIT = re.compile(r"(?P<path>\S+): (?P<old>.+) => (?P<new>.+)", re.DOTALL)


@dataclass(slots=True)
class ScriptItem:
    """One thing that happens in a session; `at` is counted from the midnight before day 1."""

    kind: Kind
    text: str
    at: timedelta
    tool: str | None = None
    arguments: dict[str, Any] | None = None


@dataclass(slots=True)
class Sample:
    """A sample session."""

    agent: str
    name: str
    begins: timedelta
    details: dict[str, str]
    items: list[ScriptItem] = field(default_factory=list)

    def until(self, moment: timedelta) -> list[ScriptItem]:
        """Return what has happened before a moment."""
        return [item for item in self.items if item.at < moment]


def samples() -> list[Sample]:
    """Return all sample sessions, agent by agent, in the order they were written down."""
    folder = files("consolidator.demo") / "samples"
    return [one for agent in AGENTS for one in parse(agent, (folder / f"{agent}.txt").read_text(encoding="utf-8"))]


def parse(agent: str, text: str) -> Iterator[Sample]:
    """Yield the sessions of a script; raise ValueError where a line means nothing."""
    sample: Sample | None = None
    now = timedelta()
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "===":
            if sample is not None:
                yield _finished(sample)
            sample = _header(agent, rest)
            now = sample.begins
        elif not line or mark == "#":
            continue
        elif sample is None:
            raise ValueError(f"{agent}: a line before any session: {line!r}")
        elif mark == "...":
            now += timedelta(hours=int(rest.removesuffix("h")))
        elif mark == "|":
            sample.items[-1].text += "\n" + rest
        else:
            item = _item(line, now)
            now = item.at
            sample.items.append(item)
    if sample is not None:
        yield _finished(sample)


def _header(agent: str, rest: str) -> Sample:
    name, *parts = rest.split(" | ")
    begin = _BEGIN.fullmatch(parts[0])
    if begin is None:
        raise ValueError(f"{agent}: {name} does not say when it began")
    day, hour, minute = (int(part) for part in begin.groups())
    details = dict(part.split(" ", 1) for part in parts[1:])
    return Sample(agent, name, timedelta(days=day - 1, hours=hour, minutes=minute), details)


def _item(line: str, now: timedelta) -> ScriptItem:
    mark, _, rest = line.partition(" ")
    if mark == "?":
        called = _item(rest, now)
        return ScriptItem("ask", called.text, called.at, called.tool, called.arguments)
    if line.startswith("@"):
        tool, told = _called(line)
        return ScriptItem("call", rest, now + timedelta(seconds=4), tool, told)
    if mark not in _KINDS:
        raise ValueError(f"a line that means nothing: {line!r}")
    kind = _KINDS[mark]
    at = now + timedelta(seconds=_SECONDS.get(kind, 4))
    return ScriptItem(kind, rest, at, "$", {"command": rest}) if mark == "$" else ScriptItem(kind, rest, at)


def _called(line: str) -> tuple[str, dict[str, Any]]:
    """Return a tool and its arguments: JSON, or the short forms of Read and Edit."""
    found = _TOOL.fullmatch(line)
    if found is None:
        raise ValueError(f"a call that cannot be read: {line!r}")
    tool, told = found.groups()
    if told.startswith("{"):
        return tool, json.loads(told)
    if edit := _EDIT.fullmatch(told):
        old, new = (edit[name].replace("\\n", "\n") for name in ("old", "new"))
        return tool, {"file_path": edit["path"], "old_string": old, "new_string": new}
    return tool, {"file_path": told}


def _finished(sample: Sample) -> Sample:
    """Give a call that the script leaves without a result the one it obviously has."""
    full: list[ScriptItem] = []
    for position, item in enumerate(sample.items):
        full.append(item)
        after = sample.items[position + 1].kind if position + 1 < len(sample.items) else None
        if item.kind == "call" and after not in ("result", "failure", "denied"):
            full.append(ScriptItem("result", _obvious(item, sample.items[position + 1 :]), item.at))
    sample.items = full
    return sample


def _obvious(call: ScriptItem, later: list[ScriptItem]) -> str:
    path = (call.arguments or {}).get("file_path")
    if call.tool == "Read":
        edits = (item.arguments or {} for item in later if item.tool == "Edit")
        return "     1→" + next((edit["old_string"] for edit in edits if edit["file_path"] == path), "")
    return f"The file {path} has been updated successfully." if path else "ok"
