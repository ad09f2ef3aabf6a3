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
        text = block["text"].strip("\n")
        if block["kind"] == "user":
            yield Skipped("user")
            is_persons = text.strip() in inputs and not text.startswith(("/", "!"))
            yield from [(EventType.USER_MESSAGE, {"text": text})] if is_persons else drafts.harness(text)
        elif block["kind"] == "answer":
            yield Skipped("blank")
            yield from drafts.answer(text)

    yield from _FORM.read(_read_blocks(path), draft)


def _read_blocks(path: Path) -> Records:
    """Yield the blocks of lines of one kind; a fence's lines are of the answer that holds it."""
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
                line_kind = "user" if line.startswith("#### ") else "output" if line.startswith("> ") else "answer"
            if line_kind != kind or size > _MAX_BLOCK:
                yield start, close()
                kind, start, lines, size = line_kind, number, [], 0
            if begun:
                fence, session = "", begun[1]
                time = datetime.fromisoformat(begun[1]).astimezone().isoformat()  # it is in the time of this place
            lines.append(line[5:].rstrip() if kind == "user" else line)
            size += len(line)
    yield start, close()


def _read_inputs(path: Path) -> set[str]:
    """Return what was typed: entries of `+` lines below the line of their time."""
    try:
        content = read_whole(path, _MAX_INPUTS) or b""
    except OSError:
        return set()
    entries: list[list[str]] = [[]]
    for line in content.decode("utf-8", "replace").split("\n"):
        if line.startswith("+"):
            entries[-1].append(line[1:].rstrip())
        elif entries[-1]:
            entries.append([])
    return {"\n".join(entry).strip() for entry in entries if entry}
