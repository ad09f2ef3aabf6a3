"""The index that recall searches: episodes, facts and the words of both, written by the nights.

A document is an episode or a fact, and has a number. A posting is one word of one document: (word, scope, ref), where
`ref` packs the word's weight and the document's number. A scope is whom documents belong to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from consolidator.database.partitions import Connection
from consolidator.models.index import EpisodeRow, IndexedFactRow
from consolidator.store.queries import execute, fetch_all, fetch_column, fetch_one, fetch_value, load

MAX_DOCUMENTS = 2000  # of one word in one scope, the heaviest first
COUNT_LIMIT = 20_000  # documents up to which the documents with a word are counted
MANY_SCOPES = 64  # above this number a query does not search each scope by itself
_DOCUMENT_MASK = (1 << 46) - 1  # the bits of a ref that are its document's number (memory/recall/postings.py)
_SQL = load("search/index")
_COPY_RECORD = np.dtype(
    [("n", ">i2"), ("a", ">i4"), ("word", ">i8"), ("b", ">i4"), ("scope", ">i8"), ("c", ">i4"), ("ref", ">i8")]
)
_COPY_HEADER, _COPY_TRAILER = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_COUNTS = ("turns", "turn_words", "facts", "fact_words")

Posting = tuple[int, int, int]  # word, scope, ref; a plain tuple, since a night makes hundreds of thousands


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Whom documents belong to: an agent, and a project or peer of it unless they are the agent's own."""

    agent: str
    project: str | None = None
    peer: str | None = None

    @property
    def number(self) -> int:
        """The number of the scope in the index: a hash of its names, so that no table has to assign it."""
        name = "\x1f".join("\x00" if part is None else part for part in (self.agent, self.project, self.peer))
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


@dataclass(slots=True)
class ScopeCounts:
    """By how much documents make a scope larger or smaller."""

    turns: int = 0
    turn_words: int = 0
    facts: int = 0
    fact_words: int = 0

    def add(self, other: ScopeCounts) -> None:
        """Add the counts of another document or scope."""
        self.turns += other.turns
        self.turn_words += other.turn_words
        self.facts += other.facts
        self.fact_words += other.fact_words


@dataclass(frozen=True, slots=True)
class ScopeSizeRow:
    """The size of one scope."""

    scope: int
    turns: int
    turn_words: int
    facts: int
    fact_words: int


@dataclass(frozen=True, slots=True)
class CorpusSums:
    """The scopes that a query may read, and their size together."""

    scopes: list[int]
    turns: int
    turn_words: int
    facts: int
    fact_words: int


@dataclass(frozen=True, slots=True)
class FactExtentRow:
    """How many facts a scope has, and how many words they have."""

    scope: int
    facts: int
    fact_words: int


@dataclass(frozen=True, slots=True)
class EpisodeHeadRow:
    """A session's last episode, and a new block of numbers."""

    session_id: str
    last_id: int | None
    last_seq: int | None
    block: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """An episode as recall shows it."""

    id: int
    session_id: str
    seq: int
    role: str
    speaker: str | None
    text: str  # at most 2,000 characters of it
    occurred_at: datetime
    origin: str | None
    project: str | None
    peer: str | None


@dataclass(frozen=True, slots=True)
class ProvenFactRow:
    """A fact as recall shows it."""

    number: int
    id: str
    sentence: str
    kind: str
    trust: str
    agent: str
    project: str | None
    peer: str | None
    valid_from: datetime
    valid_to: datetime | None
    sessions: int
    recalled: int
    proofs: list[tuple[str, int]]  # [session id, seq] of every turn that proves it


@dataclass(frozen=True, slots=True)
class UnindexedFactRow:
    """A fact that the index lacks."""

    id: str
    agent: str
    project: str | None
    peer: str | None
    level: str
    sentence: str


@dataclass(frozen=True, slots=True)
class NumberedFactRow:
    """A fact, and its number in the index."""

    id: str
    number: int


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
    sentence: str
    agent: str
    project: str | None
    peer: str | None
    level: str


@dataclass(frozen=True, slots=True)
class DocumentTotals:
    """How many documents are indexed."""

    turns: int
    facts: int


async def load_episode_heads(conn: Connection, sessions: Sequence[str]) -> dict[str, EpisodeHeadRow]:
    """Return the last episode of each session, and a new block of numbers for its next ones."""
    rows = await fetch_all(conn, EpisodeHeadRow, _SQL["episode_heads"], {"sessions": list(sessions)})
    return {row.session_id: row for row in rows}


async def save_episodes(conn: Connection, episodes: Sequence[EpisodeRow]) -> None:
    """Store episodes."""
    values = {
        "ids": [episode.id for episode in episodes],
        "sessions": [episode.session_id for episode in episodes],
        "seqs": [episode.seq for episode in episodes],
        "scopes": [episode.scope for episode in episodes],
        "roles": [episode.role for episode in episodes],
        "speakers": [episode.speaker for episode in episodes],
        "texts": [episode.text for episode in episodes],
        "times": [episode.occurred_at for episode in episodes],
    }
    await execute(conn, _SQL["save_episodes"], values)


async def add_postings(conn: Connection, postings: Iterable[Posting]) -> None:
    """Add postings, in the order of the index."""
    ordered = np.array(sorted(postings), dtype=np.int64)
    if not len(ordered):
        return
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


async def add_counts(conn: Connection, counts: Mapping[SearchScope, ScopeCounts]) -> None:
    """Record by how much scopes grew or shrank; it only adds rows, so it waits for nobody."""
    if not counts:
        return
    values: dict[str, list[Any]] = {
        "scopes": [scope.number for scope in counts],
        "agents": [scope.agent for scope in counts],
        "projects": [scope.project for scope in counts],
        "peers": [scope.peer for scope in counts],
    }
    for name in _COUNTS:
        values[name] = [getattr(count, name) for count in counts.values()]
    await execute(conn, _SQL["add_counts"], values)


async def subtract_counts(conn: Connection, agent: str, counts: Mapping[int, ScopeCounts]) -> None:
    """Record by how much an agent's scopes, given by their numbers, shrank."""
    values: dict[str, Any] = {"agent": agent, "scopes": list(counts)}
    for name in _COUNTS:
        values[name] = [-getattr(count, name) for count in counts.values()]
    await execute(conn, _SQL["subtract_counts"], values)


async def compact_counts(conn: Connection, agent: str) -> None:
    """Sum the recorded changes of an agent's scopes; the caller holds the agent's lock."""
    await execute(conn, _SQL["compact_counts"], {"agent": agent})


async def load_corpus(conn: Connection, *, agent: str | None, project: str | None, peer: str | None) -> CorpusSums:
    """Return the scopes that a query may read, the largest first, and their size together."""
    values = {"agent": agent or None, "project": project or None, "peer": peer or None}
    sizes = await fetch_all(conn, ScopeSizeRow, _SQL["scopes"], values)
    totals = {name: sum(getattr(size, name) for size in sizes) for name in _COUNTS}
    return CorpusSums([size.scope for size in sizes], **totals)


async def search_words(conn: Connection, words: Sequence[int], scopes: Sequence[int]) -> list[tuple[int, bytes, int]]:
    """Return (word, refs as big-endian 64-bit numbers, documents with the word) for each word and scope.

    Rows are plain tuples: a query has hundreds of them, each with up to 16 kB of refs that numpy reads.
    """
    many = len(scopes) > MANY_SCOPES
    limit = 2 * MAX_DOCUMENTS if many else max(MAX_DOCUMENTS // max(len(scopes), 1), 200)
    values = {"words": list(words), "scopes": list(scopes), "limit": limit, "count_limit": COUNT_LIMIT}
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(_SQL["search_wide" if many else "search"], values)
        return await cursor.fetchall()


async def load_fact_extents(conn: Connection, agent: str, scopes: Sequence[int]) -> dict[int, FactExtentRow]:
    """Return how many facts, and words of facts, each of an agent's scopes has; scopes without any are left out."""
    rows = await fetch_all(conn, FactExtentRow, _SQL["fact_extents"], {"agent": agent, "scopes": list(scopes)})
    return {row.scope: row for row in rows}


async def load_fact_ids(conn: Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Return the ids of facts by their numbers in the index."""
    rows = await fetch_all(conn, NumberedFactRow, _SQL["fact_ids"], {"numbers": list(numbers)})
    return {row.number: row.id for row in rows}


async def is_rebuilding(conn: Connection) -> bool:
    """Tell whether the index is being rebuilt, so that a search may miss documents."""
    return bool(await fetch_value(conn, _SQL["is_rebuilding"]))


async def load_turns(conn: Connection, numbers: Sequence[int]) -> list[TurnRow]:
    """Return episodes by their numbers."""
    return await fetch_all(conn, TurnRow, _SQL["turns"], {"numbers": list(numbers)})


async def load_facts(conn: Connection, numbers: Sequence[int]) -> list[ProvenFactRow]:
    """Return facts by their numbers in the index, with the turns that prove them; superseded facts are left out."""
    return await fetch_all(conn, ProvenFactRow, _SQL["facts"], {"numbers": list(numbers)})


async def load_outdated_facts(
    conn: Connection, agent: str, ids: Sequence[str] | None, limit: int
) -> list[IndexedFactRow]:
    """Return what the index has of an agent's facts, or of those with `ids`, and should not have any more."""
    if ids is None:
        return await fetch_all(conn, IndexedFactRow, _SQL["outdated_facts"], {"agent": agent, "limit": limit})
    return await fetch_all(conn, IndexedFactRow, _SQL["outdated_among"], {"ids": list(ids), "limit": limit})


async def load_unindexed_facts(
    conn: Connection, agent: str, ids: Sequence[str] | None, limit: int
) -> list[UnindexedFactRow]:
    """Return an agent's facts, or those with `ids`, that the index lacks."""
    if ids is None:
        return await fetch_all(conn, UnindexedFactRow, _SQL["unindexed_facts"], {"agent": agent, "limit": limit})
    return await fetch_all(conn, UnindexedFactRow, _SQL["unindexed_among"], {"ids": list(ids), "limit": limit})


async def delete_facts(conn: Connection, ids: Sequence[str]) -> None:
    """Remove facts and their vectors from the index; their postings are removed by `remove_postings`."""
    await execute(conn, _SQL["delete_facts"], {"ids": list(ids)})


async def save_facts(conn: Connection, facts: Sequence[tuple[UnindexedFactRow, int]]) -> dict[str, int]:
    """Enter (fact, scope) into the index; return the number of each fact by its id."""
    values = {
        "ids": [fact.id for fact, _ in facts],
        "agents": [fact.agent for fact, _ in facts],
        "scopes": [scope for _, scope in facts],
        "sentences": [fact.sentence for fact, _ in facts],
    }
    return {row.id: row.number for row in await fetch_all(conn, NumberedFactRow, _SQL["save_facts"], values)}


async def count_recalls(conn: Connection, fact_ids: Sequence[str], now: datetime) -> None:
    """Count that facts were recalled; a fact that another transaction has locked is skipped."""
    await execute(conn, _SQL["count_recalls"], {"ids": list(fact_ids), "now": now})


async def remove_turns(
    conn: Connection, session: str, limit: int, *, upto: int | None = None, before: datetime | None = None
) -> list[RemovedTurnRow]:
    """Delete and return at most `limit` episodes of a session, if given only those up to a seq and before a time."""
    values = {"session": session, "upto": upto, "before": before, "limit": limit}
    return await fetch_all(conn, RemovedTurnRow, _SQL["remove_turns"], values)


async def clear(conn: Connection, *, vectors: bool) -> None:
    """Delete postings and sizes, which can be rebuilt, and all vectors, or without `vectors` the orphaned ones only."""
    await execute(conn, _SQL["clear"])
    await execute(conn, _SQL["clear_vectors" if vectors else "delete_orphaned_vectors"])


async def list_agents(conn: Connection) -> list[str]:
    """Return the agents whose facts are or should be indexed."""
    return await fetch_column(conn, _SQL["agents"])


async def list_sessions(conn: Connection) -> list[str]:
    """Return the sessions that have episodes."""
    return await fetch_column(conn, _SQL["sessions"])


async def lock_turns(conn: Connection, session: str, *, after: int, limit: int) -> list[ScopedTurnRow]:
    """Return episodes of a session after a seq, locked so that nobody removes them."""
    return await fetch_all(
        conn, ScopedTurnRow, _SQL["lock_turns"], {"session": session, "after": after, "limit": limit}
    )


async def load_indexed_facts(conn: Connection, agent: str, *, after: int, limit: int) -> list[ScopedFactRow]:
    """Return an agent's indexed facts after a number."""
    return await fetch_all(conn, ScopedFactRow, _SQL["indexed_facts"], {"agent": agent, "after": after, "limit": limit})


async def move_documents(conn: Connection, kind: str, scopes: Mapping[int, int]) -> None:
    """Move documents to other scopes; `scopes` are by document number."""
    if scopes:
        await execute(conn, _SQL[f"move_{kind}s"], {"numbers": list(scopes), "scopes": list(scopes.values())})


async def count_documents(conn: Connection) -> DocumentTotals:
    """Return how many episodes and facts are indexed."""
    totals = await fetch_one(conn, DocumentTotals, _SQL["count_documents"])
    assert totals is not None
    return totals
