"""Readers and writers of other systems' session logs, one a file; this is their registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from consolidator.errors import UsageError
from consolidator.formats import claw0, intercode, locomo, native, pi, swe_agent
from consolidator.formats.base import Format
from consolidator.formats.claude_code import reader as claude_code
from consolidator.formats.codex import reader as codex
from consolidator.formats.common.jsonl import files_below
from consolidator.formats.harness import reader as harness
from consolidator.formats.openai import messages as openai_messages

# The order matters for recognition: the telling ones first, the permissive ones last.
FORMATS: dict[str, Format] = {
    module.NAME: cast(Format, module)
    for module in (native, claude_code, codex, pi, swe_agent, intercode, locomo, harness, claw0, openai_messages)
}
HEAD_BYTES = 64 * 1024


def format_named(name: str) -> Format:
    """Return the format of that name; raise UsageError, naming them all, where there is none."""
    found = FORMATS.get(name)
    if found is None:
        raise UsageError(f"no format is called {name!r}; there are: {', '.join(FORMATS)}, and auto")
    return found


def recognise(path: Path) -> Format | None:
    """Tell a file's format from its name and beginning, or None."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return next((found for found in FORMATS.values() if found.recognises(path, head)), None)


def everything_below(path: Path) -> Iterator[Path]:
    """Yield the log-like files at or below a path, sorted."""
    yield from files_below(path, ".jsonl", ".json", ".traj")


def is_there(path: Path) -> bool:
    """Say whether anything is at a path; what may not be looked at counts, and whoever reads it learns why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: of a name that can be none
        return False
    except OSError:
        return True
    return True


def on_this_machine(home: Path) -> list[tuple[Format, Path]]:
    """Return where agents have left their logs below a home directory."""
    return [(found, path) for found in FORMATS.values() for path in found.default_paths(home) if is_there(path)]
