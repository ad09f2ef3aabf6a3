"""How large each scope of the search index is, so that a query can weigh its words.

A scope is whom documents belong to. Its size is kept as deltas: writers only add rows, and a merge sums them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.memory_filter import MemoryScope
from consolidator.store.queries import RowsByKey, Statement, execute, fetch_all, load

_SQL = load("search/scope_sizes")
_COUNTS = ("turns", "turn_words", "facts", "fact_words")


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
    has_turns: bool  # whether its turns may be read, too
    turns: int
    turn_words: int
    facts: int
    fact_words: int


@dataclass(frozen=True, slots=True)
class CorpusSums:
    """The scopes that a query may read, and their size together."""

    scopes: list[int]
    turn_scopes: list[int]  # those of them whose turns may be read, too
    turns: int
    turn_words: int
    facts: int
    fact_words: int
    documents: Mapping[int, int]  # turns and facts of each scope


@dataclass(frozen=True, slots=True)
class FactExtentRow:
    """How many facts a scope has, and how many words they have."""

    scope: int
    facts: int
    fact_words: int


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


async def load_corpus(conn: Connection, scope: MemoryScope) -> CorpusSums:
    """Return the scopes that a query may read, the largest first, and their size together.

    For `project_alone` no turns outside of the project; facts that belong to no project may be of its words, too.
    """
    sizes = await fetch_all(conn, ScopeSizeRow, _SQL["scopes"], scope.values())
    with_turns = [size for size in sizes if size.has_turns]
    return CorpusSums(
        [size.scope for size in sizes],
        [size.scope for size in with_turns],
        turns=sum(size.turns for size in with_turns),
        turn_words=sum(size.turn_words for size in with_turns),
        facts=sum(size.facts for size in sizes),
        fact_words=sum(size.fact_words for size in sizes),
        documents={size.scope: size.turns + size.facts for size in sizes},
    )


compact_counts = Statement[str](_SQL["compact_counts"])
load_fact_extents = RowsByKey[int, FactExtentRow, str, Sequence[int]](
    FactExtentRow, _SQL["fact_extents"], "agent scopes"
)
