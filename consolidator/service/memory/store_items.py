"""Values that programs keep under a namespace and a key: no events, no evidence, and nothing is learned from them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.models.store_item import (
    GetItem,
    ListNamespaces,
    Operation,
    PutItem,
    ScoredItem,
    SearchItems,
    StoreItemRow,
)
from consolidator.models.viewer import OWNER, Viewer
from consolidator.store.memory import store_items

Answer = StoreItemRow | list[ScoredItem] | list[list[str]] | None
MAX_PLACE_BYTES = 2000  # of a namespace and key, which an index holds
SWEEP = 100  # expired items that a write deletes beside its own


async def run_operations(
    database: Database, operations: Sequence[Operation], *, viewer: Viewer = OWNER
) -> list[Answer]:
    """Do all operations or none, and return the answer of each: reads see what was before the writes among them.

    Of several writes of one item the last one counts. Items belong to no agent, project or peer: raises Forbidden for
    a viewer who is narrowed or lacks the scope, and UsageError for what is no JSON or too long a name.
    """
    viewer.check_unnarrowed()
    viewer.check_may("read")
    puts = {(tuple(put.namespace), put.key): put for put in operations if isinstance(put, PutItem)}
    if puts:
        viewer.check_may("record")
        for put in puts.values():
            _check_put(put)
    answers: list[Answer] = [None] * len(operations)
    async with database.transaction() as conn:
        now = database.clock.now()
        gets = [(place, operation) for place, operation in enumerate(operations) if isinstance(operation, GetItem)]
        for (place, _), row in zip(gets, await store_items.get_items(conn, [get for _, get in gets], now), strict=True):
            answers[place] = row
        for place, operation in enumerate(operations):
            if isinstance(operation, SearchItems):
                answers[place] = await _search(database, conn, operation)
            elif isinstance(operation, ListNamespaces):
                answers[place] = list(await store_items.list_namespaces(conn, operation, now))
        if database.access != "reader":
            await store_items.refresh_items(conn, _list_refreshed(operations, answers), now)
        if puts:
            vectors = [[np.asarray(vector, dtype="<f4").tobytes() for vector in put.vectors] for put in puts.values()]
            await store_items.put_items(conn, list(puts.values()), vectors, now)
            await store_items.delete_expired(conn, now=now, batch=SWEEP)
    return answers


def _check_put(put: PutItem) -> None:
    """Raise UsageError for an item that cannot be kept as it is."""
    if not put.namespace or len("".join([*put.namespace, put.key]).encode("utf-8", "surrogatepass")) > MAX_PLACE_BYTES:
        raise UsageError(f"a namespace has a label, and all its labels with the key at most {MAX_PLACE_BYTES} bytes")
    if put.ttl_minutes is not None and not 0 < put.ttl_minutes <= 60 * 24 * 366 * 100:
        raise UsageError(f"a time to live is in minutes, more than 0, and at most a century, not {put.ttl_minutes}")
    try:
        json.dumps(put.value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the value of {put.key!r} is no JSON: {error}") from error


async def _search(database: Database, conn: Connection, search: SearchItems) -> list[ScoredItem]:
    now = database.clock.now()
    if search.limit <= 0 or search.offset < 0:
        return []
    if search.vector is None:
        return [ScoredItem(row, None) for row in await store_items.search(conn, search, now)]
    ranked = await _rank_by_vectors(conn, search, database)
    rows = await store_items.get_items(conn, [place for _, place in ranked], now)
    return [ScoredItem(row, score) for (score, _), row in zip(ranked, rows, strict=True) if row is not None]


async def _rank_by_vectors(
    conn: Connection, search: SearchItems, database: Database
) -> list[tuple[float | None, store_items.ItemVectorsRow]]:
    """Return the places of the items nearest to a vector, by the nearest of each one's own; those without come last."""
    query = np.asarray(search.vector, dtype="<f4")
    norm = float(np.linalg.norm(query))
    needed = search.offset + search.limit
    scored: list[tuple[float | None, store_items.ItemVectorsRow]] = []
    unscored: list[tuple[float | None, store_items.ItemVectorsRow]] = []
    async for rows in store_items.read_vectors(conn, search, database.clock.now()):
        for row in rows:
            vectors = [vector for vector in row.vectors if len(vector) == query.nbytes]
            place = store_items.ItemVectorsRow(row.namespace, row.key, [])
            if vectors:
                matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
                lengths = np.linalg.norm(matrix, axis=1) * norm
                products = matrix @ query
                cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths != 0)
                scored.append((float(cosines.max()), place))
            elif len(unscored) < needed:
                unscored.append((None, place))
        scored.sort(key=lambda pair: -(pair[0] or 0.0))  # stable: equals stay in the order of the store
        del scored[needed:]
    return [*scored, *unscored][search.offset : needed]


def _list_refreshed(operations: Sequence[Operation], answers: Sequence[Answer]) -> list[StoreItemRow]:
    """Return the items whose time to live begins again, because they were read."""
    refreshed: list[StoreItemRow] = []
    for operation, answer in zip(operations, answers, strict=True):
        if isinstance(operation, GetItem) and operation.refresh and isinstance(answer, StoreItemRow):
            refreshed.append(answer)
        elif isinstance(operation, SearchItems) and operation.refresh and isinstance(answer, list):
            refreshed += [scored.item for scored in answer if isinstance(scored, ScoredItem)]
    return refreshed
