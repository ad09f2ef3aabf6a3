"""What a question is about, within what its viewer reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from consolidator.database import Connection
from consolidator.models.audience import OWNER as OWNER_PEER
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
        shared_in=await _list_shared(conn, viewer, asked),
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


async def _list_shared(conn: Connection, viewer: Viewer, asked: MemoryScope = MemoryScope()) -> Sequence[str] | None:
    """Return the projects whose shared memory an agent is told; None for all.

    A credential for one agent reaches it where that agent works for the owner. Whoever else names an agent is told what
    the agent is told: all of it where the agent works for the owner anywhere, as every client of `install` does.
    """
    if viewer.agent is not None:
        return () if viewer.peer else await list_shared_with(conn, viewer.agent)
    if not asked.agent or asked.peer == OWNER_PEER or await list_shared_with(conn, asked.agent):
        return None
    from consolidator.service.clients.registry import CLIENTS  # which few questions need

    return None if asked.agent in CLIENTS or asked.agent == ALL_AGENTS else ()
