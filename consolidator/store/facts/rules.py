"""Rules that people repeat: what waits for a person's word, the quotes of each, and what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.memory_filter import MemoryScope
from consolidator.store.queries import fetch_all, load

_SQL = load("facts/rules")
_POSITION = ("after_sessions", "after_at", "after_agent", "after_level", "after_owner", "after_value")


@dataclass(frozen=True, slots=True)
class RepeatedRow:
    """What people asked in several sessions, in the same words or about them."""

    agent: str
    level: str
    owner: str  # the project or peer; "" for the agent's own
    subject: str
    predicate: str
    value: str
    fact_id: str | None  # of what is believed already
    words: str  # as it was said last
    sessions: int
    last_at: datetime

    @property
    def position(self) -> list[Any]:
        """Where it is in the list, as JSON."""
        return [self.sessions, self.last_at.isoformat(), self.agent, self.level, self.owner, self.value]


@dataclass(frozen=True, slots=True)
class RuleQuoteRow:
    """A person's words, and where they stand."""

    session_id: str
    origin: str | None
    seq: int
    quote: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class AcceptedRow:
    """A rule that is believed, in the words in which a person accepted it last."""

    id: str  # of the fact
    agent: str
    project: str | None
    rule: str


async def list_repeated(
    conn: Connection,
    scope: MemoryScope,
    *,
    min_sessions: int,
    level: str | None = None,
    owner: str | None = None,
    after: Sequence[Any] | None = None,
    limit: int,
) -> list[RepeatedRow]:
    """Return what was asked in `min_sessions` sessions or more, the most often asked first, those after a position."""
    values = scope.values() | {"level": level, "owner": owner, "min_sessions": min_sessions, "limit": limit}
    values |= dict(zip(_POSITION, after or [None] * len(_POSITION), strict=True))
    return await fetch_all(conn, RepeatedRow, _SQL["repeated"], values)


async def load_quotes(
    conn: Connection, repeated: RepeatedRow, predicates: Sequence[str], *, limit: int
) -> list[RuleQuoteRow]:
    """Return the words of some sessions that a proposal rests on; `predicates`: the names of its own."""
    values = {name: getattr(repeated, name) for name in RepeatedRow.__dataclass_fields__}
    return await fetch_all(
        conn, RuleQuoteRow, _SQL["quotes"], {**values, "predicates": list(predicates), "limit": limit}
    )


async def list_accepted(
    conn: Connection, scope: MemoryScope, *, level: str, owner: str, limit: int
) -> list[AcceptedRow]:
    """Return the rules that a person accepted for an owner, in the order in which they were."""
    values = scope.values() | {"level": level, "owner": owner, "limit": limit}
    return await fetch_all(conn, AcceptedRow, _SQL["accepted"], values)
