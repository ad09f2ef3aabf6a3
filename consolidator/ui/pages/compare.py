"""Compare: two sessions, a branch and its main, a rerun and its original, side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.service.sessions.reruns import compare_pair
from consolidator.ui.view import (
    Entry,
    PageModule,
    first_address,
    next_address,
    read_cursor,
    read_filter,
    services_of,
    show_page,
    viewer_of,
)

MAX_TURNS = 50  # that a page shows


async def show_comparison(request: Request) -> Response:
    """Show how two sessions differ, or a form that asks which."""
    filters = read_filter(request, "left", "right", "all")
    of = f"compared {filters['left']} {filters['right']}"
    cursor = read_cursor(request, of, int, int)
    pair = None
    if filters["left"] is not None:
        pair = await compare_pair(
            services_of(request).database,
            filters["left"],
            filters["right"] or "",
            positions=None if cursor is None else (cursor[0], cursor[1]),
            viewer=viewer_of(request),
        )
    turns = list(pair.comparison.turns if filters["all"] else pair.comparison.differences()) if pair else []
    return show_page(
        request,
        "compare.html",
        filters=filters,
        pair=pair,
        turns=turns[:MAX_TURNS],
        more=max(len(turns) - MAX_TURNS, 0),
        next=None if pair is None or pair.next is None else next_address(request, of, [*pair.next]),
        first_page=first_address(request),
    )


PAGE = PageModule(Entry("/compare", "Compare"), (Route("/compare", show_comparison),))
