"""What a question is about, within what its viewer reaches."""

from __future__ import annotations

from consolidator.database import Connection
from consolidator.service.viewer import Viewer
from consolidator.store.sessions.projects import resolve_project


async def narrow_scope(
    conn: Connection, viewer: Viewer, *, agent: str | None, project: str | None, peer: str | None
) -> Viewer:
    """Return the viewer narrowed by what a caller asks for.

    A caller may name a project by the last part of its path, among those that the viewer reaches; the viewer's own
    project is exactly what it says. Raises UsageError for what the viewer does not reach, and for an ambiguous project.
    """
    narrowed = viewer.narrow(agent=agent, peer=peer)
    if viewer.project is None:
        project = await resolve_project(conn, project, agent=narrowed.agent, peer=narrowed.peer)
    return narrowed.narrow(project=project)
