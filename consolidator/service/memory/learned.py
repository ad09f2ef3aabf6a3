"""What the agents learned since a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from consolidator.database import Database
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.facts import cut_fact
from consolidator.service.memory.rules import count_rules
from consolidator.service.scope import narrow_scope
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.memory import learned
from consolidator.store.memory.learned import KINDS as KINDS
from consolidator.store.memory.learned import ChangedFactRow as ChangedFactRow
from consolidator.store.memory.learned import FailedAgainRow as FailedAgainRow
from consolidator.store.memory.learned import LearnedNews as LearnedNews
from consolidator.store.memory.learned import NightSumsRow as NightSumsRow
from consolidator.store.memory.learned import WaitingCountsRow as WaitingCountsRow


async def load_learned(
    database: Database,
    since: datetime | None = None,
    scope: MemoryScope = MemoryScope(),
    *,
    limit: int = 10,
    viewer: Viewer = OWNER,
) -> LearnedNews | None:
    """Return what was learned since a moment, or else since the latest night that learned; None before the first.

    For a peer, what that person may see; for a viewer of one project, what rests on that project's sessions alone. For
    any viewer who is narrowed, without what the nights saw in all and what waits. Raises Forbidden, and UsageError for
    what the viewer does not reach.
    """
    viewer.check_may("read")
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
        since = since or await learned.find_latest_night(conn)
        if since is None:
            return None
        news = await learned.load_learned(conn, since, scope, limit=limit)
        if news.waiting is not None and not viewer.is_narrowed:
            news = replace(news, waiting=replace(news.waiting, rules=await count_rules(conn)))
    if not viewer.is_narrowed:
        return news
    news = replace(news, sums=None, steering=None, failed_again=[], waiting=None)
    if viewer.peer is None and not viewer.is_of_project:
        return news
    return replace(
        news, facts=[cut_fact(fact) for fact in news.facts], changed=[cut_fact(fact) for fact in news.changed]
    )
