"""What a question is about, within what its viewer reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from consolidator.database import Connection
from consolidator.models.memory_filter import ALL_AGENTS, MemoryScope
from consolidator.service.viewer import Viewer
from consolidator.store.sessions.projects import list_shared_with, resolve_project

S = TypeVar("S", bound=MemoryScope)


async def narrow_scope(conn: Connection, viewer: Viewer, asked: S) -> S:
    """Return what a caller asks for, within what the viewer reaches.

    A caller may name a project by the last part of its path, among those that the viewer reaches; the viewer's own
    project is exactly what it says. Raises UsageError for what the viewer does not reach, and for an ambiguous project.
    """
    narrowed, project = viewer.narrow(agent=asked.agent, peer=asked.peer), asked.project
    if viewer.project is None:
        project = await resolve_project(conn, project, agent=narrowed.agent, peer=narrowed.peer)
    return replace(
        asked,
        agent=narrowed.agent,
        project=narrowed.narrow(project=project).project,
        peer=narrowed.peer,
        project_alone=viewer.is_of_project,
        shared_in=None if viewer.agent is None else await _list_shared(conn, viewer),
    )


async def sees_memory(conn: Connection, viewer: Viewer, memory: str, project: str | None) -> bool:
    """Tell whether a memory, of a project or of all, is one that the viewer's agent is told."""
    if viewer.agent in (None, memory):
        return True
    return memory == ALL_AGENTS and (project or "") in await _list_shared(conn, viewer)


async def reaches_memory(conn: Connection, viewer: Viewer, memory: str, project: str | None, peer: str | None) -> bool:
    """Tell whether what a memory holds of a project and peer is within the viewer's reach."""
    is_seen = await sees_memory(conn, viewer, memory, project)
    return is_seen and viewer.reaches(agent=viewer.agent, project=project, peer=peer)


async def _list_shared(conn: Connection, viewer: Viewer) -> list[str]:
    """Return the projects whose shared memory a credential for one agent reaches: where the agent serves the owner."""
    return [] if viewer.peer else await list_shared_with(conn, str(viewer.agent))
