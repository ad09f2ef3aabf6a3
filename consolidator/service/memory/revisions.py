"""Revisions of the facts: list them, compare a draft with what is believed, promote, discard, restore."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.jobs.consolidation.revisions import compare_revision as compare_revision
from consolidator.jobs.consolidation.revisions import promote_revision as promote_revision
from consolidator.jobs.consolidation.revisions import restore_revision as restore_revision
from consolidator.store.facts import revisions
from consolidator.store.facts.revisions import RevisionSummaryRow as RevisionSummaryRow


async def list_revisions(database: Database, *, limit: int = 20) -> list[RevisionSummaryRow]:
    """Return revisions, the latest first."""
    async with database.connection() as conn:
        return await revisions.list_revisions(conn, limit)


async def discard_revision(database: Database, revision: int) -> None:
    """Discard a draft with all that it read; raise UsageError if the revision is not a draft."""
    async with database.transaction() as conn:
        await revisions.discard(conn, revision)
