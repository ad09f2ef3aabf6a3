"""The registry of formats: find one by name or by a file's contents, and find the logs on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from consolidator.errors import UsageError
from consolidator.formats import bundle, claw0, harness, native, pi
from consolidator.formats.agent_folders import log_folders
from consolidator.formats.agents import (
    aider,
    antigravity,
    cline,
    copilot,
    cursor,
    gemini,
    goose,
    kimi,
    opencode,
    openhands,
    qwen,
)
from consolidator.formats.base import Format, Item
from consolidator.formats.claude_code import reader as claude_code
from consolidator.formats.codex import reader as codex
from consolidator.formats.common.agent_words import mark_agent_words
from consolidator.formats.common.log_files import find_files, open_log, path_exists
from consolidator.formats.openai import messages as openai_messages

# In the order in which they are tried for recognition: specific formats first, permissive ones last.
FORMATS: dict[str, Format] = {
    module.NAME: cast(Format, module)
    for module in (
        bundle,
        native,
        gemini,
        qwen,
        opencode,
        cline,
        copilot,
        antigravity,
        goose,
        kimi,
        openhands,
        aider,
        claude_code,
        codex,
        pi,
        cursor,
        harness,
        claw0,
        openai_messages,
    )
}
HEAD_BYTES = 64 * 1024


def get_format(name: str) -> Format:
    """Return the format of that name; raise UsageError with all names if there is none."""
    log_format = FORMATS.get(name)
    if name in ("locomo", "swe-agent", "intercode"):
        raise UsageError(f"{name} is the format of a data set, which only the benchmarks read (benchmarks/harness)")
    if log_format is None:
        raise UsageError(f"unknown format {name!r}; use one of {', '.join(FORMATS)}, or auto")
    return log_format


def recognise_format(path: Path) -> Format | None:
    """Return a file's format by its name and beginning, or None."""
    with open_log(path) as file:
        head = file.read(HEAD_BYTES)
    return next((log_format for log_format in FORMATS.values() if log_format.recognises(path, head)), None)


def read_log(log_format: Format, path: Path, root: Path) -> Iterator[Item]:
    """Read one file of a format as a stream; an export of our own says itself who said what."""
    items = log_format.read(path, root)
    yield from items if log_format.NAME == native.NAME else mark_agent_words(items)


def find_log_files(path: Path) -> Iterator[Path]:
    """Yield the log-like files at or below a path, sorted; of a conversation that is a folder its last one."""
    suffixes = (".jsonl", ".jsonl.zst", ".json", "opencode.db", "sessions.db", ".aider.chat.history.md")
    yield from openhands.last_events(find_files(path, *suffixes))


def find_local_logs(home: Path, environment: Mapping[str, str]) -> list[tuple[Format, Path]]:
    """Return the existing log directories of agents on this machine, with their formats."""
    return [
        (log_format, path)
        for name, log_format in FORMATS.items()
        for path in log_folders(name, home, environment)
        if path_exists(path)
    ]
