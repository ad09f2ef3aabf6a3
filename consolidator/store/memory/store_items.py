"""Reads and writes what programs keep under a namespace and a key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from consolidator.database.jsonb import as_jsonb, escape, unescape
from consolidator.database.partitions import Connection
from consolidator.models.store_item import (
    WILDCARD,
    GetItem,
    ListNamespaces,
    NamespacePattern,
    PutItem,
    SearchItems,
    StoreItemRow,
)
from consolidator.store.queries import Statement, execute_each, fetch_all, fetch_column, fetch_each, load

_SQL = load("memory/store_items")
_VECTOR_ROWS = 200  # fetched at once


@dataclass(frozen=True, slots=True)
class ItemVectorsRow:
    """The vectors of an item, each as its 32-bit floats."""

    namespace: list[str]
    key: str
    vectors: list[bytes]


async def get_items(
    conn: Connection, places: Sequence[GetItem | ItemVectorsRow], now: datetime
) -> list[StoreItemRow | None]:
    """Return each of some items; None for one that is not there, or expired."""
    values = [{"namespace": _escape_all(item.namespace), "key": escape(item.key), "now": now} for item in places]
    results = await fetch_each(conn, StoreItemRow, _SQL["get"], values)
    return [rows[0] if rows else None for rows in results]


async def search(conn: Connection, query: SearchItems, now: datetime) -> list[StoreItemRow]:
    """Return the items that a search wants, the latest first."""
    values = _search_values(query, now) | {"limit": query.limit, "offset": query.offset}
    return await fetch_all(conn, StoreItemRow, _SQL["search"], values)


async def read_vectors(conn: Connection, query: SearchItems, now: datetime) -> AsyncIterator[list[ItemVectorsRow]]:
    """Yield the vectors of all items that a search may find, the latest first, some rows at a time."""
    async with conn.cursor("store_item_vectors", row_factory=class_row(ItemVectorsRow), binary=True) as cursor:
        await cursor.execute(_SQL["vectors"], _search_values(query, now))
        while rows := await cursor.fetchmany(_VECTOR_ROWS):
            yield [replace(row, namespace=_unescape_all(row.namespace), key=unescape(row.key)) for row in rows]


async def list_namespaces(conn: Connection, query: ListNamespaces, now: datetime) -> list[list[str]]:
    """Return the namespaces that hold items and fit the patterns, in their order."""
    values = {
        **_range(_common_prefix(query.patterns)),
        "patterns": as_jsonb([{**asdict(pattern), "labels": list(pattern.labels)} for pattern in query.patterns]),
        "max_depth": query.max_depth,
        "limit": query.limit,
        "offset": query.offset,
        "now": now,
    }
    return [_unescape_all(labels) for labels in await fetch_column(conn, _SQL["namespaces"], values)]


async def put_items(conn: Connection, puts: Sequence[PutItem], vectors: Sequence[list[bytes]], now: datetime) -> None:
    """Write or delete items, of which no two are the same."""
    rows = [
        {
            "namespace": _escape_all(put.namespace),
            "key": escape(put.key),
            "value": None if put.value is None else as_jsonb(put.value),
            "vectors": packed,
            "ttl_minutes": put.ttl_minutes,
            "now": now,
        }
        for put, packed in zip(puts, vectors, strict=True)
    ]
    rows.sort(key=lambda row: (row["namespace"], row["key"]))  # so that two writers never wait for each other
    await execute_each(conn, _SQL["delete"], [row for row in rows if row["value"] is None])
    await execute_each(conn, _SQL["put"], [row for row in rows if row["value"] is not None])


async def refresh_items(conn: Connection, items: Sequence[StoreItemRow], now: datetime) -> None:
    """Prolong items by their time to live, where they have one."""
    places = sorted({(tuple(_escape_all(item.namespace)), escape(item.key)) for item in items})
    values = [{"namespace": list(namespace), "key": key, "now": now} for namespace, key in places]
    await execute_each(conn, _SQL["refresh"], values)


def _search_values(query: SearchItems, now: datetime) -> dict[str, Any]:
    conditions = [
        {"path": list(condition.path), "kind": condition.kind, "wanted": condition.operand}
        for condition in query.conditions
    ]
    return {**_range(query.prefix), "conditions": as_jsonb(conditions), "now": now}


def _range(prefix: Sequence[str]) -> dict[str, Any]:
    """Return where the namespaces that begin with a prefix begin and end; none begins between a label and label+U+1."""
    labels = _escape_all(prefix)
    return {"prefix": labels, "beyond": [*labels[:-1], labels[-1] + "\x01"] if labels else None}


def _common_prefix(patterns: Sequence[NamespacePattern]) -> list[str]:
    """Return labels that all namespaces begin with which fit the patterns."""
    longest: list[str] = []
    for pattern in patterns:
        labels = list(pattern.labels)
        fixed = [] if pattern.at_end else labels[: labels.index(WILDCARD)] if WILDCARD in labels else labels
        longest = max(longest, fixed, key=len)
    return longest


def _escape_all(labels: Sequence[str]) -> list[str]:
    return [escape(label) for label in labels]


def _unescape_all(labels: Sequence[str]) -> list[str]:
    return [unescape(label) for label in labels]


delete_expired = Statement[()](_SQL["delete_expired"])
erase_label = Statement[str](_SQL["erase_label"])
