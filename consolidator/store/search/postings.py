"""The words of documents: adds, removes and searches postings.

A posting is one word of one document, as (word, scope, ref); `ref` packs the word's weight and the document's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_column, load

MAX_DOCUMENTS = 2000  # of one word in one scope, the heaviest first
SAMPLE_SHARE = 31  # one posting in so many is in the index posting_sample, by which words of more documents are counted
SAMPLE_LIMIT = 4000  # postings of a sample that are counted, in all scopes together
WIDE_LIMIT = 20_000  # postings of a word that a query over many scopes reads
MANY_SCOPES = 64  # above this number a query does not search each scope by itself
_DOCUMENT_MASK = (1 << 46) - 1  # the bits of a ref that are its document's number (memory/recall/postings.py)
_SQL = load("search/postings")
_COPY_RECORD = np.dtype(
    [("n", ">i2"), ("a", ">i4"), ("word", ">i8"), ("b", ">i4"), ("scope", ">i8"), ("c", ">i4"), ("ref", ">i8")]
)
_COPY_HEADER, _COPY_TRAILER = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

Posting = tuple[int, int, int]  # word, scope, ref; a plain tuple, since a night makes hundreds of thousands


async def add_postings(conn: Connection, postings: Iterable[Posting]) -> None:
    """Add postings, in the order of the index."""
    unordered = np.fromiter(chain.from_iterable(postings), dtype=np.int64).reshape(-1, 3)
    if not len(unordered):
        return
    ordered = unordered[np.lexsort((unordered[:, 2], unordered[:, 1], unordered[:, 0]))]
    records = np.zeros(len(ordered), dtype=_COPY_RECORD)
    records["n"], records["a"], records["b"], records["c"] = 3, 8, 8, 8  # the fields of a record, and their bytes
    records["word"], records["scope"], records["ref"] = ordered[:, 0], ordered[:, 1], ordered[:, 2]
    async with conn.cursor() as cursor, cursor.copy(_SQL["copy_postings"]) as copy:
        await copy.write(_COPY_HEADER + records.tobytes() + _COPY_TRAILER)


async def remove_postings(conn: Connection, postings: Iterable[Posting]) -> set[int]:
    """Remove postings; return the numbers of the documents that had any."""
    return await _change_postings(conn, "remove_postings", postings)


async def add_missing_postings(conn: Connection, postings: Iterable[Posting]) -> set[int]:
    """Add the postings that are missing; return the numbers of the documents that they belong to."""
    return await _change_postings(conn, "add_missing_postings", postings)


async def _change_postings(conn: Connection, query: str, postings: Iterable[Posting]) -> set[int]:
    ordered = sorted(postings)
    if not ordered:
        return set()
    words, scopes, refs = zip(*ordered, strict=True)
    values = {"words": list(words), "scopes": list(scopes), "refs": list(refs), "document": _DOCUMENT_MASK}
    return set(await fetch_column(conn, _SQL[query], values))


async def search_words(
    conn: Connection, words: Sequence[int], scopes: Sequence[int], sizes: Mapping[int, int] | None = None
) -> list[tuple[int, bytes, int]]:
    """Return (word, refs as big-endian 64-bit numbers, documents with the word) for each word and scope.

    A word that more documents have than are returned is counted in a sample, and estimated by `sizes`, the documents of
    each scope, where even the sample has too many.
    Rows are plain tuples: a query has hundreds of them, each with up to 16 kB of refs that numpy reads.
    """
    many = len(scopes) > MANY_SCOPES
    limit = 2 * MAX_DOCUMENTS if many else max(MAX_DOCUMENTS // max(len(scopes), 1), 200)
    values: dict[str, Any] = {"words": list(words), "scopes": list(scopes), "limit": limit}
    if many:
        values["count_limit"] = WIDE_LIMIT
    else:
        values["sizes"] = [(sizes or {}).get(scope, 0) for scope in scopes]
        values["share"], values["sample_limit"] = SAMPLE_SHARE, SAMPLE_LIMIT // max(len(scopes), 1)
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(_SQL["search_wide" if many else "search"], values)
        return await cursor.fetchall()
