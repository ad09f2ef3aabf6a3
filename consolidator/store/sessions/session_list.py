"""Lists sessions by filters that people compose, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, func, literal, or_, tuple_
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.models.session import SessionRow, SessionTable
from consolidator.store.select import fetch_selected

StoredStatus = Literal["open", "ended", "running", "waiting", "pending", "failed"]
SessionOrder = Literal["latest", "created", "runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; None selects all."""

    agent: str | None = None
    project: str | None = None  # a path, or the last part of it
    peer: str | None = None
    status: StoredStatus | None = None
    key: str | None = None
    conversation: str | None = None
    trigger_type: str | None = None
    trigger_id: str | None = None
    labels: Mapping[str, Any] | None = None  # all of these
    parent: str | None = None  # its id
    root: str | None = None  # of its lineage: the id
    kind: str | None = None
    since: datetime | None = None  # something happened in it since
    hidden: bool = False  # also those that a person deleted


@dataclass(frozen=True, slots=True)
class SessionCursor:
    """The last session of a page."""

    at: datetime  # when the last thing happened in it, or when it was created, as the order is
    id: str


def cursor_of(session: SessionRow, order: SessionOrder) -> SessionCursor:
    """Return the cursor after a session."""
    return SessionCursor(session.last_occurred_at if order == "latest" else session.created_at, session.id)


async def list_page(
    conn: Connection,
    wanted: SessionFilter,
    *,
    agent: str | None,
    project: str | None,
    person: str | None,
    order: SessionOrder,
    after: SessionCursor | None,
    limit: int,
    now: datetime,
) -> list[SessionRow]:
    """Return the next sessions after a cursor; `person` is whose they must be: the peer of their lineage's root."""
    table = SessionTable
    moment = col(table.last_occurred_at) if order == "latest" else col(table.created_at)
    query = select(table).limit(limit)
    for condition in _conditions(wanted, agent, project, now):
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


def _conditions(
    wanted: SessionFilter, agent: str | None, project: str | None, now: datetime
) -> list[ColumnElement[bool]]:
    table = SessionTable
    equal = {
        "agent": agent,
        "project": project,
        "peer": wanted.peer,
        "key": wanted.key,
        "conversation_id": wanted.conversation,
        "trigger_type": wanted.trigger_type,
        "trigger_id": wanted.trigger_id,
        "parent_id": wanted.parent,
        "kind": wanted.kind,
        "root_id": wanted.root,
    }
    conditions = [col(getattr(table, name)) == value for name, value in equal.items() if value is not None]
    if wanted.labels:
        conditions.append(col(table.labels) != literal("{}").cast(JSONB))  # as the index says
        conditions.append(col(table.labels).op("@>")(literal(dumps(dict(wanted.labels))).cast(JSONB)))
    if wanted.since is not None:
        conditions.append(col(table.last_occurred_at) >= wanted.since)
    if not wanted.hidden:
        conditions.append(col(table.hidden).is_(False))
    return [*conditions, *_status_conditions(wanted.status, now)]


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
