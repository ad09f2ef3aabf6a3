"""The documents that recall searches: episodes and facts, each with a number in the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.digest import EpisodeRow, IndexedFactRow
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
class TurnRow:
    """An episode as recall shows it."""

    id: int
    session_id: str
    seq: int
    role: str
    speaker: str | None
    text: str  # at most 2,000 characters of it
    occurred_at: datetime
    announces: bool  # what an agent does next
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
    confidence: str
    trust: str
    valid_from: datetime
    valid_to: datetime | None
    sessions: int
    steers_succeeded: int
    steers_failed: int
    recalled: int
    says_since: bool  # whether its words say since when it is true
    last_used_at: datetime | None  # when it was last said or recalled; None where a person stated it
    proofs: str  # JSON: [session id, seq, further seqs there] of each candidate that proves it
    searched: str  # the text that is indexed


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
load_facts = Rows[ProvenFactRow, Sequence[int]](ProvenFactRow, _SQL["facts"])
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
save_episodes = Statement[Sequence[EpisodeRow]](_SQL["save_episodes"], "**")
# What the index has of an agent's facts and should not have any more, and facts that it lacks; of some facts alone.
load_outdated_facts = Rows[IndexedFactRow, str, int](IndexedFactRow, _SQL["outdated_facts"], "agent limit")
load_outdated_among = Rows[IndexedFactRow, Sequence[str], int](IndexedFactRow, _SQL["outdated_among"], "ids limit")
load_unindexed_facts = Rows[UnindexedFactRow, str, int](UnindexedFactRow, _SQL["unindexed_facts"], "agent limit")
load_unindexed_among = Rows[UnindexedFactRow, Sequence[str], int](
    UnindexedFactRow, _SQL["unindexed_among"], "ids limit"
)
