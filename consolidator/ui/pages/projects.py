"""Projects: the list, and one with all that is known of it."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.service.memory.learned import load_quotes
from consolidator.service.memory.projects import list_projects, load_project
from consolidator.ui.view import Entry, PageModule, PageRequest, route


async def show_projects(page: PageRequest) -> Response:
    """Show the projects, or the one that is named."""
    database, viewer = page.database, page.viewer
    project = page.read_filter("project")["project"]
    if project is None:
        return page.show("projects.html", rows=await list_projects(database, viewer=viewer))
    memory = await load_project(database, project, viewer=viewer)
    quotes = await load_quotes(database, memory.facts, memory.failures, viewer=viewer)
    return page.show("project.html", project=project, memory=memory, quotes=quotes)


PAGE = PageModule(Entry("/projects", "Projects"), (route("/projects", show_projects),))
