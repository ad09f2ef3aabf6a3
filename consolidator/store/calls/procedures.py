"""Published procedures and tool profiles, as the nights write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.procedure import ProcedureRow
from consolidator.models.provenance import Provenance
from consolidator.store.calls.upserts import Outcome, upsert_all, upsert_each
from consolidator.store.queries import execute, fetch_all, fetch_column, load, row_values

_SQL = load("calls/procedures")


async def save_each(conn: Connection, rows: Sequence[ProcedureRow]) -> list[Outcome | None]:
    """Publish procedures in one round trip; return what was done to each, None if it was published like this before."""
    values = [row_values(row) | {"title": escape(row.title), "body": as_jsonb(row.body)} for row in rows]
    return await upsert_each(conn, _SQL["save"], values)


async def retire_others(
    conn: Connection, agent: str, project: str | None, audience: str, *, keep: Sequence[str], provenance: Provenance
) -> int:
    """Retire an audience's procedures of a scope but those to `keep`, by id; return how many were retired."""
    values = {"agent": agent, "project": project, "audience": audience, "kept": list(keep), **row_values(provenance)}
    return await execute(conn, _SQL["retire_others"], values)


async def replace_withheld(
    conn: Connection, agent: str, project: str, audience: str, rows: Sequence[ProcedureRow]
) -> None:
    """Store an audience's procedures of a project that all projects share, in place of those it had."""
    scope = {"agent": agent, "project": project, "audience": audience}
    ids = [row.id for row in rows]
    if rows:
        columns = {
            "ids": ids,
            "titles": [escape(row.title) for row in rows],
            "supports": [row.support for row in rows],
            "ranks": [row.rank for row in rows],
            "worths": [row.worth for row in rows],
            "bodies": [as_jsonb(row.body) for row in rows],
        }
        await execute(conn, _SQL["save_withheld"], {**scope, **columns})
    await execute(conn, _SQL["delete_other_withheld"], {**scope, "kept": ids})


async def withhold(conn: Connection, ids: Sequence[str], worthless: Sequence[str], provenance: Provenance) -> int:
    """Retire procedures that all projects have come to share; return how many were published.

    Those of `worthless` only where they are not worth telling in their project either.
    """
    values = {"ids": list(ids), "worthless": list(worthless), **row_values(provenance)}
    return await execute(conn, _SQL["withhold"], values)


async def release(
    conn: Connection, ids: Sequence[str], worthless: Sequence[str], provenance: Provenance
) -> list[Outcome]:
    """Publish procedures that all projects share no more; return what was done to each.

    Those of `worthless` only where they are worth telling in their project.
    """
    values = {"ids": list(ids), "worthless": list(worthless), **row_values(provenance)}
    return await upsert_all(conn, _SQL["release"], values)


@dataclass(frozen=True, slots=True)
class _SharedProcedure:
    body: dict[str, Any]
    worth: float


async def list_shared_symbols(conn: Connection, agent: str, audience: str) -> dict[tuple[str, ...], bool]:
    """Return of each procedure that an agent's projects share its symbols, and if it is worth telling an audience."""
    rows = await fetch_all(conn, _SharedProcedure, _SQL["shared"], {"agent": agent, "audience": audience})
    return {tuple(step["symbol"] for step in row.body["steps"]): row.worth > 0 for row in rows}


async def replace_tool_profiles(
    conn: Connection, agent: str, project: str, audience: str, bodies: Mapping[str, Any]
) -> None:
    """Store an audience's profiles of a scope's tools, in place of those it had."""
    scope = {"agent": agent, "project": project, "audience": audience}
    profiles = {escape(tool): as_jsonb(body) for tool, body in bodies.items()}
    await execute(conn, _SQL["save_profiles"], {**scope, "tools": list(profiles), "bodies": list(profiles.values())})
    await execute(conn, _SQL["delete_other_profiles"], {**scope, "kept": list(profiles)})


async def list_other_audiences(conn: Connection, agent: str) -> list[str]:
    """Return for which audiences, other than the owner, something of an agent is published."""
    return await fetch_column(conn, _SQL["list_other_audiences"], {"agent": agent})


async def delete_audience(conn: Connection, agent: str, audience: str) -> None:
    """Delete what an audience has of an agent."""
    await execute(conn, _SQL["delete_audience"], {"agent": agent, "audience": audience})
