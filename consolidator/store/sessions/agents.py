"""Agents' defaults, and every version that they ever had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.models.agent import AgentRow, AgentVersionRow, TemplateRow
from consolidator.store.queries import Column, FirstRow, OneRow, Rows, Statement, execute, fetch_one, fetch_row, load

_SQL = load("sessions/agents")


@dataclass(frozen=True, slots=True)
class LastVersion:
    """The highest numbers that an agent's versions and templates ever had."""

    version: int
    template_version: int


async def lock(conn: Connection, name: str, *, now: datetime | None = None) -> AgentRow | None:
    """Lock an agent's row for the transaction and return it; with `now` create it if there is none."""
    if now is not None:
        await execute(conn, _SQL["reserve_name"], {"name": name, "now": now})
    return await fetch_one(conn, AgentRow, _SQL["lock"], {"name": name})


async def save(
    conn: Connection, name: str, version: int, definition: Mapping[str, Any], *, now: datetime, changed_by: str
) -> AgentRow:
    """Store the defaults of a locked agent as its next version; `definition` has all that a person sets."""
    values = {**definition, "name": name, "version": version, "now": now}
    values["parameters"] = Jsonb(dict(definition["parameters"]), dumps=dumps)
    saved = await fetch_row(conn, AgentRow, _SQL["save"], values)
    await add_version(conn, name, version, definition, now=now, changed_by=changed_by)
    return saved


async def add_version(
    conn: Connection, name: str, version: int, definition: Mapping[str, Any], *, now: datetime, changed_by: str
) -> None:
    """Add a version to an agent's history; an empty definition says that it was deleted."""
    document = Jsonb(dict(definition), dumps=dumps)
    values = {"name": name, "version": version, "definition": document, "now": now, "changed_by": changed_by}
    await execute(conn, _SQL["add_version"], values)


list_versions = Rows[AgentVersionRow, str, int](AgentVersionRow, _SQL["list_versions"], "name limit")
list_template_names = Column[str, str | None](_SQL["list_template_names"], "only")
list_templates = Rows[TemplateRow, str](TemplateRow, _SQL["list_templates"])
get = FirstRow[AgentRow, str](AgentRow, _SQL["get"])
get_effective = FirstRow[AgentRow, str](AgentRow, _SQL["get_effective"])
delete = Statement[str](_SQL["delete"])


list_all = Rows[AgentRow](AgentRow, _SQL["list_all"], only=None)
get_last_version = OneRow[LastVersion, str](LastVersion, _SQL["last_version"])
