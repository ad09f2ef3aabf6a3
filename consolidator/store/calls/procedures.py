"""Published procedures and tool profiles, as the nights write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from consolidator.database.jsonb import as_jsonb, escape
from consolidator.database.partitions import Connection
from consolidator.models.procedure import ProcedureRow
from consolidator.models.provenance import Provenance
from consolidator.store.queries import Column, Outcome, Rows, Statement, Tuples, UpsertEach, Value, execute, load

_SQL = load("calls/procedures")


async def save_each(conn: Connection, rows: Sequence[ProcedureRow]) -> list[Outcome | Literal["retired"] | None]:
    """Publish procedures in one round trip; return what became of each in the list of those worth telling.

    None if it is not in that list, or is there as it was before.
    """
    return [
        outcome if row.worth > 0 else "retired" if outcome == "changed" else None
        for row, outcome in zip(rows, await _save_each(conn, rows), strict=True)
    ]


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


async def replace_tool_profiles(
    conn: Connection, agent: str, project: str, audience: str, bodies: Mapping[str, Any]
) -> None:
    """Store an audience's profiles of a scope's tools, in place of those it had."""
    scope = {"agent": agent, "project": project, "audience": audience}
    profiles = {escape(tool): as_jsonb(body) for tool, body in bodies.items()}
    await execute(conn, _SQL["save_profiles"], {**scope, "tools": list(profiles), "bodies": list(profiles.values())})
    await execute(conn, _SQL["delete_other_profiles"], {**scope, "kept": list(profiles)})


list_compiled = Rows[ProcedureRow](ProcedureRow, _SQL["list_compiled"])
set_compiled = Statement[str, dict[str, Any] | None](_SQL["set_compiled"], "id compiled")
list_shared = Tuples[tuple[dict[str, Any], float], str, str](_SQL["shared"], "agent audience")
list_other_audiences = Column[str, str](_SQL["list_other_audiences"])
delete_audience = Statement[str, str](_SQL["delete_audience"], "agent audience")
retire_others = Value[int, str, str | None, str, Sequence[str], Provenance](
    _SQL["retire_others"], "agent project audience kept *"
)
withhold = Value[int, Sequence[str], Sequence[str], Provenance](_SQL["withhold"], "ids worthless *")
release = Value[int, Sequence[str], Sequence[str], Provenance](_SQL["release"], "ids worthless *")
_save_each = UpsertEach(_SQL["save"])
