"""Projects, what their next sessions will be told, search, and questions with the reasons of each answer."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.errors import UsageError
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import FactFilter, LessonFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.service.memory import recall_reasons
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.learned import load_quotes
from consolidator.service.memory.lessons import list_lessons
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.projects import list_projects, load_project
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET
from consolidator.service.memory.solutions import list_solutions
from consolidator.service.memory.telling.brief import Situation
from consolidator.service.memory.telling.brief_preview import preview_brief
from consolidator.ui.view import Entry, PageModule, PageRequest, route


async def show_projects(page: PageRequest) -> Response:
    """Show the projects, or the one that is named."""
    database, viewer = page.database, page.viewer
    project = page.read_filter("project")["project"]
    if project is None:
        return page.show("memory/projects.html", rows=await list_projects(database, viewer=viewer))
    memory = await load_project(database, project, viewer=viewer)
    quotes = await load_quotes(database, memory.facts, memory.failures, viewer=viewer)
    return page.show("memory/project.html", project=project, memory=memory, quotes=quotes)


PROJECTS = PageModule(Entry("/projects", "Projects"), (route("/projects", show_projects),))
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
    moment, _, needs_text = MOMENTS[name]
    rows = await list_projects(database, viewer=viewer)
    project = filters["project"] or next((row.project for row in rows if row.lessons), None)
    line = text if name == "call" else filters["command"]
    called = Situation(text, "Bash", {"command": line}, "") if line else Situation(text)
    preview = None
    if text or not needs_text:
        preview = await preview_brief(database, moment, MemoryScope(filters["agent"], project), called, viewer=viewer)
    return page.show(
        "memory/brief.html",
        filters=filters,
        name=name,
        moments=MOMENTS,
        asked=needs_text,
        rows=rows,
        project=project,
        agents=sorted({agent for row in rows for agent in row.agents}),
        preview=preview,
    )


BRIEF = PageModule(Entry("/brief", "Next session"), (route("/brief", show_brief),))
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
    template = "memory/search_results.html" if filters["part"] else "memory/search.html"
    return page.show(template, query=query, kinds=[kind for kind in kinds if kind[2]])


SEARCH = PageModule(Entry("/search", "Search"), (route("/search", show_search),))
MAX_TOKENS = 20_000  # that a page shows of an answer
FLOOR = {
    "most": recall_reasons.MIN_ANSWER_COVERAGE,
    "fact": recall_reasons.MIN_FACT_COVERAGE,
    "many": recall_reasons.MANY_WORDS,
    "some": recall_reasons.MIN_COVERAGE_OF_MANY,
    "cosine": recall_reasons.MIN_COSINE,
}


async def show_recall(page: PageRequest) -> Response:
    """Show a question's answer, or what can be asked."""
    services, viewer = page.services, page.viewer
    filters = page.read_filter("query", "agent", "project", "peer", "tokens")
    answer = None
    if filters["query"] is not None:
        answer = await recall_reasons.explain_recall(
            services.database,
            filters["query"],
            MemoryScope(filters["agent"], filters["project"], filters["peer"]),
            token_budget=_read_tokens(filters["tokens"]),
            settings=services.settings,
            viewer=viewer,
        )
    return page.show("memory/recall.html", filters=filters, answer=answer, floor=FLOOR, tokens=DEFAULT_TOKEN_BUDGET)


def _read_tokens(text: str | None) -> int:
    if text is None:
        return DEFAULT_TOKEN_BUDGET
    if not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= MAX_TOKENS:
        raise UsageError(f"an answer takes between 1 and {MAX_TOKENS:,} tokens, not {text[:40]!r}")
    return int(text)


RECALL = PageModule(Entry("/recall", "Ask"), (route("/recall", show_recall),))
