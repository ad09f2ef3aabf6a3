"""Compares lessons with the instructions that a project gives its agents: CLAUDE.md and AGENTS.md in its folder.

Memory that contradicts an instruction file is worth most, so the line says so. The files are read when a session's
start is told, and nothing of them is kept or shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.telling import warn_before

NAMES = ("CLAUDE.md", "AGENTS.md", ".claude/CLAUDE.md")
MAX_BYTES = 64 << 10
MAX_COMMANDS = 300  # of a file
_SPAN = re.compile(r"`([^`\n]{3,200})`")
_FORBIDS = re.compile(
    r"\b(?:never|not|avoid|without|instead of|rather than|no longer|fails?)\b|n['’]t\b", re.IGNORECASE
)
_GENERAL = re.compile(r"\b(?:always|every|prefix|safe|all)\b", re.IGNORECASE)


def mark_contradictions(lessons: Iterable[Lesson], project: str) -> list[Lesson]:
    """Return lessons; the line of a call that always fails says so where an instruction file tells to make it."""
    marked = list(lessons)
    if not any(lesson.warns for lesson in marked) or not project.startswith("/"):
        return marked
    for name in NAMES:
        text = _read(Path(project) / name)
        contradicted = {
            warned.lesson.key for line in _commands(text) if (warned := warn_before(marked, "bash", {"command": line}))
        }
        general = [each for each in text.splitlines() if _GENERAL.search(each) and not _FORBIDS.search(each)]
        wrappers = {lesson.key: lesson.match["wrapper"] for lesson in marked if lesson.match.get("kind") == "wrapper"}
        # A line that names a wrapper in code says that it goes with everything.
        contradicted |= {key for key, wrapper in wrappers.items() if any(f"`{wrapper}`" in each for each in general)}
        marked = [
            replace(lesson, line=f"{lesson.line} {name} says otherwise.") if lesson.key in contradicted else lesson
            for lesson in marked
        ]
    return marked


def _read(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _commands(text: str) -> Iterator[str]:
    """Yield the commands in code spans and fences, up to MAX_COMMANDS; none that the words around them forbid."""
    commands: list[str] = []
    is_fenced = is_forbidden = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced:
            commands += [] if is_forbidden or _FORBIDS.search(line) else [line.strip().removeprefix("$ ")]
        elif line.strip():
            is_forbidden = _FORBIDS.search(line) is not None
            commands += [] if is_forbidden else _SPAN.findall(line)
    yield from commands[:MAX_COMMANDS]
