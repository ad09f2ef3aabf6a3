"""Read the transcripts of Cursor's agent: projects/<project>/agent-transcripts/**/*.jsonl.

They hold no times, no ids and no results: calls stay without answers, so that facts and commands are learned, and no
solutions. A person's word is the last <user_query> of a user's text, or a text in which no line begins an element.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import split_message
from consolidator.formats.common.json_members import read_note
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Statements

NAME = "cursor"
_FOLDER = "agent-transcripts"
_FORM = RecordForm(NAME, kind=("type", "role"), silent=frozenset({"turn_ended", "system"}))
_QUERY = re.compile(r"<user_query>(.*)</user_query>\s*\Z", re.DOTALL)
_CLOSING = re.compile(r"</[a-z_]{3,40}>\Z")
_ELEMENT = re.compile(r"^\s*<[A-Za-z][\w.:-]*[\s>]", re.MULTILINE)
_MAX_DEPTH = 12  # folders of a path that is looked for


# The agents' before their sub-agents'.
files = file_finder(
    ".jsonl", keep=lambda file: _FOLDER in file.parts, order=lambda file: ("subagents" in file.parts, file)
)


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for a role beside a message of parts, without a type."""
    return any(
        line.get("role") in ("user", "assistant")
        and "type" not in line
        and isinstance(line.get("message"), dict)
        and "content" in line["message"]
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one transcript as a stream."""
    is_sub = "subagents" in path.parts
    session = Conversation(
        path.stem,
        cwd=_find_directory(path),
        time=datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(),
        parent=path.parent.parent.name if is_sub else None,
    )
    number = 0

    def draft(line: dict[str, Any]) -> Statements:
        nonlocal number
        number += 1
        content = drafts.object_of(line.get("message")).get("content")
        if line.get("role") == "user":
            yield Skipped("user")
            yield session
            yield from _draft_user(content, is_sub=is_sub)
        elif line.get("role") == "assistant":
            yield Skipped("assistant")
            yield session
            for position, block in enumerate(content if isinstance(content, list) else [content]):
                kind = block.get("type") if isinstance(block, dict) else "text"
                if isinstance(block, dict) and kind == "tool_use":
                    yield drafts.call(block.get("id") or f"{number}/{position}", block.get("name"), block.get("input"))
                elif kind == "text":
                    yield from drafts.answer(block)

    yield from _FORM.read(read_objects(path), draft)


def _draft_user(content: Any, *, is_sub: bool) -> drafts.Drafts:
    typed, other = split_message(content)
    query = _QUERY.search(typed)
    if is_sub or not typed.strip():
        yield from drafts.harness(drafts.join(typed, other))
    elif query:
        # Before it stands what was attached, and may hold the tag: in elements, the last of them closed.
        start = typed.rfind("<user_query>", 0, query.end(1))
        before, words = typed[:start].strip(), typed[start + len("<user_query>") : query.end(1)].strip()
        is_certain = not before or _CLOSING.search(before) is not None
        words, before = (words, before) if is_certain else ("", typed)
        yield from drafts.words(words, drafts.join(before, other))
    elif _ELEMENT.search(typed) or "<user_query>" in typed:
        yield from drafts.harness(typed)
    else:
        yield from drafts.words(typed, other, names=drafts.BLOCKS)


def _find_directory(path: Path) -> str | None:
    """Return the workspace of a transcript: what Cursor notes beside it, else the folder on disk with such a name."""
    parts = path.parts
    if _FOLDER not in parts:
        return None
    project = Path(*parts[: parts.index(_FOLDER)])
    noted = read_note(project / ".workspace-trusted").get("workspacePath")
    return noted if isinstance(noted, str) else _decode(Path(os.sep), project.name, _MAX_DEPTH)


def _decode(folder: Path, name: str, depth: int) -> str | None:
    """Return the folder below `folder` whose path Cursor writes as `name`: what is no letter or digit is a `-`."""
    try:
        names = sorted((entry.name for entry in os.scandir(folder) if entry.is_dir()), key=len, reverse=True)
    except OSError:
        return None
    for child in names:
        encoded = re.sub(r"[^A-Za-z0-9]+", "-", child).strip("-")
        if encoded == name:
            return str(folder / child)
        if encoded and name.startswith(f"{encoded}-") and depth > 0:
            inner = _decode(folder / child, name[len(encoded) + 1 :], depth - 1)
            if inner is not None:
                return inner
    return None
