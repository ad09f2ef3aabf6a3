"""Procedures: what agents do again and again, each drawn step by step, and exported as a skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from consolidator.errors import NotFound
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.service.memory.explain import explain
from consolidator.service.memory.procedures import PROCEDURE_POSITION, list_procedures, success_interval
from consolidator.service.memory.quoted_places import find_places
from consolidator.service.memory.skills import create_skill
from consolidator.ui.view import (
    Entry,
    PageModule,
    list_values,
    make_filter,
    read_cursor,
    read_filter,
    services_of,
    show_page,
    viewer_of,
)

SESSIONS = 50  # that are listed of those behind a procedure
BOX, GAP, TOP, BOX_HEIGHT = 180, 60, 12, 58  # units of the drawing


@dataclass(frozen=True, slots=True)
class Source:
    """An arrow from the step in which a value was seen to the one that uses it."""

    path: str
    label: str
    x: float
    y: float


async def show_procedures(request: Request) -> Response:
    """List procedures, the best first."""
    filters = read_filter(request, "query", "agent", "project", "include_unworthy")
    of = f"procedures {filters}"
    selected = make_filter(ProcedureFilter, filters, read_cursor(request, of, *PROCEDURE_POSITION))
    rows = await list_procedures(services_of(request).database, selected, viewer=viewer_of(request))
    shown = [(row, success_interval(row)) for row in rows]
    return show_page(request, "procedures.html", filters=filters, **list_values(request, of, shown, rows.position))


async def show_procedure(request: Request) -> Response:
    """Show one procedure, drawn."""
    explanation = await _explain(request)
    row: ProcedureRow = explanation["row"]
    steps = row.body["steps"]
    sources = draw_sources(steps)
    evidence = explanation["evidence"][:SESSIONS]
    places = await find_places(services_of(request).database, evidence, read=0, viewer=viewer_of(request))
    depth = max((source.y for source in sources), default=0.0)
    return show_page(
        request,
        "procedure.html",
        memory=explanation,
        row=row,
        proofs=list(zip(evidence, places, strict=True)),
        steps=[(TOP + number * (BOX + GAP), step) for number, step in enumerate(steps)],
        sources=sources,
        width=TOP * 2 + len(steps) * (BOX + GAP),
        height=TOP * 2 + BOX_HEIGHT + depth + 30,
        interval=success_interval(row),
        box=BOX,
        gap=GAP,
        top=TOP,
        box_height=BOX_HEIGHT,
    )


def draw_sources(steps: list[dict[str, Any]]) -> list[Source]:
    """Return arrows below the boxes, from where each argument comes from to the step that has it."""
    sources, bottom = [], TOP + BOX_HEIGHT
    for number, step in enumerate(steps):
        for place, argument in enumerate(each for each in step["arguments"] if each.get("step") is not None):
            begin = TOP + argument["step"] * (BOX + GAP) + BOX / 2 + 12
            end = TOP + number * (BOX + GAP) + BOX / 2 - 12 - 10 * place
            depth = 26 + 14 * (number - argument["step"])
            path = f"M{begin} {bottom} C{begin} {bottom + depth} {end} {bottom + depth} {end} {bottom + 3}"
            sources.append(Source(path, str(argument["path"]), (begin + end) / 2, depth))
    return sources


async def export_skill(request: Request) -> Response:
    """Send a procedure as an Agent Skill's SKILL.md."""
    explanation = await _explain(request)
    skill = await create_skill(services_of(request).database, explanation["row"], explanation)
    headers = {"content-disposition": f'attachment; filename="{skill.name}.SKILL.md"'}
    return PlainTextResponse(skill.text, headers=headers, media_type="text/markdown")


async def _explain(request: Request) -> dict[str, Any]:
    name = request.path_params["procedure_id"]
    explanation = await explain(services_of(request).database, name, viewer=viewer_of(request))
    if explanation["kind"] != "procedure":
        raise NotFound(f"no procedure has the id {name!r}")
    return explanation


PAGE = PageModule(
    Entry("/procedures", "Procedures"),
    (
        Route("/procedures", show_procedures),
        Route("/procedures/{procedure_id}", show_procedure),
        Route("/procedures/{procedure_id}/SKILL.md", export_skill),
    ),
)
