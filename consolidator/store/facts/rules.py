"""Rules that people repeat: what waits for a person's word, the quotes of each, and what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.memory_filter import MemoryScope
from consolidator.store.queries import Rows, fetch_all, load

_SQL = load("facts/rules")


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An order in one form of its words, and the sessions in which it was given."""

    agent: str
    level: str
    owner: str  # the project or peer; "" for the agent's own
    subject: str
    predicate: str
    value: str
    words: str  # as it was said last
    last_at: datetime
    roots: list[str]  # lineages of sessions
    accepted: bool  # by a person, as a rule
    imported_of: list[str]  # whose imported logs hold it
    said_here: bool  # whether somebody gave it who is not such a person


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
    values: tuple[str, ...] = ()  # the other forms of its words

    @property
    def position(self) -> list[Any]:
        """Where it is in the list, as JSON."""
        return [self.sessions, self.last_at.isoformat(), self.agent, self.level, self.owner, self.value]

    @property
    def order(self) -> tuple[Any, ...]:
        """What the list is ordered by."""
        return order_of(self.position)


def order_of(position: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a position is ordered by: the most often asked first, then the latest."""
    sessions, last_at, *rest = position
    return (-int(sessions), -datetime.fromisoformat(last_at).timestamp(), *rest)


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


async def load_quotes(
    conn: Connection, repeated: RepeatedRow, predicates: Sequence[str], *, limit: int, of_owner: bool = False
) -> list[RuleQuoteRow]:
    """Return the words of some sessions, or of the owner's, that a proposal rests on; `predicates`: its own's names."""
    values = {name: getattr(repeated, name) for name in RepeatedRow.__dataclass_fields__}
    values |= {"predicates": list(predicates), "values": [repeated.value, *repeated.values], "limit": limit}
    values["of_owner"] = of_owner
    return await fetch_all(conn, RuleQuoteRow, _SQL["quotes"], values)


list_orders = Rows[OrderRow, MemoryScope](OrderRow, _SQL["orders"], "*", level=None, owner=None)
list_believed = Rows[RepeatedRow, MemoryScope](RepeatedRow, _SQL["believed"], "*", level=None, owner=None)
list_accepted = Rows[AcceptedRow, MemoryScope](AcceptedRow, _SQL["accepted"], "*")
