"""What a question is about, within what its viewer reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from consolidator.database import Connection
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.viewer import Viewer
from consolidator.store.sessions.projects import resolve_project

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
    )
