"""Brief: what an agent of a project will be told at each moment, line by line, each to correct or forget."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.errors import UsageError
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.brief import Situation, preview_brief
from consolidator.service.memory.projects import list_projects
from consolidator.ui.view import Entry, PageModule, PageRequest, route

MOMENTS: dict[str, tuple[Moment, str, str]] = {  # by name: what a tab says, and what is asked for
    "start": ("session_start", "when it starts", ""),
    "prompt": ("prompt", "with a prompt", "The prompt"),
    "call": ("before_call", "before a command", "The command about to run"),
    "failure": ("failure", "after a failure", "What the command printed"),
}


async def show_brief(page: PageRequest) -> Response:
    """Show the brief of a project, by default of the latest one that has lessons."""
    database, viewer = page.database, page.viewer
    filters = page.read_filter("agent", "project", "moment", "text", "command")
    name, text = filters["moment"] or "start", filters["text"] or ""
    if name not in MOMENTS:
        raise UsageError(f"a moment is one of: {', '.join(MOMENTS)}")
    moment, _, asked = MOMENTS[name]
    rows = await list_projects(database, viewer=viewer)
    project = filters["project"] or next((row.project for row in rows if row.lessons), None)
    line = text if name == "call" else filters["command"]
    called = Situation(text, "Bash", {"command": line}, "") if line else Situation(text)
    preview = None
    if text or not asked:
        preview = await preview_brief(database, moment, MemoryScope(filters["agent"], project), called, viewer=viewer)
    return page.show(
        "brief.html",
        filters=filters,
        name=name,
        moments=MOMENTS,
        asked=asked,
        rows=rows,
        project=project,
        agents=sorted({agent for row in rows for agent in row.agents}),
        preview=preview,
    )


PAGE = PageModule(Entry("/brief", "Next session"), (route("/brief", show_brief),))
