"""Sessions' digests, and the salt of the hashes in them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.models.digest import DigestRow
from consolidator.store.queries import Column, Pairs, Rows, RowsByKey, StatementEach, fetch_value, load

_SQL = load("calls/digests")


async def load_salt(conn: Connection) -> bytes:
    """Return the salt of this database's hashes; the first call creates it."""
    while (salt := await fetch_value(conn, _SQL["salt"], {"salt": secrets.token_bytes(16)})) is None:
        continue  # another transaction is just creating it
    return bytes(salt)


@dataclass(frozen=True, slots=True)
class DigestQuotes:
    """What the calls of a digest were given."""

    session_id: str
    seqs: bytes  # int64: the event of each quote
    quotes: bytes  # zlib JSON


get_terms = Pairs[str, bytes, Sequence[str]](_SQL["terms"])
get_quotes = Rows[DigestQuotes, Sequence[str]](DigestQuotes, _SQL["quotes"])
MAX_SESSIONS = 2000  # of a scope that it is learned from
MAX_PROJECT_SESSIONS = 1000  # the same of a single project: a night may have news of many
MAX_CALLS = 100_000  # of these sessions together; one session is read, however many it has


@dataclass(frozen=True, slots=True)
class ScopeDigest:
    """What is learned of one digest; arrays are int64."""

    session_id: str
    root_id: str
    project: str  # "" if there is none
    sequence: bytes
    seqs: bytes
    keys: bytes
    counts: bytes
    last_at: float  # seconds since 1970
    peer: str  # of its lineage root: whose session it is; "" for the owner of the machine

    @property
    def arrays(self) -> tuple[bytes, ...]:
        """The columns that are arrays."""
        return self.sequence, self.seqs, self.keys, self.counts


async def list_latest(conn: Connection, agent: str, project: str | None, peer: str | None) -> list[ScopeDigest]:
    """Return the latest digests of an agent in a project ("" is none), or in all of them; of a person, or of all.

    Which ones these are depends on nothing but the digests: when their last events happened, and how many calls they
    have.
    """
    if project is None:
        query = _SQL["latest"] if peer is None else _SQL["latest_of_person"]
    else:
        query = _SQL["latest_of_project"] if peer is None else _SQL["latest_of_person_in_project"]
    most = MAX_SESSIONS if project is None else min(MAX_SESSIONS, MAX_PROJECT_SESSIONS)
    values = {"agent": agent, "project": project, "peer": peer, "sessions": most, "calls": MAX_CALLS}
    async with conn.cursor(binary=True, row_factory=class_row(ScopeDigest)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


save = StatementEach(_SQL["save"], order="session_id")  # replaces the digests of sessions
list_people = Column[str, str, int](_SQL["people"], "agent limit")
get_each = RowsByKey[str, DigestRow, Sequence[str]](DigestRow, _SQL["get_each"])
