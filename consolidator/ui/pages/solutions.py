"""Solutions: errors, what fixed them, how often that worked, and when the error was met."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from consolidator.errors import NotFound
from consolidator.models.event import parse_timestamp
from consolidator.models.memory_filter import SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.explain import explain, find_places
from consolidator.service.memory.solutions import SOLUTION_POSITION, list_solutions
from consolidator.ui.view import Entry, PageModule, PageRequest, make_filter, route

LISTED = 50  # times that an error was met
WIDTH, EDGE = 900, 20  # units of the line in time


async def show_solutions(page: PageRequest) -> Response:
    """List solutions, confirmed ones first."""
    filters = page.read_filter("query", "agent", "project", "include_unsolved")
    of = f"solutions {filters}"
    selected = make_filter(SolutionFilter, filters, page.read_cursor(of, *SOLUTION_POSITION))
    rows = await list_solutions(page.database, selected, viewer=page.viewer)
    return page.show("solutions.html", filters=filters, **page.list_values(of, rows, rows.position))


async def show_solution(page: PageRequest) -> Response:
    """Show one error with its fixes, and a line in time."""
    name = page.path_params["solution_id"]
    explanation = await explain(page.database, name, viewer=page.viewer)
    if explanation["kind"] != "solution":
        raise NotFound(f"no solution has the id {name!r}")
    row: SolutionRow = explanation["row"]
    moments, known_at = place_moments(explanation["evidence"], row.learned_at)
    listed = [(proof, was_known) for _, proof, was_known in moments[:LISTED]]
    places = await find_places(page.database, [proof for proof, _ in listed], read=0, viewer=page.viewer)
    return page.show(
        "solution.html",
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


PAGE = PageModule(
    Entry("/solutions", "Failures and fixes"),
    (route("/solutions", show_solutions), route("/solutions/{solution_id}", show_solution)),
)
