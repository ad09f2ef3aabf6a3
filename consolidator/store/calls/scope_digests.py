"""The digests that a scope is learned from: its latest ones.

Packed arrays are read in the binary format, which is much cheaper than bytes as text.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, load

_SQL = load("calls/scope_digests")
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


list_people = Column[str, str, int](str, _SQL["people"], "agent limit")
