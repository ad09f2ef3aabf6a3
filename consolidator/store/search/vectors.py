"""Vectors of turns and facts: plain numbers in a table, compared by pgvector where the server has it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, execute, load, row, rows

KINDS = ("fact", "turn")
EXACT = 5_000  # documents up to which all of a query's scopes are compared; beyond, an index finds most of the nearest
_SQL = load("search/vectors")
_Place = sql.Identifier
_MOST = {"halfvec": 4000, "vector": 2000}  # dimensions that pgvector's index takes of each type
# Where few of the nearest are in the scopes that may be read, the index goes on, but not through everything.
_BOUNDED: LiteralString = (
    "set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = 100; "
    "set local hnsw.max_scan_tuples = 5000"
)


async def prepare(conn: Connection) -> str | None:
    """Return the schema of pgvector, installing it where that is possible; None where there is none."""
    found = await row(conn, _SQL["pgvector"])
    if found is None:
        return None
    if found["schema"] is None:
        try:
            await conn.execute("create extension if not exists vector")
        except psycopg.Error:  # the role may not, or another is just doing it: the next night tries again
            return None
        found = await row(conn, _SQL["pgvector"])
    return None if found is None else found["schema"]


async def waiting(conn: Connection, model: str, limit: int) -> list[Row]:
    """Return some documents that have no vector of this model."""
    facts = await rows(conn, _SQL["waiting_facts"], {"model": model, "limit": limit})
    left = limit - len(facts)
    return facts + (await rows(conn, _SQL["waiting_turns"], {"model": model, "limit": left}) if left else [])


async def save(
    conn: Connection, model: str, documents: Sequence[Mapping[str, Any]], found: Sequence[list[float]]
) -> None:
    """Store vectors, in place of another model's; those of documents that have gone meanwhile are let go."""
    for document, vector in zip(documents, found, strict=True):
        values = {"kind": document["kind"], "number": document["number"], "scope": document["scope"]}
        await execute(conn, _SQL[f"save_{document['kind']}"], {**values, "model": model, "vector": vector})


async def nearest(
    conn: Connection, kinds: Sequence[str], model: str, vector: list[float], scopes: Sequence[int], *, exact: bool,
    limit: int,
) -> dict[str, list[int]]:  # fmt: skip
    """Return the numbers of the documents of some kinds nearest to a vector; {} where the server has no pgvector."""
    place = await row(conn, _SQL["pgvector"])
    if place is None or place["schema"] is None:
        return {}
    values = {"scopes": list(scopes), "vector": vector, "limit": limit}
    found: dict[str, list[int]] = {}
    async with conn.transaction(), conn.cursor() as cursor:
        if not exact:
            await cursor.execute(_BOUNDED)
        query = _NEAREST if exact else _NEAREST_BY_INDEX
        for kind in kinds:
            await cursor.execute(query.format(**_parts(place, model, len(vector), kind)), values)
            found[kind] = [number for (number,) in await cursor.fetchall()]
    return found


async def of_facts(conn: Connection, model: str, numbers: Sequence[int]) -> dict[int, list[float]]:
    """Return the vectors of facts by their numbers."""
    found = await rows(conn, _SQL["of_facts"], {"model": model, "numbers": list(numbers)}) if numbers else []
    return {one["number"]: one["vector"] for one in found}


async def index_many(conn: Connection, model: str) -> None:
    """Make the index of nearest neighbours of a model where there are many vectors, and drop that of another model."""
    found = await row(conn, _SQL["sizes"], {"model": model})
    place = await row(conn, _SQL["pgvector"])
    if place is None or found is None or found["size"] is None or place["schema"] is None:
        return
    kept = f"{model}\x1f{found['size']}\x1f{place['type']}"
    mark = hashlib.blake2b(kept.encode(), digest_size=6).hexdigest()
    names = {kind: f"embedding_near_{kind}_{mark}" for kind in KINDS}
    for other in await rows(conn, _SQL["near"]):
        if other["name"] not in names.values():
            await conn.execute(sql.SQL("drop index if exists {}").format(_Place(other["name"])))
    if found["documents"] <= EXACT or found["size"] > _MOST[place["type"]]:
        return
    async with conn.transaction():
        await conn.execute("set local maintenance_work_mem = '512MB'")  # the graph of 250,000 vectors of usual size
        for kind, name in names.items():
            made = _INDEX.format(name=_Place(name), **_parts(place, model, found["size"], kind))
            await conn.execute(made)


def _parts(place: Row, model: str, size: int, kind: str) -> dict[str, sql.Composable]:
    schema, near = _Place(place["schema"]), sql.SQL(place["type"])
    return {
        "vector": sql.SQL("{}.vector({})").format(schema, sql.Literal(size)),
        "near": sql.SQL("{}.{}({})").format(schema, near, sql.Literal(size)),
        "cosine": sql.SQL("{}.{}_cosine_ops").format(schema, near),
        "schema": schema,
        "size": sql.Literal(size),
        "model": sql.Literal(model),
        "kind": sql.Literal(kind),
    }


# Composed, since the type has the size of the model's vectors, and lives where the extension was installed.
_NEAREST = sql.SQL(
    "with mine as materialized (select number, vector from embedding where scope = any(%(scopes)s) "
    "and model = {model} and kind = {kind} and cardinality(vector) = {size}) "
    "select number from mine order by vector::{vector} operator({schema}.<=>) %(vector)s::real[]::{vector}, number "
    "limit %(limit)s"
)
_NEAREST_BY_INDEX = sql.SQL(
    "select number from embedding where model = {model} and cardinality(vector) = {size} and kind = {kind} "
    "and scope = any(%(scopes)s) "
    "order by vector::{near} operator({schema}.<=>) %(vector)s::real[]::{near} limit %(limit)s"
)
_INDEX = sql.SQL(
    "create index if not exists {name} on embedding using hnsw ((vector::{near}) {cosine}) "
    "where model = {model} and cardinality(vector) = {size} and kind = {kind}"
)
