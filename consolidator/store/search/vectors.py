"""Vectors of episodes and facts: plain arrays in a table, compared by pgvector where the server has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString, Self

import numpy as np
import psycopg
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format

from consolidator.database.partitions import Connection
from consolidator.store.queries import Pairs, StatementEach, execute, fetch_all, fetch_one, load

KINDS = ("fact", "turn")
SAID = "said"  # the turns of persons
EXACT_LIMIT = (
    5_000  # documents up to which a query compares all of its scopes; beyond, it searches an approximate index
)
_SQL = load("search/vectors")
_MAX_DIMENSIONS = {"halfvec": 4000, "vector": 2000}  # that pgvector's index takes of each type
# If few of the nearest are in the query's scopes, the index scan continues, but not over the whole index.
_BOUNDED_SCAN: LiteralString = (
    "set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = 100; "
    "set local hnsw.max_scan_tuples = 5000"
)


@dataclass(frozen=True, slots=True)
class PgvectorRow:
    """The extension as this server has it."""

    schema: str | None  # None: it is available, but not installed
    type: str  # halfvec | vector: what its index holds


@dataclass(frozen=True, slots=True)
class UnembeddedRow:
    """A document without a vector."""

    kind: str  # fact | turn
    number: int
    scope: int
    text: str


@dataclass(frozen=True, slots=True)
class VectorSizesRow:
    """How many vectors a model has made, and their dimensions."""

    documents: int
    size: int | None  # None where there are no vectors


class _RealArray(bytes):
    """A vector as PostgreSQL receives a `real[]`: to write it as text takes three times as long."""

    @classmethod
    def pack(cls, vector: Sequence[float]) -> Self:
        """Write a header (dimensions, nulls, type; size and first index of each dimension), then each with its size."""
        real = np.zeros(len(vector), [("size", ">i4"), ("value", ">f4")])
        real["size"], real["value"] = 4, vector
        sizes = (len(vector), 1) if vector else ()
        header = np.array([len(sizes) // 2, 0, psycopg.adapters.types["float4"].oid, *sizes], ">i4")
        return cls(header.tobytes() + real.tobytes())


class _RealArrayDumper(Dumper):
    format = Format.BINARY
    oid = psycopg.adapters.types["float4"].array_oid

    def dump(self, obj: _RealArray) -> bytes:
        return obj


async def ensure_pgvector(conn: Connection) -> str | None:
    """Return the schema of pgvector, and install it where that is possible; None where it is not available."""
    extension = await fetch_one(conn, PgvectorRow, _SQL["pgvector"])
    if extension is None:
        return None
    if extension.schema is None:
        try:
            await conn.execute("select install_pgvector()")
        except psycopg.Error:  # no privilege, or another process is installing it: the next night tries again
            return None
        extension = await fetch_one(conn, PgvectorRow, _SQL["pgvector"])
    return None if extension is None else extension.schema


async def load_unembedded(
    conn: Connection, model: str, limit: int, after: UnembeddedRow | None = None
) -> list[UnembeddedRow]:
    """Return documents that have no vector of this model, after one of them: facts first, then the latest turns."""
    facts: list[UnembeddedRow] = []
    before: int | None = None
    if after is None or after.kind == "fact":
        values = {"model": model, "limit": limit, "after": -1 if after is None else after.number}
        facts = await fetch_all(conn, UnembeddedRow, _SQL["unembedded_facts"], values)
    else:
        before = after.number
    if len(facts) == limit:
        return facts
    turns = {"model": model, "limit": limit - len(facts), "before": before}
    return facts + await fetch_all(conn, UnembeddedRow, _SQL["unembedded_turns"], turns)


async def save_vectors(
    conn: Connection, model: str, documents: Sequence[UnembeddedRow], embedded: Sequence[list[float]]
) -> None:
    """Store the vectors of documents, in place of another model's; documents that were deleted since are skipped."""
    conn.adapters.register_dumper(_RealArray, _RealArrayDumper)  # it may be older than this module
    for kind, save in _SAVE.items():
        rows = [
            {"number": document.number, "vector": _RealArray.pack(vector)}
            for document, vector in zip(documents, embedded, strict=True)
            if document.kind == kind
        ]
        await save(conn, rows, kind=kind, model=model)


async def find_nearest(
    conn: Connection,
    kinds: Sequence[str],
    model: str,
    vector: list[float],
    scopes: Sequence[int],
    *,
    exact: bool,
    limit: int,
) -> dict[str, list[tuple[int, float]]]:
    """Return the documents nearest to a vector and their cosines, by kind; {} where the server has no pgvector.

    Of the kind `said` are the turns of persons.

    With `exact` all documents of the scopes are compared, else an index finds most of the nearest.
    """
    extension = await fetch_one(conn, PgvectorRow, _SQL["pgvector"])
    if extension is None or extension.schema is None:
        return {}
    values = {"scopes": list(scopes), "vector": vector, "limit": limit}
    nearest: dict[str, list[tuple[int, float]]] = {}
    async with conn.transaction(), conn.cursor() as cursor:
        if not exact:
            await cursor.execute(_BOUNDED_SCAN)
        query = _NEAREST if exact else _NEAREST_BY_INDEX
        for kind in kinds:
            parts = _query_parts(extension.schema, extension.type, model, len(vector), "turn" if kind == SAID else kind)
            parts["is_of"] = _IS_SAID if kind == SAID else sql.SQL("true")
            await cursor.execute(query.format(**parts), values)
            nearest[kind] = [(number, 1 - distance) for number, distance in await cursor.fetchall()]
    return nearest


async def update_index(conn: Connection, model: str) -> None:
    """Create the nearest-neighbour index of a model that has many vectors, and drop the index of any other model."""
    sizes = await fetch_one(conn, VectorSizesRow, _SQL["sizes"], {"model": model})
    extension = await fetch_one(conn, PgvectorRow, _SQL["pgvector"])
    if extension is None or sizes is None or sizes.size is None or extension.schema is None:
        return
    await execute(conn, _SQL["drop_other_indexes"], {"model": model, "size": sizes.size})
    if sizes.documents <= EXACT_LIMIT or sizes.size > _MAX_DIMENSIONS[extension.type]:
        return
    for kind in KINDS:
        await execute(conn, _SQL["create_index"], {"model": model, "size": sizes.size, "kind": kind})


def _query_parts(schema_name: str, type_name: str, model: str, size: int, kind: str) -> dict[str, sql.Composable]:
    schema, near = sql.Identifier(schema_name), sql.SQL(type_name)
    return {
        "vector": sql.SQL("{}.vector({})").format(schema, sql.Literal(size)),
        "near": sql.SQL("{}.{}({})").format(schema, near, sql.Literal(size)),
        "schema": schema,
        "size": sql.Literal(size),
        "model": sql.Literal(model),
        "kind": sql.Literal(kind),
    }


_IS_SAID = sql.SQL("exists (select from episode t where t.id = embedding.number and t.role = 'user')")
# Composed, because a type names the size of the model's vectors and the schema of the extension.
_NEAREST = sql.SQL(
    "with mine as materialized (select number, vector from embedding where scope = any(%(scopes)s) "
    "and model = {model} and kind = {kind} and cardinality(vector) = {size} and {is_of}) "
    "select number, vector::{vector} operator({schema}.<=>) %(vector)s::real[]::{vector} as distance from mine "
    "order by distance, number limit %(limit)s"
)
_NEAREST_BY_INDEX = sql.SQL(
    "select number, vector::{near} operator({schema}.<=>) %(vector)s::real[]::{near} as distance from embedding "
    "where model = {model} and cardinality(vector) = {size} and kind = {kind} and scope = any(%(scopes)s) and {is_of} "
    "order by vector::{near} operator({schema}.<=>) %(vector)s::real[]::{near} limit %(limit)s"
)
load_fact_vectors = Pairs[int, list[float], str, Sequence[int]](_SQL["fact_vectors"], "model numbers")
_SAVE = {kind: StatementEach(_SQL[f"save_{kind}"]) for kind in KINDS}
