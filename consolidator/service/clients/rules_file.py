"""Puts accepted rules into a file that agents read, as a block of its own, and takes them out again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from consolidator.errors import UsageError
from consolidator.memory.facts.rule_block import BEGINNING, replace_block
from consolidator.service.clients import changes
from consolidator.service.clients.changes import FileChange, MadeChange
from consolidator.settings import Settings
from consolidator.store.facts.rules import AcceptedRow

RULE_FILES = ("AGENTS.md", "CLAUDE.md")
NOTES = "MEMORY.md"  # which Claude Code lets a person change; Codex says that it generates its own
RECORD, BACKUPS = "rules/files.json", "rules/backups"  # below the home


def plan_rules(path: Path, rules: Sequence[str], learned: Sequence[str] = ()) -> FileChange:
    """Return the change that makes a file's block hold these rules and learned lines; without either, it is removed."""
    is_note = path.name == NOTES and path.is_relative_to(Path.home() / ".claude" / "projects")
    if path.name not in RULE_FILES and not is_note:
        files = f"{' or '.join(RULE_FILES)}, or Claude Code's {NOTES} of a project"
        raise UsageError(f"{path.name} is no file of rules: {files}")
    if not _is_document(path):
        raise UsageError(f"{path} is a link to a file that is no Markdown: nothing is written there")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no directory")
    text = changes.read_text(path)
    return FileChange(path, text, replace_block(text, rules, learned))


def write_rules(change: FileChange, settings: Settings, now: datetime) -> list[MadeChange]:
    """Make a planned change after a backup, and remember it; the file must be as it was when it was planned."""
    return changes.apply([change], settings.home / BACKUPS, now.strftime("%Y%m%dT%H%M%S"), settings.home / RECORD)


def list_rule_files(settings: Settings) -> list[Path]:
    """Return the files that hold a block of rules that was written here."""
    paths = [Path(change.path) for change in changes.load_record(settings.home / RECORD)]
    return [path for path in paths if BEGINNING in (changes.read_text(path) or "")]


async def preview_rules(accepted: Sequence[AcceptedRow]) -> dict[str, list[str]]:
    """Return, for each file of rules of the project that accepted rules belong to, the lines of its difference.

    Empty where the rules are of no directory of this machine. Nothing is written.
    """
    directories = sorted({row.project for row in accepted if row.project and Path(row.project).is_absolute()})
    sentences = [row.rule for row in accepted]

    def plan() -> dict[str, list[str]]:
        paths = [Path(directory) / name for directory in directories for name in RULE_FILES]
        documents = [path for path in paths if path.parent.is_dir() and (path.name == RULE_FILES[0] or path.is_file())]
        return {str(path): plan_rules(path, sentences).diff() for path in documents if _is_document(path)}

    return await asyncio.to_thread(plan)


def _is_document(path: Path) -> bool:
    """Whether a path leads to Markdown: whoever made a project may have left a link to another program's file."""
    return Path(os.path.realpath(path)).suffix == ".md"
