"""Procedures and solutions: what agents do again and again, errors, and what fixed them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import PlainTextResponse, Response

from consolidator.errors import NotFound
from consolidator.models.event import parse_timestamp
from consolidator.models.memory_filter import LessonFilter, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.explain import explain, find_places
from consolidator.service.memory.lessons import list_lessons
from consolidator.service.memory.procedures import PROCEDURE_POSITION, list_procedures, success_interval
from consolidator.service.memory.skills import create_skill
from consolidator.service.memory.solutions import SOLUTION_POSITION, list_solutions
from consolidator.ui.view import Entry, PageModule, PageRequest, make_filter, route

SESSIONS = 50  # that are listed of those behind a procedure


async def show_procedures(page: PageRequest) -> Response:
    """List procedures, the best first."""
    filters = page.read_filter("query", "agent", "project", "include_unworthy")
    of = f"procedures {filters}"
    selected = make_filter(ProcedureFilter, filters, page.read_cursor(of, *PROCEDURE_POSITION))
    rows = await list_procedures(page.database, selected, viewer=page.viewer)
    shown = [(row, success_interval(row)) for row in rows]
    return page.show("memory/procedures.html", filters=filters, **page.list_values(of, shown, rows.position))


async def show_procedure(page: PageRequest) -> Response:
    """Show one procedure, drawn."""
    explanation = await _explain(page, "procedure")
    row: ProcedureRow = explanation["row"]
    evidence = explanation["evidence"][:SESSIONS]
    places = await find_places(page.database, evidence, read=0, viewer=page.viewer)
    commands = [step["command"] for step in row.body.get("steps", ()) if step.get("command")]
    habits = LessonFilter(project=row.project, kinds=["follow_up"]) if row.project and commands else None
    lessons = await list_lessons(page.database, habits, viewer=page.viewer) if habits else []
    return page.show(
        "memory/procedure.html",
        edited=[habit.body["match"]["files"] for habit in lessons if any(habit.key in text for text in commands)],
        memory=explanation,
        row=row,
        proofs=list(zip(evidence, places, strict=True)),
        interval=success_interval(row),
    )


async def export_skill(page: PageRequest) -> Response:
    """Send a procedure as an Agent Skill's SKILL.md."""
    explanation = await _explain(page, "procedure")
    skill = await create_skill(page.database, explanation["row"], explanation)
    headers = {"content-disposition": f'attachment; filename="{skill.name}.SKILL.md"'}
    return PlainTextResponse(skill.text, headers=headers, media_type="text/markdown")


async def _explain(page: PageRequest, kind: str) -> dict[str, Any]:
    name = page.path_params[f"{kind}_id"]
    explanation = await explain(page.database, name, viewer=page.viewer)
    if explanation["kind"] != kind:
        raise NotFound(f"no {kind} has the id {name!r}")
    return explanation


PROCEDURES = PageModule(
    Entry("/procedures", "Procedures"),
    (
        route("/procedures", show_procedures),
        route("/procedures/{procedure_id}", show_procedure),
        route("/procedures/{procedure_id}/SKILL.md", export_skill),
    ),
)
LISTED = 50  # times that an error was met
WIDTH, EDGE = 900, 20  # units of the line in time


async def show_solutions(page: PageRequest) -> Response:
    """List solutions, confirmed ones first."""
    filters = page.read_filter("query", "agent", "project", "include_unsolved")
    of = f"solutions {filters}"
    selected = make_filter(SolutionFilter, filters, page.read_cursor(of, *SOLUTION_POSITION))
    rows = await list_solutions(page.database, selected, viewer=page.viewer)
    return page.show("memory/solutions.html", filters=filters, **page.list_values(of, rows, rows.position))


async def show_solution(page: PageRequest) -> Response:
    """Show one error with its fixes, and a line in time."""
    explanation = await _explain(page, "solution")
    row: SolutionRow = explanation["row"]
    moments, known_at = place_moments(explanation["evidence"], row.learned_at)
    listed = [(proof, was_known) for _, proof, was_known in moments[:LISTED]]
    places = await find_places(page.database, [proof for proof, _ in listed], read=0, viewer=page.viewer)
    return page.show(
        "memory/solution.html",
        memory=explanation,
        row=row,
        moments=moments,
        met=[(proof, place, was_known) for (proof, was_known), place in zip(listed, places, strict=True)],
        known_at=known_at,
        width=WIDTH,
    )


def place_moments(evidence: list[dict[str, Any]], learned_at: datetime) -> tuple[list[tuple[float, Any, bool]], float]:
    """Return (x, proof, whether the fix was known) of what is remembered of an error, and the x of when it was."""
    timed = [(when, proof) for proof in evidence if (when := _to_moment(proof["when"])) is not None]
    timed.sort(key=lambda each: each[0])
    first = min([when for when, _ in timed] + [learned_at])
    span = (max([when for when, _ in timed] + [learned_at]) - first).total_seconds() or 1

    def place(when: datetime) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * (when - first).total_seconds() / span, 1)

    return [(place(when), proof, when > learned_at) for when, proof in timed], place(learned_at)


def _to_moment(when: object) -> datetime | None:
    return when if isinstance(when, datetime) else parse_timestamp(when)


SOLUTIONS = PageModule(
    Entry("/solutions", "Failures and fixes"),
    (route("/solutions", show_solutions), route("/solutions/{solution_id}", show_solution)),
)
