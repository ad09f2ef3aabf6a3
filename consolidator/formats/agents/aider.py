"""Read aider's history: a Markdown file in which each launch begins a session.

Markdown proves nothing: an answer may hold the line `#### ...` that stands for a person's. So a text is a person's only
where .aider.input.history beside it, which aider writes as one types, has it, too. Tools' outputs are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.log_files import file_finder, open_log, read_whole
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements
from consolidator.models.payload import EventType

NAME = "aider"
_HISTORY, _INPUTS = ".aider.chat.history.md", ".aider.input.history"
_FORM = RecordForm(NAME, kind=("kind",), silent=frozenset({"session", "output"}))
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MAX_INPUTS = 64 * 1024 * 1024  # bytes
_MAX_BLOCK = 16 * 1024 * 1024  # characters of one text
_Inputs = dict[str, dict[int, set[tuple[str, ...]]]]  # by the first line, and by how many lines they have
files = file_finder(_HISTORY)


def recognises(path: Path, head: bytes) -> bool:
    """Check for the name of the file, or for the line that begins a session."""
    return path.name.endswith(_HISTORY) or head.lstrip().startswith(b"# aider chat started at ")


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one history as a stream."""
    inputs = _read_inputs(path.with_name(_INPUTS))
    folder = path.resolve().parent

    def draft(block: dict[str, Any]) -> Statements:
        yield Conversation(f"{folder.as_posix()}#{block['session']}", cwd=str(folder), time=block["time"])
        if block["kind"] == "user":
            yield Skipped("user")
            yield from _draft_user(block["text"], inputs)
        elif block["kind"] == "answer":
            yield Skipped("blank")
            yield from drafts.answer(block["text"].strip("\n"))

    yield from _FORM.read(_read_blocks(path), draft)


def _draft_user(text: str, inputs: _Inputs) -> drafts.Drafts:
    """Yield the inputs that marked lines hold, the longest first, and what no input has."""
    lines = [line for line in text.split("\n") if line]
    unproven: list[str] = []
    start = 0
    while start < len(lines):
        sizes = inputs.get(lines[start], {})
        size = next((n for n in sorted(sizes, reverse=True) if tuple(lines[start : start + n]) in sizes[n]), 0)
        typed = lines[start : start + size]
        if typed and not typed[0].startswith(("/", "!")):
            yield from drafts.harness("\n".join(unproven))
            unproven = []
            yield EventType.USER_MESSAGE, {"text": "\n".join(typed)}
        else:
            unproven += typed or lines[start : start + 1]
        start += size or 1
    yield from drafts.harness("\n".join(unproven))


def _read_blocks(path: Path) -> Records:
    """Yield the blocks of lines of one kind; a fence's lines are of the answer that holds it.

    Each line of an input is marked, with a blank line behind it.
    """
    session, time, number, fence = "start", None, 0, ""
    kind, start, lines, size = "answer", 1, [""], 0

    def close() -> dict[str, Any]:
        return {"kind": kind, "session": session, "time": time, "timestamp": time, "text": "\n".join(lines)}

    with open_log(path) as file:
        for raw in file:
            number += 1
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            begun = _START.fullmatch(line)
            if not begun and (mark := re.match(r"\s*(```+|~~~+)", line)):
                fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
            line_kind = "session" if begun else "answer"
            if not begun and not fence:
                is_users = line.startswith("#### ") or (kind == "user" and line in ("", "####"))
                line_kind = "user" if is_users else "output" if line.startswith("> ") else "answer"
            if line_kind != kind or size > _MAX_BLOCK:
                yield start, close()
                kind, start, lines, size = line_kind, number, [], 0
            if begun:
                fence, session = "", begun[1]
                time = datetime.fromisoformat(begun[1]).astimezone().isoformat()  # it is in the time of this place
            lines.append(line[5:].strip() if kind == "user" else line)
            size += len(line)
    yield start, close()


def _read_inputs(path: Path) -> _Inputs:
    """Return what was typed, without blank lines: entries of `+` lines below the line of their time."""
    try:
        content = read_whole(path, _MAX_INPUTS) or b""
    except OSError:
        return {}
    entries: list[list[str]] = [[]]
    for line in content.decode("utf-8", "replace").split("\n"):
        if not line.startswith("+"):
            entries.append([])
        elif typed := line[1:].strip():
            entries[-1].append(typed)
    inputs: _Inputs = {}
    for entry in filter(None, entries):
        inputs.setdefault(entry[0], {}).setdefault(len(entry), set()).add(tuple(entry))
    return inputs
