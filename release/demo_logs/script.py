"""Parses the sample sessions, which are scripts that people can read and write; pure except for reading the files.

`=== NAME | day N HH:MM | KEY VALUE` begins a session. Then one item a line, continued by lines with `|`:
`>` a person, `>>` a steer, `<` the agent, `$` a command, `@` another tool, `=` its result, `!` its failure,
`?` a call that needs approval, `+` granted, `-` denied, `&` a sub-agent and its goal, `...` a pause, `#` a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

AGENTS = ("claude-code", "support-desk", "ops-bot")
ItemKind = Literal["person", "steer", "agent", "call", "result", "failure", "ask", "granted", "denied", "spawn"]

_KINDS_BY_MARK: dict[str, ItemKind] = {
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
_SECONDS: dict[ItemKind, int] = {"person": 95, "steer": 20, "agent": 9, "granted": 41, "denied": 37, "spawn": 180}
_START_TIME = re.compile(r"day (\d+) (\d\d):(\d\d)")
_TOOL_CALL = re.compile(r"@(\w+) (.+)", re.DOTALL)
_EDIT = re.compile(r"(?P<path>\S+): (?P<old>.+) => (?P<new>.+)", re.DOTALL)


@dataclass(slots=True)
class ScriptItem:
    """One item of a session; `at` is counted from the midnight before day 1."""

    kind: ItemKind
    text: str
    at: timedelta
    tool: str | None = None
    arguments: dict[str, Any] | None = None


@dataclass(slots=True)
class SampleSession:
    """A sample session."""

    agent: str
    name: str
    starts_at: timedelta
    details: dict[str, str]
    items: list[ScriptItem] = field(default_factory=list)

    def items_before(self, moment: timedelta) -> list[ScriptItem]:
        """Return the items before a moment."""
        return [item for item in self.items if item.at < moment]


def load_samples() -> list[SampleSession]:
    """Return all sample sessions, agent by agent, in the order of their scripts."""
    folder = Path(__file__).parent / "samples"
    return [
        sample
        for agent in AGENTS
        for sample in parse_script(agent, (folder / f"{agent}.txt").read_text(encoding="utf-8"))
    ]


def parse_script(agent: str, text: str) -> Iterator[SampleSession]:
    """Yield the sessions of a script; raise ValueError for a line that cannot be parsed."""
    sample: SampleSession | None = None
    now = timedelta()
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "===":
            if sample is not None:
                yield _add_missing_results(sample)
            sample = _parse_header(agent, rest)
            now = sample.starts_at
        elif not line or mark == "#":
            continue
        elif sample is None:
            raise ValueError(f"{agent}: a line before the first session: {line!r}")
        elif mark == "...":
            now += timedelta(hours=int(rest.removesuffix("h")))
        elif mark == "|":
            sample.items[-1].text += "\n" + rest
        else:
            item = _parse_item(line, now)
            now = item.at
            sample.items.append(item)
    if sample is not None:
        yield _add_missing_results(sample)


def _parse_header(agent: str, rest: str) -> SampleSession:
    name, *parts = rest.split(" | ")
    start = _START_TIME.fullmatch(parts[0])
    if start is None:
        raise ValueError(f"{agent}: {name} has no start time")
    day, hour, minute = (int(part) for part in start.groups())
    details = dict(part.split(" ", 1) for part in parts[1:])
    return SampleSession(agent, name, timedelta(days=day - 1, hours=hour, minutes=minute), details)


def _parse_item(line: str, now: timedelta) -> ScriptItem:
    mark, _, rest = line.partition(" ")
    if mark == "?":
        call = _parse_item(rest, now)
        return ScriptItem("ask", call.text, call.at, call.tool, call.arguments)
    if line.startswith("@"):
        tool, arguments = _parse_call(line)
        return ScriptItem("call", rest, now + timedelta(seconds=4), tool, arguments)
    if mark not in _KINDS_BY_MARK:
        raise ValueError(f"a line with an unknown mark: {line!r}")
    kind = _KINDS_BY_MARK[mark]
    at = now + timedelta(seconds=_SECONDS.get(kind, 4))
    return ScriptItem(kind, rest, at, "$", {"command": rest}) if mark == "$" else ScriptItem(kind, rest, at)


def _parse_call(line: str) -> tuple[str, dict[str, Any]]:
    """Return a tool and its arguments, written as JSON or in the short forms of Read and Edit."""
    match = _TOOL_CALL.fullmatch(line)
    if match is None:
        raise ValueError(f"a call that cannot be parsed: {line!r}")
    tool, text = match.groups()
    if text.startswith("{"):
        return tool, json.loads(text)
    if edit := _EDIT.fullmatch(text):
        old, new = (edit[name].replace("\\n", "\n") for name in ("old", "new"))
        return tool, {"file_path": edit["path"], "old_string": old, "new_string": new}
    return tool, {"file_path": text}


def _add_missing_results(sample: SampleSession) -> SampleSession:
    """Give each call that has no result in the script its default one."""
    items: list[ScriptItem] = []
    for position, item in enumerate(sample.items):
        items.append(item)
        next_kind = sample.items[position + 1].kind if position + 1 < len(sample.items) else None
        if item.kind == "call" and next_kind not in ("result", "failure", "denied"):
            items.append(ScriptItem("result", _default_result(item, sample.items[position + 1 :]), item.at))
    sample.items = items
    return sample


def _default_result(call: ScriptItem, later: list[ScriptItem]) -> str:
    path = (call.arguments or {}).get("file_path")
    if call.tool == "Read":
        edits = (item.arguments or {} for item in later if item.tool == "Edit")
        return "     1→" + next((edit["old_string"] for edit in edits if edit["file_path"] == path), "")
    return f"The file {path} has been updated successfully." if path else "ok"
