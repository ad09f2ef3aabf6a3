"""Sessions' digests, and the salt of the hashes in them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database.jsonb import as_jsonb
from consolidator.database.partitions import Connection
from consolidator.models.digest import DigestRow
from consolidator.store.queries import Rows, execute_each, fetch_all, fetch_value, load, row_values

_SQL = load("calls/digests")


async def load_salt(conn: Connection) -> bytes:
    """Return the salt of this database's hashes; the first call creates it."""
    while (salt := await fetch_value(conn, _SQL["salt"], {"salt": secrets.token_bytes(16)})) is None:
        continue  # another transaction is just creating it
    return bytes(salt)


async def get_each(conn: Connection, sessions: Sequence[str]) -> dict[str, DigestRow]:
    """Return the digests of those sessions that have one, by session."""
    rows = await fetch_all(conn, DigestRow, _SQL["get_each"], {"sessions": list(sessions)})
    return {row.session_id: row for row in rows}


async def save(conn: Connection, rows: Sequence[DigestRow]) -> None:
    """Replace sessions' digests; in order of session, so that two runs cannot deadlock."""
    values = [row_values(row) | {"summary": as_jsonb(row.summary)} for row in rows]
    await execute_each(conn, _SQL["save"], sorted(values, key=lambda row: str(row["session_id"])))


@dataclass(frozen=True, slots=True)
class DigestTerms:
    """The texts of what a digest counts."""

    session_id: str
    terms: bytes  # zlib JSON: hash -> text


@dataclass(frozen=True, slots=True)
class DigestQuotes:
    """What the calls of a digest were given."""

    session_id: str
    seqs: bytes  # int64: the event of each quote
    quotes: bytes  # zlib JSON


get_terms = Rows[DigestTerms, Sequence[str]](DigestTerms, _SQL["terms"])
get_quotes = Rows[DigestQuotes, Sequence[str]](DigestQuotes, _SQL["quotes"])
