"""Installs memory into a coding agent, and takes it out again: its hooks, the MCP server, and its history."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import consolidator
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.formats.common.log_files import path_exists
from consolidator.formats.registry import get_format
from consolidator.jobs.importing.report import ImportReport
from consolidator.jobs.importing.source_files import ImportSource
from consolidator.jobs.nightly import JobRunner
from consolidator.service.clients import changes, claude_code
from consolidator.service.clients.changes import FileChange
from consolidator.service.nights.imports import import_logs
from consolidator.settings import Settings

CLIENTS = ("claude-code",)
PROGRAM = Path(consolidator.__file__).parent / "hooks" / "program.py"
RECORD, BACKUPS = "install/claude-code.json", "install/backups"  # below the home
_MODELS = ("model", "strong_model", "cheap_model", "extract_model", "embed_model")


@dataclass(frozen=True, slots=True)
class Place:
    """Where Claude Code keeps what we change: a person's home, its environment, and a project if it is for one."""

    home: Path
    environment: Mapping[str, str]
    project: Path | None

    @property
    def settings(self) -> Path:
        """The file of its hooks."""
        return claude_code.settings_path(self.home, self.environment, self.project)

    @property
    def servers(self) -> Path:
        """The file of its MCP servers."""
        return claude_code.servers_path(self.home, self.environment)

    @property
    def logs(self) -> Path:
        """The folder of its sessions' logs."""
        return claude_code.logs_path(self.home, self.environment, self.project)


@dataclass(frozen=True, slots=True)
class InstallState:
    """What of us Claude Code's settings hold."""

    settings: str
    hooks: bool
    servers: str
    server: bool


def find_place(client: str, project: Path | None) -> Place:
    """Return where a client keeps its settings; raise UsageError for a client that we do not know."""
    if client not in CLIENTS:
        raise UsageError(f"{client!r} cannot be installed into; known: {', '.join(CLIENTS)}")
    if project is not None and not project.is_dir():
        raise UsageError(f"{project} is no directory")
    return Place(Path.home(), os.environ, None if project is None else project.resolve())


def plan_install(place: Place, settings: Settings) -> list[FileChange]:
    """Return the changes that put our hooks and our MCP server into Claude Code's settings."""
    home = settings.home.absolute()
    default_home = Settings.model_fields["home"].get_default(call_default_factory=True)
    environment = {} if home == default_home else {"CONSOLIDATOR_HOME": str(home)}
    return [
        _change(place.settings, lambda text: claude_code.add_hooks(text, sys.executable, PROGRAM, home)),
        _change(place.servers, lambda text: claude_code.add_server(text, sys.executable, environment, place.project)),
    ]


def plan_uninstall(place: Place, settings: Settings) -> list[FileChange]:
    """Return the changes that take our part out again: where nothing else changed since, the files as they were."""
    made = {change.path: change for change in changes.load_record(settings.home / RECORD)}
    planned = []
    for path, remove in (
        (place.settings, claude_code.remove_hooks),
        (place.servers, lambda text: claude_code.remove_server(text, place.project)),
    ):
        before = changes.read_text(path)
        after = None if before is None else remove(before)
        if before is not None and after != before and (change := made.get(str(path))) is not None:
            is_ours, earlier = changes.restore_text(change, before)
            if is_ours:
                after = None if earlier is None else remove(earlier)
        planned.append(FileChange(path, before, after))
    return planned


def apply_changes(planned: list[FileChange], settings: Settings, now: datetime) -> list[str]:
    """Make changes, with a backup of each file; return the paths of the backups."""
    made = changes.apply(planned, settings.home / BACKUPS, f"{now:%Y%m%d-%H%M%S}")
    record = settings.home / RECORD
    kept = [change for change in changes.load_record(record) if change.path not in {new.path for new in made}]
    changes.save_record(record, [*kept, *made])
    return [change.backup for change in made if change.backup is not None]


def describe_install(place: Place) -> InstallState:
    """Return what of us the settings hold now."""
    settings, servers = changes.read_text(place.settings), changes.read_text(place.servers)
    return InstallState(
        settings=str(place.settings),
        hooks=bool(settings) and claude_code.has_hooks(settings or "{}"),
        servers=str(place.servers),
        server=bool(servers) and claude_code.has_server(servers or "{}", place.project),
    )


async def import_history(
    database: Database,
    place: Place,
    stop: asyncio.Event,
    progress: Callable[[int, int, str], None] | None = None,
) -> ImportReport | None:
    """Import the sessions that Claude Code has kept; None where it has kept none."""
    if not path_exists(place.logs):
        return None
    source = ImportSource(place.logs, get_format("claude-code"))
    return await import_logs(database, [source], stop, progress=progress)


async def learn_history(
    database: Database,
    settings: Settings,
    stop: asyncio.Event,
    *,
    started: Callable[[int], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Learn from what was imported by rules alone, without a single token of a model; return the run's report."""
    without_model = settings.model_copy(update=dict.fromkeys(_MODELS))
    return await JobRunner(database, without_model, stop, started=started, progress=progress).run_now("consolidation")


def _change(path: Path, edit: Callable[[str], str]) -> FileChange:
    before = changes.read_text(path)
    try:
        after = edit(before if before and before.strip() else "{}\n")
    except UsageError as error:
        raise UsageError(f"{path}: {error}; put it right, or add our part by hand (docs/install.md)") from error
    return FileChange(path, before, after)
