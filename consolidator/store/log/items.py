"""Items of another framework that events keep whole, and which of them stand: the fold of what was withdrawn.

An item is in the last of its events, under `item`. `items_withdrawn` says which events before it no longer stand:
those with after < seq <= upto, where upto is the event before it. So a reader that comes from the end jumps over them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.event import EventRow
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import blobs
from consolidator.store.log.events import Span, complete
from consolidator.store.queries import FirstRow, fetch_all, load

KEY = "item"  # of the payload
WITHDRAWN = "items_withdrawn"
_SQL = load("log/items")
_BATCH = 500
_MARGIN = 16  # events beside items that a read for a few items expects


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item, and the seq of the event that keeps it."""

    seq: int
    item: dict[str, Any]


async def read_items(conn: Connection, session: SessionRow, limit: int | None = None) -> list[KeptItem]:
    """Return the latest items that stand at the session's head, the oldest first; what was pruned is gone.

    It reads from the end, and no more than the items and what was withdrawn between them.
    """
    read_items: list[KeptItem] = []
    upto = session.head
    while upto > session.pruned_to and (limit is None or len(read_items) < limit):
        missing = _BATCH if limit is None else limit - len(read_items)
        span = Span(session.id, session.pruned_to, upto, session.ingest_bounds)
        values = {**span.values(), "limit": min(_BATCH, missing + _MARGIN)}
        rows = await fetch_all(conn, EventRow, _SQL["read_backwards"], values)
        if not rows:
            break
        standing, upto = _fold(rows, upto, missing)
        events = await complete(conn, standing)
        read_items += [KeptItem(event.seq, load_item(event.data[KEY])) for event in events]
    return read_items[::-1]


def _fold(rows: list[EventRow], upto: int, missing: int) -> tuple[list[EventRow], int]:
    """Return the rows that keep standing items, at most `missing`, and the seq up to which to read on."""
    standing: list[EventRow] = []
    for row in rows:
        if row.seq > upto:
            continue
        upto = row.seq - 1
        if row.event_type == EventType.POLICY_DECISION and row.data.get("decision") == WITHDRAWN:
            upto = min(upto, int(row.data["after"]))
        elif KEY in row.data or KEY in blobs.refs_of(row):
            standing.append(row)
            if len(standing) == missing:
                break
    return standing, upto


def dump_item(item: Mapping[str, Any]) -> Any:
    """Return an item as an event keeps it: the object, or its JSON text where jsonb would change a number."""
    return json.dumps(item) if _has_wide_float(item) else item


def load_item(value: Any) -> dict[str, Any]:
    """Return the item that `dump_item` was given."""
    item: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return item


def _has_wide_float(value: Any) -> bool:
    """Tell whether there is a number that jsonb gives back as another: a float that it writes as an integer."""
    if isinstance(value, float):
        return abs(value) >= 1e16
    if isinstance(value, dict):
        return any(_has_wide_float(item) for item in value.values())
    return isinstance(value, list) and any(_has_wide_float(item) for item in value)


find_recorded = FirstRow[SessionRow, str, str](SessionRow, _SQL["find_recorded"], "key recorded_by")
