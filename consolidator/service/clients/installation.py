"""Installs memory into a coding agent, and takes it out again: its hooks, the MCP server, and its history."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import consolidator
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.formats.agent_folders import log_folders
from consolidator.formats.common.log_files import path_exists
from consolidator.llm.choice import choose_model, load_permissions, save_permission
from consolidator.llm.commands import AGENT_COMMANDS
from consolidator.service.clients import changes, servers_text
from consolidator.service.clients.changes import FileChange
from consolidator.service.clients.hooks_text import add_hooks, has_hooks, remove_hooks
from consolidator.service.clients.registry import CLIENTS, Client, get_client
from consolidator.service.clients.servers_text import INSTALL_MCP, SERVER_ARGUMENTS, is_mcp_installed
from consolidator.settings import Settings

if TYPE_CHECKING:
    from consolidator.jobs.importing.import_report import ImportReport
    from consolidator.jobs.importing.importer import ImportWatch
    from consolidator.jobs.ledger import JobContext

PROGRAMS = Path(consolidator.__file__).parent / "hooks"  # the folder of what hooks run
INSTALL, BACKUPS = "install", "install/backups"  # below the home
_MODELS = ("model", "extract_model", "embed_model")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client keeps what we change: a person's home, its environment, and a project if it is for one."""

    client: Client
    home: Path
    environment: Mapping[str, str]
    project: Path | None

    @property
    def settings(self) -> Path:
        """The file of its hooks."""
        return self.client.hooks_file(self.home, self.environment, self.project)

    @property
    def servers(self) -> Path:
        """The file of its MCP servers."""
        return self.client.servers_file(self.home, self.environment, self.project)

    @property
    def guidance(self) -> Path | None:
        """The file of guidance that gets a line of ours; None where hooks say what is known."""
        find = self.client.guidance_file
        return None if find is None else find(self.home, self.environment, self.project)

    def has_any(self, paths: Sequence[Path]) -> bool:
        """Tell whether one of its files is among paths."""
        return any(path in (self.settings, self.servers, self.guidance) for path in paths)

    @property
    def logs(self) -> list[Path]:
        """The folders of its sessions' logs."""
        return log_folders(self.client.name, self.home, self.environment, self.project)


@dataclass(frozen=True, slots=True)
class InstallState:
    """What of us a client's settings hold."""

    settings: str
    hooks: bool
    servers: str
    server: bool


def find_place(client_name: str, project: Path | None) -> Place:
    """Return where a client keeps its settings; raise UsageError for a client that we do not know."""
    client = get_client(client_name)
    if project is not None and not project.is_dir():
        raise UsageError(f"{project} is no directory")
    return Place(client, Path.home(), os.environ, None if project is None else project.resolve())


def find_installed_places(settings: Settings) -> list[Place]:
    """Return where something of ours stands: for every project, here, and wherever else it was installed."""
    places = []
    for client in CLIENTS.values():
        paths = [Path(change.path) for change in changes.load_record(_record(client, settings))]
        above = {folder for path in paths for folder in path.parents}
        folders = {folder for folder in above if Place(client, Path.home(), os.environ, folder).has_any(paths)}
        projects = sorted(folder for folder in {*folders, Path.cwd()} if folder.is_dir() and folder != Path.home())
        for project in (None, *projects):
            place = Place(client, Path.home(), os.environ, project)
            if any(change.is_change for change in plan_uninstall(place, settings)):
                places.append(place)
    return places


def has_installed_hooks(settings: Settings) -> bool:
    """Tell whether a hook of ours stands anywhere, or may stand in settings that cannot be read."""
    try:
        return any(
            change.is_change and change.path == place.settings
            for place in find_installed_places(settings)
            for change in plan_uninstall(place, settings)
        )
    except UsageError:
        return True


def plan_install(place: Place, settings: Settings) -> list[FileChange]:
    """Return the changes that put our hooks and, if MCP is installed, our MCP server into a client's settings."""
    client, home = place.client, settings.home.absolute()
    default_home = Settings.model_fields["home"].get_default(call_default_factory=True)
    environment = {} if home == default_home else {"CONSOLIDATOR_HOME": str(home)}
    server = {"command": sys.executable, "args": SERVER_ARGUMENTS, "env": environment}
    hooks = _change(
        place.settings, client.new_hooks_file, lambda text: add_hooks(client, text, sys.executable, PROGRAMS, home)
    )
    if not is_mcp_installed():
        if not client.hooks:
            raise UsageError(f"{client.title} has no hooks, and its MCP server needs {INSTALL_MCP}")
        return [hooks]
    empty = "" if place.servers.suffix == ".toml" else "{}\n"
    if place.servers == place.settings:  # one file has both
        planned = [replace(hooks, after=client.servers.add(hooks.after or empty, server, place.project))]
    else:
        planned = [hooks, _change(place.servers, empty, lambda text: client.servers.add(text, server, place.project))]
    return planned if place.guidance is None else [*planned, _change(place.guidance, "", servers_text.add_guidance)]


def plan_uninstall(place: Place, settings: Settings) -> list[FileChange]:
    """Return the changes that take our part out again: where nothing else changed since, the files as they were."""
    made = {change.path: change for change in changes.load_record(_record(place.client, settings))}
    planned = []
    guided = [] if place.guidance is None else [(place.guidance, servers_text.remove_guidance)]
    removals: list[tuple[Path, Callable[[str], str]]] = [
        (place.settings, lambda text: remove_hooks(place.client, text)),
        (place.servers, lambda text: place.client.servers.remove(text, place.project)),
    ]
    if place.servers == place.settings:
        removals = [
            (place.settings, lambda text: place.client.servers.remove(remove_hooks(place.client, text), place.project))
        ]
    for path, remove in [*removals, *guided]:
        before = changes.read_text(path)
        after = None if before is None else remove(before)
        if before is not None and after != before and (change := made.get(str(path))) is not None:
            is_ours, earlier = changes.restore_text(change, before)
            if is_ours:
                after = None if earlier is None else remove(earlier)
        planned.append(FileChange(path, before, after))
    return planned


def apply_changes(client: Client, planned: list[FileChange], settings: Settings, now: datetime) -> list[str]:
    """Make changes, with a backup of each file; return the paths of the backups."""
    made = changes.apply(planned, settings.home / BACKUPS, f"{now:%Y%m%d-%H%M%S}", _record(client, settings))
    return [change.backup for change in made if change.backup is not None]


def describe_install(place: Place) -> InstallState:
    """Return what of us the settings hold now."""
    settings, servers = changes.read_text(place.settings), changes.read_text(place.servers)
    return InstallState(
        settings=str(place.settings),
        hooks=bool(settings and place.client.hooks) and has_hooks(place.client, settings or ""),
        servers=str(place.servers),
        server=bool(servers) and place.client.servers.has(servers or "", place.project),
    )


async def import_history(
    database: Database,
    place: Place,
    stop: asyncio.Event,
    watch: ImportWatch | None = None,
) -> ImportReport | None:
    """Import the sessions that a client has kept; None where it has kept none that can be read."""
    from consolidator.formats.registry import get_format  # what only looks at settings loads neither this nor nights
    from consolidator.jobs.importing.importer import ImportSource, import_sources

    folders = [folder for folder in place.logs if path_exists(folder)]
    if not folders:
        return None
    sources = [ImportSource(folder, get_format(place.client.name)) for folder in folders]
    return await import_sources(database, sources, stop=stop, watch=watch)


async def learn_history(job: JobContext) -> dict[str, Any]:
    """Learn from what was imported by rules alone, without a single token of a model; return the run's report."""
    from consolidator.jobs.nightly import JobRunner

    runner = job.become(JobRunner, trigger="install")
    runner.settings = job.settings.model_copy(update={**dict.fromkeys(_MODELS), "find_model": False})
    return await runner.run_now("consolidation")


def describe_model_question(client: Client, settings: Settings) -> str | None:
    """Return what to ask before nights use a client's model; None if that was answered, or nights have another one."""
    if client.name not in AGENT_COMMANDS or client.name in load_permissions(settings.home):
        return None
    if not settings.find_model or choose_model(settings).name is not None:
        return None
    tokens = " ".join(["About 3,000 tokens a session", AGENT_COMMANDS[client.name].overhead]).strip()
    return f"Let the nights use your {client.title} to read what rules cannot? {tokens}, only your own model sees them."


def record_model_answer(client: Client, settings: Settings, *, is_agreed: bool | None, now: datetime) -> None:
    """Record whether nights may use a client's model; None forgets it."""
    if client.name in AGENT_COMMANDS:
        save_permission(settings.home, client.name, is_agreed=is_agreed, now=now)
    elif is_agreed is not None:
        raise UsageError(f"nights cannot ask {client.title}: it has no command line for that")


def _record(client: Client, settings: Settings) -> Path:
    """Return the file that remembers what was changed for a client."""
    return settings.home / INSTALL / f"{client.name}.json"


def _change(path: Path, empty: str, edit: Callable[[str], str]) -> FileChange:
    """Return a change of a file; `empty` is what it holds before there is anything in it."""
    before = changes.read_text(path)
    try:
        after = edit(before if before and before.strip() else empty)
    except UsageError as error:
        raise UsageError(f"{path}: {error}; put it right, or add our part by hand (docs/install.md)") from error
    return FileChange(path, before, after)
