"""Lists sessions by filters that people compose, page by page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, LiteralString

from consolidator.database.jsonb import as_jsonb
from consolidator.database.partitions import Connection
from consolidator.models.session import SessionCursor, SessionFilter, SessionOrder, SessionRow
from consolidator.store.queries import fetch_all, load

_SQL = load("sessions/session_list")
# The filters whose column has another name, and those that have the same.
_COLUMNS: dict[LiteralString, LiteralString] = {
    "conversation": "conversation_id", "parent": "parent_id", "root": "root_id",
    **{name: name for name in ("agent", "project", "peer", "key", "trigger_type", "trigger_id", "kind")},
}  # fmt: skip


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
    values: dict[str, Any] = {name: getattr(filters, name) for name in _COLUMNS}
    parts = [_SQL["sessions" if person is None else "sessions_of_person"]]
    parts += [f"session.{column} = %({name})s" for name, column in _COLUMNS.items() if values[name] is not None]
    if filters.labels:
        parts.append(_SQL["labels"])
    if filters.since is not None:
        parts.append("session.last_occurred_at >= %(since)s")
    if not filters.hidden:
        parts.append("not session.hidden")
    if filters.status is not None:
        parts.append(_SQL[filters.status])
    moment: LiteralString = "session.last_occurred_at" if order == "latest" else "session.created_at"
    if after is not None:
        parts.append(f"({moment}, session.id) {'>' if order == 'runs' else '<'} (%(at)s, %(last_id)s)")
        if order == "latest":  # in the order of an index; with it few sessions are sorted, those of some days
            parts.append("session.last_day <= %(day)s")
        values |= {"at": after.at, "last_id": after.id, "day": after.at.astimezone(UTC).date()}
    ordered: LiteralString = f"{moment}, session.id" if order == "runs" else f"{moment} desc, session.id desc"
    if order == "latest":
        ordered = f"session.last_day desc, {ordered}"
    values |= {"person": person, "since": filters.since, "now": now, "limit": limit}
    values["labels"] = as_jsonb(dict(filters.labels or {}))
    query = f"{' and '.join(parts)} order by {ordered} limit %(limit)s"
    return await fetch_all(conn, SessionRow, query, values)
