"""Compare: two sessions, a branch and its main, a rerun and its original, side by side."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.service.sessions.reruns import compare_pair
from consolidator.ui.view import Entry, PageModule, PageRequest, route

MAX_TURNS = 50  # that a page shows


async def show_comparison(page: PageRequest) -> Response:
    """Show how two sessions differ, or a form that asks which."""
    filters = page.read_filter("left", "right", "all")
    of = f"compared {filters['left']} {filters['right']}"
    cursor = page.read_cursor(of, int, int)
    pair = None
    if filters["left"] is not None:
        pair = await compare_pair(
            page.database,
            filters["left"],
            filters["right"] or "",
            positions=None if cursor is None else (cursor[0], cursor[1]),
            viewer=page.viewer,
        )
    turns = list(pair.comparison.turns if filters["all"] else pair.comparison.differences()) if pair else []
    return page.show(
        "compare.html",
        filters=filters,
        pair=pair,
        turns=turns[:MAX_TURNS],
        more=max(len(turns) - MAX_TURNS, 0),
        next=None if pair is None or pair.next is None else page.next_address(of, [*pair.next]),
        first_page=page.first_address(),
    )


PAGE = PageModule(Entry("/compare", "Compare"), (route("/compare", show_comparison),))
