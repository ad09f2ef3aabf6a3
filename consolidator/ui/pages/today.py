"""Today: what the agents learned since the latest night or another moment, and what waits for a person."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.service.memory.daily import load_days
from consolidator.service.memory.learned import load_learned
from consolidator.ui.view import Entry, PageModule, services_of, show_page, viewer_of

SPANS = {"1": "the last day", "7": "the last week", "30": "the last month"}  # days
ROWS = 10  # of each kind
DAYS = 14  # that are charted
CHARTED = {
    "events": "events read",
    "facts": "facts believed",
    "failures": "errors with a known fix",
    "cost": "cost in USD",
}


async def show_today(request: Request) -> Response:
    """Show what was learned."""
    database = services_of(request).database
    days = request.query_params.get("days", "")
    span = days if days in SPANS else ""
    since = database.clock.now() - timedelta(days=int(span)) if span else None
    news = await load_learned(database, since, limit=ROWS, viewer=viewer_of(request))
    recent = await load_days(database, DAYS, viewer=viewer_of(request))
    most = {name: max((getattr(day, name) for day in recent.days), default=0) for name in CHARTED}
    return show_page(
        request, "today.html", news=news, span=span, spans=SPANS, recent=recent, most=most, charted=CHARTED
    )


PAGE = PageModule(Entry("/today", "Today"), (Route("/today", show_today),))
