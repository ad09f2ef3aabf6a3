"""Lists sessions by filters that people compose, page by page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, literal, or_, tuple_
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.models.session import SessionCursor, SessionFilter, SessionOrder, SessionRow, StoredStatus
from consolidator.models.table import table_of
from consolidator.store.keyset import fetch_selected

SessionTable = table_of("session", SessionRow)  # here, as most commands load the row and list no sessions


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
    table = SessionTable
    moment = col(table.last_occurred_at) if order == "latest" else col(table.created_at)
    query = select(table).limit(limit)
    for condition in _conditions(filters, now):
        query = query.where(condition)
    if person is not None:
        root = aliased(SessionTable)
        query = query.outerjoin(root, col(root.id) == col(table.root_id)).where(
            or_(
                and_(col(root.id).is_(None), func.coalesce(table.peer, "") == person),
                and_(col(root.id).is_not(None), func.coalesce(root.peer, "") == person),
            )
        )
    day = col(table.last_day)  # in the order of an index; with it few sessions are sorted, those of some days
    place = tuple_(moment, col(table.id))
    if after is not None:
        mark = tuple_(literal(after.at), literal(after.id))
        query = query.where(place > mark if order == "runs" else place < mark)
        if order == "latest":
            query = query.where(day <= after.at.astimezone(UTC).date())
    ordered: tuple[Any, ...] = (moment.desc(), col(table.id).desc())
    if order != "created":
        ordered = (moment, col(table.id)) if order == "runs" else (day.desc(), *ordered)
    return await fetch_selected(conn, SessionRow, query.order_by(*ordered))


def _conditions(filters: SessionFilter, now: datetime) -> list[ColumnElement[bool]]:
    table = SessionTable
    equal = {"conversation_id": filters.conversation, "parent_id": filters.parent, "root_id": filters.root}
    same = ("agent", "project", "peer", "key", "trigger_type", "trigger_id", "kind")  # as the filter names them
    equal |= {name: getattr(filters, name) for name in same}
    conditions = [col(getattr(table, name)) == value for name, value in equal.items() if value is not None]
    if filters.conversation is not None and filters.kind is None:  # its runs; a sub-agent's is one within a run
        conditions.append(col(table.kind) != "sub-agent")
    if filters.labels:
        conditions.append(col(table.labels) != literal("{}").cast(JSONB))  # as the index says
        conditions.append(col(table.labels).op("@>")(literal(dumps(dict(filters.labels))).cast(JSONB)))
    if filters.since is not None:
        conditions.append(col(table.last_occurred_at) >= filters.since)
    if not filters.hidden:
        conditions.append(col(table.hidden).is_(False))
    return [*conditions, *_status_conditions(filters.status, now)]


def _status_conditions(status: StoredStatus | None, now: datetime) -> list[ColumnElement[bool]]:
    table = SessionTable
    is_open = col(table.status) == "open"
    match status:
        case None:
            return []
        case "open":
            return [is_open]
        case "ended":
            return [col(table.status) == "ended"]
        case "running":
            return [is_open, col(table.lease_owner).is_not(None), col(table.lease_until) > now]
        case "waiting":
            return [is_open, col(table.attention) != literal("{}").cast(JSONB)]
        case "pending":
            return [is_open, col(table.pending).is_(True)]
        case "failed":
            return [col(table.error).is_not(None)]
