"""Today: what the agents learned since the latest night or another moment, and what waits for a person."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from consolidator.service.memory.daily import load_days
from consolidator.service.memory.learned import KINDS, LearnedNews, load_learned
from consolidator.service.nights.runs import list_runs
from consolidator.service.sessions.listing import list_sessions
from consolidator.ui.view import Entry, PageModule, PageRequest, route

SPANS = {"1": "the last day", "7": "the last week", "30": "the last month"}  # days
WIDEST = list(SPANS)[-1]
ROWS = 10  # of each kind
SESSIONS = 5  # the latest ones
DAYS = 14  # that are charted
CHARTED = {
    "events": "events read",
    "facts": "facts believed",
    "failures": "errors with a known fix",
    "cost": "cost in USD",
}


async def show_today(page: PageRequest) -> Response:
    """Show what was learned; where the latest night learned nothing new, what the last month did."""
    database, viewer = page.database, page.viewer
    days = page.query_params.get("days", "")
    span = days if days in SPANS else ""
    news = await _load_news(page, span)
    is_widened = not span and news is not None and not _has_news(news)
    if is_widened:
        news = await _load_news(page, WIDEST)
    recent = await load_days(database, DAYS, viewer=viewer)
    most = {name: max((getattr(day, name) for day in recent.days), default=0) for name in CHARTED}
    nights = await list_runs(database, job="consolidation", limit=1)
    sessions = await list_sessions(database, limit=SESSIONS, viewer=viewer)
    return page.show(
        "today.html",
        news=news,
        span=span,
        spans=SPANS,
        is_widened=is_widened,
        widest=WIDEST,
        recent=recent,
        most=most,
        charted=CHARTED,
        night=next(iter(nights), None),
        latest=[(row, sessions.titles.get(row.id)) for row in sessions.sessions],
    )


async def _load_news(page: PageRequest, span: str) -> LearnedNews | None:
    database = page.database
    since = database.clock.now() - timedelta(days=int(span)) if span else None
    return await load_learned(database, since, limit=ROWS, viewer=page.viewer)


def _has_news(news: LearnedNews) -> bool:
    return any(getattr(news, kind) for kind in KINDS)


PAGE = PageModule(Entry("/today", "Learned"), (route("/today", show_today),))
