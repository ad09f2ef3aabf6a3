"""Brief: what the next session of a project will be told, line by line, each to correct or forget."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.brief import preview_brief
from consolidator.service.memory.lessons import list_lesson_projects
from consolidator.ui.view import Entry, PageModule, PageRequest, route

PROJECTS = 100  # that are listed


async def show_brief(page: PageRequest) -> Response:
    """Show the brief of a project, by default the first one that has lessons."""
    database, viewer = page.database, page.viewer
    filters = page.read_filter("agent", "project")
    projects = await list_lesson_projects(database, viewer=viewer)
    project = filters["project"] or next(iter(projects), None)
    preview = await preview_brief(database, scope=MemoryScope(filters["agent"], project), viewer=viewer)
    return page.show("brief.html", filters=filters, projects=projects[:PROJECTS], preview=preview)


PAGE = PageModule(
    Entry("/brief", "Next session"),
    (route("/brief", show_brief),),
)
