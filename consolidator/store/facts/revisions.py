"""Stores revisions of memory: drafts, how far each has read, and which one is current."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.partitions import Connection
from consolidator.errors import UsageError
from consolidator.models.fact import BelievedFact
from consolidator.models.run import RevisionRow
from consolidator.store.calls import scopes
from consolidator.store.queries import Attempt, ColumnSet, OneRow, Rows, Statement, Value, execute, fetch_value, load

_SQL = load("facts/revisions")
FIRST_REVISION = 1  # what the nights read before any draft was promoted; it has no row


@dataclass(frozen=True, slots=True)
class RevisionSummaryRow(RevisionRow):
    """A revision, and how much it has read."""

    sessions: int
    events: int
    candidates: int


async def open_draft(conn: Connection, *, model: str, choice: Mapping[str, Any], now: datetime) -> int:
    """Return the draft of a model over some sessions: the one that was begun, else a new one."""
    await execute(conn, _SQL["lock"])
    values = {"model": model, "choice": Jsonb(dict(choice)), "now": now}
    draft = await fetch_value(conn, _SQL["find_draft"], values)
    return int(await fetch_value(conn, _SQL["create_draft"], values) if draft is None else draft)


async def promote(conn: Connection, revision: int, now: datetime) -> None:
    """Make a draft the current revision; raise UsageError if it is not a draft."""
    await execute(conn, _SQL["lock"])
    await _require_draft(conn, revision)
    await scopes.lock_agents(conn, await list_agents(conn, revision))
    await activate_candidates(conn, revision)
    await execute(conn, _SQL["replace_current"], {"status": "former"})
    await execute(conn, _SQL["set_current"], {"id": revision, "now": now})


async def activate_candidates(conn: Connection, revision: int) -> None:
    """Make a revision's candidates count in place of other revisions' wherever it has read.

    The caller holds the locks of these agents: a merge locks candidates one by one.
    """
    await execute(conn, _SQL["retire"], {"id": revision})
    await execute(conn, _SQL["activate"], {"id": revision})


async def restore(conn: Connection, *, since: datetime) -> int:
    """Undo the last promotion and return the revision that was promoted; it is a draft again.

    Raises UsageError if nothing was promoted, or if the promotion is older than `since`: what it replaced is deleted.
    """
    await execute(conn, _SQL["lock"])
    promoted = await get_current(conn)
    if promoted == FIRST_REVISION:
        raise UsageError("no revision was promoted, so there is none to restore")
    promoted_at = (await get(conn, promoted)).promoted_at
    if promoted_at is not None and promoted_at < since:
        raise UsageError(f"what revision {promoted} replaced is past retention and deleted")
    await scopes.lock_agents(conn, await list_agents(conn, promoted))
    await execute(conn, _SQL["deactivate"], {"id": promoted})
    await execute(conn, _SQL["reactivate_retired"], {"id": promoted})
    former = await fetch_value(conn, _SQL["latest_former"])
    await execute(conn, _SQL["replace_current"], {"status": "draft"})
    await execute(conn, _SQL["clear_promotion"], {"id": promoted})
    if former is not None:
        await execute(conn, _SQL["set_current"], {"id": former, "now": None})
    return promoted


async def discard(conn: Connection, revision: int) -> None:
    """Discard a draft with all that it read; raise UsageError if it is not a draft."""
    await execute(conn, _SQL["lock"])
    await _require_draft(conn, revision)
    await execute(conn, _SQL["discard"], {"id": revision})


async def _require_draft(conn: Connection, revision: int) -> None:
    status = (await get(conn, revision)).status
    if status != "draft":
        raise UsageError(f"revision {revision} is not a draft, it is {status}")


get = OneRow[RevisionRow, int](
    RevisionRow, _SQL["get"], missing="there is no revision {}; `consolidator revisions` lists them"
)
get_current = Value[int](_SQL["current"])
list_revisions = Rows[RevisionSummaryRow, int](RevisionSummaryRow, _SQL["list"])
list_believed = Rows[BelievedFact](BelievedFact, _SQL["believed"])
delete_retired = Statement[datetime](_SQL["delete_retired"])
get_reach = Value[int | None, int, str](_SQL["get_reach"], "revision session")
advance_reach = Attempt[int, str](_SQL["advance_reach"], "revision session")
list_agents = ColumnSet[str, int](_SQL["agents"])
