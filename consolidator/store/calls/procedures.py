"""Published procedures and tool profiles, as the nights write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.procedure import ProcedureRow
from consolidator.models.provenance import Provenance
from consolidator.store.queries import (
    Column,
    Outcome,
    Statement,
    execute,
    fetch_all,
    fetch_column,
    fetch_value,
    load,
    row_values,
    upsert_each,
)

_SQL = load("calls/procedures")


async def save_each(conn: Connection, rows: Sequence[ProcedureRow]) -> list[Outcome | Literal["retired"] | None]:
    """Publish procedures in one round trip; return what became of each in the list of those worth telling.

    None if it is not in that list, or is there as it was before.
    """
    values = [row_values(row) | {"title": escape(row.title), "body": as_jsonb(row.body)} for row in rows]
    outcomes = await upsert_each(conn, _SQL["save"], values)
    return [
        outcome if row.worth > 0 else "retired" if outcome == "changed" else None
        for row, outcome in zip(rows, outcomes, strict=True)
    ]


async def retire_others(
    conn: Connection, agent: str, project: str | None, audience: str, *, keep: Sequence[str], provenance: Provenance
) -> int:
    """Retire an audience's procedures of a scope but those to `keep`, by id; return how many were worth telling."""
    values = {"agent": agent, "project": project, "audience": audience, "kept": list(keep), **row_values(provenance)}
    return int(await fetch_value(conn, _SQL["retire_others"], values))


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
    """Retire procedures that all projects have come to share; return how many were worth telling.

    Those of `worthless` only where they are not worth telling in their project either.
    """
    values = {"ids": list(ids), "worthless": list(worthless), **row_values(provenance)}
    return int(await fetch_value(conn, _SQL["withhold"], values))


async def release(conn: Connection, ids: Sequence[str], worthless: Sequence[str], provenance: Provenance) -> int:
    """Publish procedures that all projects share no more; return how many are worth telling.

    Those of `worthless` only where they are worth telling in their project.
    """
    values = {"ids": list(ids), "worthless": list(worthless), **row_values(provenance)}
    return sum(await fetch_column(conn, _SQL["release"], values))


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


list_other_audiences = Column[str, str](str, _SQL["list_other_audiences"])
delete_audience = Statement[str, str](_SQL["delete_audience"], "agent audience")
