"""Lists sessions by filters that people compose, page by page."""

from __future__ import annotations

from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.session import SessionCursor, SessionFilter, SessionOrder, SessionRow
from consolidator.store.queries import RowsByFilter, load

_SQL = load("sessions/session_list")
_PAGES = {
    order: RowsByFilter[SessionRow, SessionFilter](SessionRow, _SQL[order], "*")
    for order in ("latest", "created", "runs")
}


def cursor_of(session: SessionRow, order: SessionOrder) -> SessionCursor:
    """Return the cursor after a session."""
    return SessionCursor(session.last_occurred_at if order == "latest" else session.created_at, session.id)


async def list_page(
    conn: Connection,
    filters: SessionFilter,
    *,
    person: str | None = None,
    order: SessionOrder,
    after: SessionCursor | None = None,
    limit: int,
    now: datetime,
) -> list[SessionRow]:
    """Return the next sessions after a cursor; `person` is whose they must be: the peer of their lineage's root."""
    place = None if after is None else (after.at, after.id)
    labels = filters.labels or None
    return await _PAGES[order](conn, filters, labels=labels, person=person, after=place, limit=limit, now=now)
