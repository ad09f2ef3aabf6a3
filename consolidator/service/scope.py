"""What a question is about, within what its viewer reaches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeVar

from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.formats.common.project import derive_project
from consolidator.models.audience import OWNER as OWNER_PEER
from consolidator.models.memory_filter import ALL_AGENTS, MemoryScope
from consolidator.models.viewer import Viewer
from consolidator.store.sessions.projects import (
    find_projects,
    get_project_of_repository,
    list_projects,
    list_shared_with,
    match_project,
    resolve_project,
)

S = TypeVar("S", bound=MemoryScope)


async def narrow_scope(conn: Connection, viewer: Viewer, scope: S) -> S:
    """Return what a caller asks for, within what the viewer reaches.

    A caller may name a project by the last part of its path, among those that the viewer reaches; the viewer's own
    project is exactly what it says. Raises UsageError for what the viewer does not reach, and for an ambiguous project.
    """
    narrowed, project = viewer.narrow(agent=scope.agent, peer=scope.peer), scope.project
    if viewer.project is None:
        project = await resolve_project(conn, project, agent=narrowed.agent, peer=narrowed.peer)
    return replace(
        scope,
        agent=narrowed.agent,
        project=narrowed.narrow(project=project).project,
        peer=narrowed.peer,
        project_alone=viewer.is_of_project,
        shared_in=await _list_shared(conn, viewer, scope),
    )


async def sees_memory(conn: Connection, viewer: Viewer, memory: str, project: str | None) -> bool:
    """Tell whether a memory, of a project or of all, is one that the viewer's agent is told."""
    if viewer.agent in (None, memory):
        return True
    return memory == ALL_AGENTS and (project or "") in (await _list_shared(conn, viewer) or ())


async def reaches_memory(conn: Connection, viewer: Viewer, memory: str, project: str | None, peer: str | None) -> bool:
    """Tell whether what a memory holds of a project and peer is within the viewer's reach."""
    is_seen = await sees_memory(conn, viewer, memory, project)
    return is_seen and viewer.reaches(agent=viewer.agent, project=project, peer=peer)


async def _list_shared(conn: Connection, viewer: Viewer, scope: MemoryScope = MemoryScope()) -> Sequence[str] | None:
    """Return the projects whose shared memory an agent is told; None for all.

    A credential for one agent reaches it where that agent works for the owner. Whoever else names an agent is told what
    the agent is told: all of it where the agent works for the owner anywhere, as every client of `install` does.
    """
    if viewer.agent is not None:
        return () if viewer.peer else await list_shared_with(conn, viewer.agent)
    if not scope.agent or scope.peer == OWNER_PEER or await list_shared_with(conn, scope.agent):
        return None
    from consolidator.service.clients.registry import CLIENTS  # which few questions need

    return None if scope.agent in CLIENTS or scope.agent == ALL_AGENTS else ()


MAX_SHOWN = 5  # projects that an error names
MAX_PARENTS = 40  # directories above one that may be its project
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")  # of Windows, where `directory` may be of another system
_RELATIVE = re.compile(r"\.{1,2}$|~")


async def find_project(database: Database, directory: PurePath) -> str | None:
    """Return the project of a directory; None for a home directory and the root, which are no projects."""
    return (await find_checkout(database, directory))[0]


async def find_checkout(database: Database, directory: PurePath) -> tuple[str | None, str]:
    """Return the project of a directory, and where it lies: in this checkout of the repository.

    It is the nearest directory at or above it that sessions worked in, else its repository, else the directory itself.
    Not above the repository: what lies beside it is another project.
    """
    places = [place for place in (directory, *directory.parents)[:MAX_PARENTS] if not _is_no_project(place)]
    if not places or _is_no_project(directory):
        return None, ""
    repository = next((place for place in places if (Path(place) / ".git").exists()), None)
    if repository is not None:
        places = places[: places.index(repository) + 1]
    names = [project for place in places if (project := derive_project(str(place)))]
    nearest = names[-1 if repository is not None else 0]
    async with database.connection() as conn:
        by_name = await find_projects(conn, names)
        if (place := next((name for name in names if name in by_name), None)) is not None:
            return by_name[place], place
        from consolidator.formats.common.remotes import find_repository

        remote = find_repository(nearest)
        project = None if remote is None else await get_project_of_repository(conn, remote)
    return project or nearest, nearest


async def find_place(database: Database, name: str | None, directory: PurePath) -> str | None:
    """Return the project that a person names, else that of a directory; None where that is no project."""
    return (
        await find_project(database, directory) if name is None else await find_named_project(database, name, directory)
    )


async def find_named_project(database: Database, name: str, directory: PurePath) -> str:
    """Return the project that a person names: one that sessions worked in, else that of a path from a directory.

    Raises UsageError for a name, not a path, that no project has or several have.
    """
    async with database.connection() as conn:
        names = await list_projects(conn)
        if (match := match_project(name, names)) in names:
            return (await find_projects(conn, [match]))[match]
    if _RELATIVE.match(name) or re.search(r"[/\\]", name):
        project = derive_project(_absolute(name, directory)) or "/"
        if _is_no_project(Path(project)):
            raise UsageError(
                f"{project} is no project: name a directory below it, or say whose it is with --me or --agent"
            )
        async with database.connection() as conn:
            return (await find_projects(conn, [project])).get(project) or match_project(project, names)
    shown = ", ".join(names[:MAX_SHOWN]) + (", ..." if len(names) > MAX_SHOWN else "")
    there_is = f"there are {shown}; name one, or give a path" if names else "there is none yet: give a path"
    raise UsageError(f"no project is called {name[:80]!r}: {there_is}, such as `--project .`")


def _absolute(path: str, directory: PurePath) -> str:
    """Return a path from a directory; one of Windows as it is."""
    return path if _DRIVE.match(path) else str(directory / Path(path).expanduser())


def _is_no_project(place: PurePath) -> bool:
    return place == Path.home() or place == place.parent
