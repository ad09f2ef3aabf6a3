"""What was derived from sessions: deleted to be derived again, or for good with its session; or compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ulid import ULID

from consolidator.database.partitions import Connection
from consolidator.models.provenance import ErasureRow
from consolidator.store.facts.facts import delete_steers
from consolidator.store.queries import Column, Rows, Statement, Value, execute, fetch_all, fetch_value, load

_SQL = load("memory/derived")
_ALL_REVISIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MatchingSession:
    """A session that fits filters."""

    id: str
    agent: str
    memory: str
    project: str | None


async def delete_derived(
    conn: Connection,
    session: str,
    *,
    after: int,
    digest: bool,
    errors: bool,
    candidates: bool,
    include_models: bool = False,
) -> int:
    """Delete what was derived from a session's events after a seq; return the number of deleted rows.

    What a model read is kept, unless `include_models`: it is read again in a revision of its own.
    """
    deleted = 0
    values = {"session": session, "after": after, "revision": _ALL_REVISIONS if include_models else 0}
    if digest:
        deleted += await execute(conn, _SQL["delete_digest"], values)
    if errors:
        deleted += int(await fetch_value(conn, _SQL["delete_error_records"], values))
    if candidates:
        deleted += int(await fetch_value(conn, _SQL["delete_candidates"], values))
        deleted += await delete_steers(conn, session, after=after)
        await execute(conn, _SQL["reconcile_remaining"], values)
    return deleted


async def delete_unsupported(conn: Connection, agent: str) -> int:
    """Delete facts and solutions that nothing supports any more; return the number of deleted rows."""
    facts = await execute(conn, _SQL["delete_unsupported_facts"], {"agent": agent})
    return facts + await execute(conn, _SQL["delete_unsupported_solutions"], {"agent": agent})


KINDS = ("facts", "procedures", "solutions", "lessons")


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """A fact, procedure, solution or lesson; two with the same id are equal if nothing that matters has changed."""

    id: str
    line: str  # for people
    content: Any  # the rest of what is compared


async def load_published(conn: Connection) -> dict[str, dict[str, PublishedItem]]:
    """Return all that is published, by kind and id."""
    return {kind: {item.id: item for item in await fetch_all(conn, PublishedItem, _SQL[kind])} for kind in KINDS}


list_sessions = Rows[MatchingSession](MatchingSession, _SQL["sessions"])
stamp_events = Value[int, str](_SQL["stamp"], "session")


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A session that goes when one of its ancestors, or itself, is erased."""

    id: str
    agent: str
    memory: str
    project: str | None
    origin: str | None  # "format:name" if it was imported
    kind: str  # root | fork | resume | branch | sub-agent
    events: int  # that are not pruned


async def erase_session(conn: Connection, session: str, *, reason: str, now: datetime) -> int:
    """Erase a session and what was derived from it, and log that; return the number of erased events."""
    values = {"session": session}
    await execute(conn, _SQL["erase_model_facts"], values)
    derived = await delete_derived(
        conn, session, after=0, digest=True, errors=True, candidates=True, include_models=True
    )
    await execute(conn, _SQL["erase_model_calls"], values)
    await execute(conn, _SQL["detach_rest"], values)
    entry = {"id": str(ULID()), "session": session, "derived": derived, "reason": reason, "now": now}
    return int(await fetch_value(conn, _SQL["erase_session"], entry))


list_family = Rows[FamilyMember, Sequence[str]](FamilyMember, _SQL["family"])
list_sessions_of_peer = Column[str, str](_SQL["sessions_of_peer"])
erase_corrections = Statement[str](_SQL["erase_corrections"])
erase_retired_procedures = Statement[str](_SQL["erase_retired_procedures"])
count_erasures = Value[int](_SQL["count"])
list_erasures = Rows[ErasureRow](ErasureRow, _SQL["listing"], limit=50)
