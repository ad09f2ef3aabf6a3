"""Revisions of the facts: list them, compare a draft with what is believed, promote, discard, restore."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.jobs.consolidation.revisions import compare_revision, promote_revision, restore_revision
from consolidator.store.facts import revisions
from consolidator.store.facts.revisions import RevisionSummaryRow

__all__ = [
    "RevisionSummaryRow",
    "compare_revision",
    "discard_revision",
    "list_revisions",
    "promote_revision",
    "restore_revision",
]


async def list_revisions(database: Database, *, limit: int = 20) -> list[RevisionSummaryRow]:
    """Return revisions, the latest first."""
    async with database.connection() as conn:
        return await revisions.list_revisions(conn, limit)


async def discard_revision(database: Database, revision: int) -> None:
    """Discard a draft with all that it read; raise UsageError if the revision is not a draft."""
    async with database.transaction() as conn:
        await revisions.discard(conn, revision)
