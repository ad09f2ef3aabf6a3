"""Lists sessions by filters that people compose, page by page."""

from __future__ import annotations

from datetime import UTC, datetime

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.models.session import SessionCursor, SessionFilter, SessionOrder, SessionRow, StoredStatus
from consolidator.store.keyset import Select

_STATUS: dict[StoredStatus, str] = {
    "open": "session.status = 'open'",
    "ended": "session.status = 'ended'",
    "running": "session.status = 'open' and session.lease_owner is not null and session.lease_until > %(now)s",
    "waiting": "session.status = 'open' and session.attention <> '{}'::jsonb",
    "pending": "session.status = 'open' and session.pending",
    "failed": "session.error is not null",
}
_IS_OF_PERSON = """(root.id is null and coalesce(session.peer, '') = %(person)s
                    or root.id is not null and coalesce(root.peer, '') = %(person)s)"""


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
    moment = "session.last_occurred_at" if order == "latest" else "session.created_at"
    joined = "" if person is None else "left join session root on root.id = session.root_id"
    query = _select(filters, Select("session", joined=joined), now)
    if person is not None:
        query = query.where(_IS_OF_PERSON, person=person)
    if after is not None:
        comparison = ">" if order == "runs" else "<"
        query = query.where(f"({moment}, session.id) {comparison} (%(at)s, %(last_id)s)", at=after.at, last_id=after.id)
        if order == "latest":
            query = query.where("session.last_day <= %(day)s", day=after.at.astimezone(UTC).date())
    direction = "" if order == "runs" else " desc"
    # In the order of an index; with the day few sessions are sorted, those of some days.
    ordered = ("session.last_day desc, " if order == "latest" else "") + f"{moment}{direction}, session.id{direction}"
    return await query.fetch(conn, SessionRow, ordered, limit)


def _select(filters: SessionFilter, query: Select, now: datetime) -> Select:
    equal = {
        "agent": filters.agent,
        "project": filters.project,
        "peer": filters.peer,
        "key": filters.key,
        "conversation_id": filters.conversation,
        "trigger_type": filters.trigger_type,
        "trigger_id": filters.trigger_id,
        "parent_id": filters.parent,
        "kind": filters.kind,
        "root_id": filters.root,
    }
    given = {name: value for name, value in equal.items() if value is not None}
    query = query.where(*(f"session.{name} = %({name})s" for name in given), **given)
    if filters.labels:  # the first condition as the index says
        labels = dumps(dict(filters.labels))
        query = query.where("session.labels <> '{}'::jsonb", "session.labels @> %(labels)s::jsonb", labels=labels)
    if filters.since is not None:
        query = query.where("session.last_occurred_at >= %(since)s", since=filters.since)
    if not filters.hidden:
        query = query.where("session.hidden is false")
    return query if filters.status is None else query.where(_STATUS[filters.status], now=now)
