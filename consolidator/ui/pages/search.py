"""Search: words in all that memory holds, by kind; a script asks for the part below the field while one types."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.models.memory_filter import FactFilter, LessonFilter, ProcedureFilter, SolutionFilter
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.lessons import list_lessons
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.projects import list_projects
from consolidator.service.memory.solutions import list_solutions
from consolidator.ui.view import Entry, PageModule, PageRequest, route

OF_KIND, OF_KIND_IN_PART = 20, 4


async def show_search(page: PageRequest) -> Response:
    """Show what has the words, by kind: its title, the path below which each is, and (id, text, of what) of each."""
    database, viewer = page.database, page.viewer
    filters = page.read_filter("query", "part")
    query, limit = filters["query"], OF_KIND_IN_PART if filters["part"] else OF_KIND
    kinds: list[tuple[str, str, list[tuple[str, str, str | None]]]] = []
    if query is not None:
        projects = await list_projects(database, viewer=viewer)
        named = [row.project for row in projects if query.lower() in row.project.lower()]
        facts = await list_facts(database, FactFilter(query=query, limit=limit), viewer=viewer)
        lessons = await list_lessons(database, LessonFilter(query=query, limit=limit), viewer=viewer)
        solutions = await list_solutions(database, SolutionFilter(query=query, limit=limit), viewer=viewer)
        procedures = await list_procedures(database, ProcedureFilter(query=query, limit=limit), viewer=viewer)
        kinds = [
            ("Projects", "/projects?project=", [(path, path, None) for path in named[:limit]]),
            ("What people said", "/memory/", [(row.id, row.sentence, row.project) for row in facts]),
            ("How things run, and what fails", "/memory/", [(row.id, row.line, row.project) for row in lessons]),
            ("Errors with a fix", "/solutions/", [(row.id, str(row.body["line"]), row.project) for row in solutions]),
            ("Procedures", "/procedures/", [(row.id, row.title, row.project) for row in procedures]),
        ]
    template = "search_results.html" if filters["part"] else "search.html"
    return page.show(template, query=query, kinds=[kind for kind in kinds if kind[2]])


PAGE = PageModule(Entry("/search", "Search"), (route("/search", show_search),))
