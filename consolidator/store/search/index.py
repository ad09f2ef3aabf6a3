"""The index that recall searches: episodes and facts, each a document with a number, and the words of each.

A posting is one word of one document, as (word, scope, ref); `ref` packs the word's weight and the document's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np

from consolidator.database.partitions import Connection
from consolidator.models.digest import IndexedFactRow, IndexedTurn, RecalledFact, TurnRow
from consolidator.store.queries import (
    Column,
    OneRow,
    Pairs,
    Rows,
    RowsByKey,
    Statement,
    Value,
    execute,
    fetch_all,
    fetch_column,
    fetch_value,
    load,
)

_SQL = load("search/index")


@dataclass(frozen=True, slots=True)
class EpisodeHeadRow:
    """A session's last episode, and a new block of numbers."""

    session_id: str
    last_id: int | None
    last_seq: int | None
    block: int


@dataclass(frozen=True, slots=True)
class UnindexedFactRow:
    """A fact that the index lacks."""

    id: str
    agent: str
    project: str | None
    peer: str | None
    level: str
    text: str  # that is searched: its sentence, predicate and kind


@dataclass(frozen=True, slots=True)
class RemovedTurnRow:
    """What was searched of an episode that was removed."""

    id: int
    scope: int
    speaker: str | None
    text: str


@dataclass(frozen=True, slots=True)
class ScopedTurnRow:
    """An episode with the scope that the index has for it, and its session's agent, project and peer."""

    number: int
    seq: int
    scope: int
    speaker: str | None
    text: str
    agent: str
    project: str | None
    peer: str | None


@dataclass(frozen=True, slots=True)
class ScopedFactRow:
    """A fact with the scope that the index has for it, and whom it belongs to."""

    number: int
    scope: int
    text: str
    agent: str
    project: str | None
    peer: str | None
    level: str


@dataclass(frozen=True, slots=True)
class DocumentTotals:
    """How many documents are indexed."""

    turns: int
    facts: int


async def load_version(conn: Connection) -> int | None:
    """Return the version of the words and texts that the index was made of; None where none was ever recorded."""
    value = await fetch_value(conn, _SQL["version"])
    return None if value is None else int(bytes(value))


async def save_version(conn: Connection, version: int) -> None:
    """Record the version of the words and texts that the index is made of."""
    await execute(conn, _SQL["save_version"], {"value": str(version).encode()})


async def load_turns_of_events(conn: Connection, events: Sequence[tuple[str, int]]) -> list[TurnRow]:
    """Return the episodes of events, given as (session id, seq), that are still kept."""
    values = {"sessions": [session for session, _ in events], "seqs": [seq for _, seq in events]}
    return await fetch_all(conn, TurnRow, _SQL["turns_of_events"], values)


async def save_facts(conn: Connection, facts: Sequence[tuple[UnindexedFactRow, int]]) -> dict[str, int]:
    """Enter (fact, scope) into the index; return the number of each fact by its id."""
    values = {
        "ids": [fact.id for fact, _ in facts],
        "agents": [fact.agent for fact, _ in facts],
        "scopes": [scope for _, scope in facts],
        "texts": [fact.text for fact, _ in facts],
    }
    return await _save_facts(conn, **values)


async def clear(conn: Connection, *, vectors: bool) -> None:
    """Delete postings and sizes, which can be rebuilt, and all vectors, or without `vectors` the orphaned ones only."""
    await execute(conn, _SQL["clear"])
    await execute(conn, _SQL["clear_vectors" if vectors else "delete_orphaned_vectors"])


async def move_documents(conn: Connection, kind: str, scopes: Mapping[int, int]) -> None:
    """Move documents to other scopes; `scopes` are by document number."""
    if scopes:
        await execute(conn, _SQL[f"move_{kind}s"], {"numbers": list(scopes), "scopes": list(scopes.values())})


lock_turns = Rows[ScopedTurnRow, str, int, int](ScopedTurnRow, _SQL["lock_turns"], "session after limit")
load_indexed_facts = Rows[ScopedFactRow, str, int, int](ScopedFactRow, _SQL["indexed_facts"], "agent after limit")
is_rebuilding = Value[bool](_SQL["is_rebuilding"])
is_empty = Value[bool](_SQL["is_empty"])
load_turns = Rows[TurnRow, Sequence[int]](TurnRow, _SQL["turns"])
load_facts = Rows[RecalledFact, Sequence[int]](RecalledFact, _SQL["facts"])
delete_facts = Statement[Sequence[str]](_SQL["delete_facts"])
count_recalls = Statement[Sequence[str], datetime](_SQL["count_recalls"], "ids now")
list_agents = Column[str](_SQL["agents"])
list_sessions = Column[str](_SQL["sessions"])
remove_turns = Rows[RemovedTurnRow, str, int](
    RemovedTurnRow, _SQL["remove_turns"], "session limit", upto=None, before=None
)
count_documents = OneRow[DocumentTotals](DocumentTotals, _SQL["count_documents"])
load_episode_heads = RowsByKey[str, EpisodeHeadRow, Sequence[str]](EpisodeHeadRow, _SQL["episode_heads"])
load_fact_ids = Pairs[int, str, Sequence[int]](_SQL["fact_ids"])
_save_facts = Pairs[str, int](_SQL["save_facts"])
note_announced = Statement[Sequence[str], Sequence[int]](_SQL["note_announced"], "sessions seqs")
save_episodes = Statement[Sequence[IndexedTurn]](_SQL["save_episodes"], "**")
# What the index has of an agent's facts and should not have any more, and facts that it lacks; of some facts alone.
load_outdated_facts = Rows[IndexedFactRow, str, int](IndexedFactRow, _SQL["outdated_facts"], "agent limit")
load_outdated_among = Rows[IndexedFactRow, Sequence[str], int](IndexedFactRow, _SQL["outdated_among"], "ids limit")
load_unindexed_facts = Rows[UnindexedFactRow, str, int](UnindexedFactRow, _SQL["unindexed_facts"], "agent limit")
load_unindexed_among = Rows[UnindexedFactRow, Sequence[str], int](
    UnindexedFactRow, _SQL["unindexed_among"], "ids limit"
)


MAX_DOCUMENTS = 2000  # of one word in one scope, the heaviest first
SAMPLE_SHARE = 31  # one posting in so many is in the index posting_sample, by which words of more documents are counted
SAMPLE_LIMIT = 4000  # postings of a sample that are counted, in all scopes together
WIDE_LIMIT = 20_000  # postings of a word that a query over many scopes reads
MANY_SCOPES = 64  # above this number a query does not search each scope by itself
_DOCUMENT_MASK = (1 << 46) - 1  # the bits of a ref that are its document's number (memory/recall/postings.py)
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
