"""Procedures: what agents do again and again, each step by step, and exported as a skill."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse, Response

from consolidator.errors import NotFound
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.service.memory.explain import explain, find_places
from consolidator.service.memory.procedures import PROCEDURE_POSITION, list_procedures, success_interval
from consolidator.service.memory.skills import create_skill
from consolidator.ui.view import Entry, PageModule, PageRequest, make_filter, route

SESSIONS = 50  # that are listed of those behind a procedure


async def show_procedures(page: PageRequest) -> Response:
    """List procedures, the best first."""
    filters = page.read_filter("query", "agent", "project", "include_unworthy")
    of = f"procedures {filters}"
    selected = make_filter(ProcedureFilter, filters, page.read_cursor(of, *PROCEDURE_POSITION))
    rows = await list_procedures(page.database, selected, viewer=page.viewer)
    shown = [(row, success_interval(row)) for row in rows]
    return page.show("procedures.html", filters=filters, **page.list_values(of, shown, rows.position))


async def show_procedure(page: PageRequest) -> Response:
    """Show one procedure, drawn."""
    explanation = await _explain(page)
    row: ProcedureRow = explanation["row"]
    evidence = explanation["evidence"][:SESSIONS]
    places = await find_places(page.database, evidence, read=0, viewer=page.viewer)
    return page.show(
        "procedure.html",
        memory=explanation,
        row=row,
        proofs=list(zip(evidence, places, strict=True)),
        interval=success_interval(row),
    )


async def export_skill(page: PageRequest) -> Response:
    """Send a procedure as an Agent Skill's SKILL.md."""
    explanation = await _explain(page)
    skill = await create_skill(page.database, explanation["row"], explanation)
    headers = {"content-disposition": f'attachment; filename="{skill.name}.SKILL.md"'}
    return PlainTextResponse(skill.text, headers=headers, media_type="text/markdown")


async def _explain(page: PageRequest) -> dict[str, Any]:
    name = page.path_params["procedure_id"]
    explanation = await explain(page.database, name, viewer=page.viewer)
    if explanation["kind"] != "procedure":
        raise NotFound(f"no procedure has the id {name!r}")
    return explanation


PAGE = PageModule(
    Entry("/procedures", "Procedures"),
    (
        route("/procedures", show_procedures),
        route("/procedures/{procedure_id}", show_procedure),
        route("/procedures/{procedure_id}/SKILL.md", export_skill),
    ),
)
