"""Brief: what the next session of a project will be told, line by line, each to forget."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.brief_preview import preview_brief
from consolidator.service.memory.lessons import list_lesson_projects
from consolidator.service.memory.remember import forget
from consolidator.ui.view import Entry, PageModule, read_filter, redirect, services_of, show_page, viewer_of

PROJECTS = 100  # that are listed


async def show_brief(request: Request) -> Response:
    """Show the brief of a project, by default the first one that has lessons."""
    database, viewer = services_of(request).database, viewer_of(request)
    filters = read_filter(request, "agent", "project")
    projects = await list_lesson_projects(database, viewer=viewer)
    project = filters["project"] or next(iter(projects), None)
    preview = await preview_brief(database, scope=MemoryScope(filters["agent"], project), viewer=viewer)
    return show_page(request, "brief.html", filters=filters, projects=projects[:PROJECTS], preview=preview)


async def forget_line(request: Request) -> Response:
    """Forget a fact or a lesson: it is not told again."""
    await forget(services_of(request).database, request.path_params["memory_id"], viewer=viewer_of(request))
    return redirect(f"/brief?project={quote(request.state.form.get('project', ''), safe='')}")


PAGE = PageModule(
    Entry("/brief", "Brief"),
    (Route("/brief", show_brief), Route("/brief/{memory_id}/forget", forget_line, methods=["POST"])),
)
