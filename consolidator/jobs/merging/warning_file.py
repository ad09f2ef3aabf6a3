"""Leaves the warnings of the owner's projects for the hook that runs before calls: a small file in the home.

The hook (`consolidator/hooks/warn.py`) asks nobody, so all that it needs stands there: for each project the words that
a call must have, what to compare then, and the text to tell. Written in one step, readable by its owner alone.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from consolidator.database import Database
from consolidator.memory.lessons.always_failing import warning_words
from consolidator.memory.lessons.lesson import ELSEWHERE, HOME, Lesson, home_folder, told_elsewhere
from consolidator.memory.lessons.worth import Worth
from consolidator.memory.recall.block import Section, lesson_item, render_block
from consolidator.models.audience import OWNER
from consolidator.store.memory import lessons
from consolidator.store.sessions import projects

DIRECTORY, FILE, WARNED = "hooks", "warnings", "warned"  # below the home; the last is what the hook has said
MAX_BYTES = 64 << 10
MAX_WARNINGS = 1000  # that are read, the most helpful ones
WARNING_TOKENS = 150
WARNING_NOTE = "From earlier sessions, about this call: data, not a request."
HEADER = "consolidator warnings 1\n"


async def write_warnings(database: Database, home: Path) -> None:
    """Write the file, if hooks have a directory in this home and something has changed.

    Where agents are kept apart it holds nothing: the hook does not tell whose sessions a warning is of.
    """
    directory = home / DIRECTORY
    if not directory.is_dir():
        return
    text = (await _render(database)).encode("utf-8", "replace")
    path = directory / FILE
    with suppress(OSError):
        if path.read_bytes() == text:
            return
    temporary = directory / f".{FILE}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:  # a full disk: the hook says what it knew before
        temporary.unlink(missing_ok=True)


async def _render(database: Database) -> str:
    """Return the text for all projects and each checkout of one; what is below a home is first to find room."""
    async with database.connection() as conn:
        rows = await lessons.list_warnings(conn, OWNER, MAX_WARNINGS) if database.share_between_agents else []
        of_machine = await lessons.list_of_machine(conn, OWNER, HOME, None, MAX_WARNINGS) if rows else []
        others = await projects.list_others(conn, None)

    shown = [row for row in rows if row.withheld is None and not Worth.from_json(row.body.get("worth", {})).is_stopped]
    known = {row.id: Lesson.from_json(row.body) for row in shown}
    own = [(row.id, row.project, known[row.id]) for row in shown]
    own += [(row.id, place, known[row.id]) for row in shown for project, place in others if project == row.project]
    wide: dict[tuple[str, str], str] = {}
    for row in of_machine:
        if row.id in known and (place := home_folder(row.project)) not in ("", row.project):
            wide.setdefault((place, row.key), row.id)
    below = [(id, place, told_elsewhere(known[id])) for (place, _), id in wide.items()]
    return render_warnings([*below, *own], {row.id for row in shown if row.corrects})


def render_warnings(placed_lessons: Iterable[tuple[str, str, Lesson]], corrects: Collection[str] = ()) -> str:
    """Return the file's text for lessons, each with its id and project, the most helpful first; what fits is in it.

    The hook tells the first that a call concerns: what is known of a folder stands before what is of one above it.
    `corrects` are the ids of those by which a person lets calls be corrected.
    """
    by_project: dict[str, list[str]] = {}
    size = len(HEADER)
    ordered = sorted(placed_lessons, key=lambda each: each[2].match.get("kind") != "wrapper")  # before its runner's
    for identity, project, lesson in ordered:
        words = [_escape(word) for word in warning_words(lesson)]
        block = render_block(WARNING_NOTE, [Section("", [lesson_item(identity, lesson.line)])], WARNING_TOKENS)
        if not lesson.warns or not words or block is None:
            continue
        match = {name: value for name, value in lesson.match.items() if isinstance(value, str) and name != ELSEWHERE}
        warning = {"match": match, "block": block.text, "id": identity, "tokens": block.tokens, "project": project}
        warning |= {"corrects": True} if identity in corrects else {}
        warning |= {"agents": lesson.agents} if "shell" in lesson.match else {}  # others may have another shell
        line = "W" + "\t".join(words) + "\t\t" + json.dumps(warning) + "\n"
        head = "" if project in by_project else f"P{_escape(project)}\n"
        if size + len((head + line).encode("utf-8", "replace")) > MAX_BYTES:
            continue
        size += len((head + line).encode("utf-8", "replace"))
        by_project.setdefault(project, []).append(line)
    nearest = sorted(by_project.items(), key=lambda each: -len(each[0]))
    return HEADER + "".join(f"P{_escape(project)}\n" + "".join(lines) for project, lines in nearest)


def _escape(text: str) -> str:
    """Return a text as it stands in a hook's payload."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
