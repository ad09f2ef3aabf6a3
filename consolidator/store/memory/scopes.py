"""Scopes whose digests have changed, and agents with something to merge."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.database.partitions import Connection
from consolidator.models.scope import ScopeRow
from consolidator.store.queries import execute, execute_each, fetch_all, fetch_column, load, row_values

_SQL = load("memory/scopes")


async def touch(conn: Connection, scopes: Sequence[tuple[str, str]]) -> None:
    """Have scopes (agent, project) merged again: their digests have changed."""
    await execute_each(conn, _SQL["touch"], [{"agent": agent, "project": project} for agent, project in scopes])


async def list_changed(conn: Connection) -> list[ScopeRow]:
    """Return the scopes whose digests have changed since they were merged."""
    return await fetch_all(conn, ScopeRow, _SQL["changed"])


async def mark_merged(conn: Connection, scope: ScopeRow, *, sessions: int) -> None:
    """Mark a scope as merged up to its version, with so many digests."""
    await execute(conn, _SQL["mark_merged"], row_values(scope) | {"sessions": sessions})


async def list_agents_with_news(
    conn: Connection, *, include_undecided: bool = False, fingerprint_version: str = ""
) -> list[str]:
    """Return the agents with something to merge or reconcile, or `include_undecided` candidates for a model.

    Those whose errors have fingerprints of another version are among them where a `fingerprint_version` is given.
    """
    current = f"{fingerprint_version}:%" if fingerprint_version else "%"
    return await fetch_column(conn, _SQL["agents_with_news"], {"undecided": include_undecided, "current": current})
