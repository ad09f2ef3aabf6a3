"""Agents' defaults, and every version that they ever had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.models.agent import AgentRow, AgentVersionRow, TemplateRow
from consolidator.store.queries import Column, FirstRow, OneRow, Rows, Statement, execute, fetch_one, load

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
    saved = await _save(conn, definition, name=name, version=version, now=now)
    await add_version(conn, name, version, definition, now=now, changed_by=changed_by)
    return saved


list_versions = Rows[AgentVersionRow, str, int](AgentVersionRow, _SQL["list_versions"], "name limit")
list_template_names = Column[str, str | None](_SQL["list_template_names"], "only")
list_templates = Rows[TemplateRow, str](TemplateRow, _SQL["list_templates"])
get = FirstRow[AgentRow, str](AgentRow, _SQL["get"])
get_effective = FirstRow[AgentRow, str](AgentRow, _SQL["get_effective"])
delete = Statement[str](_SQL["delete"])
list_all = Rows[AgentRow](AgentRow, _SQL["list_all"], only=None)
get_last_version = OneRow[LastVersion, str](LastVersion, _SQL["last_version"])
_save = OneRow[AgentRow, Mapping[str, Any]](AgentRow, _SQL["save"], "*")
# An empty definition says that the agent was deleted.
add_version = Statement[str, int, Mapping[str, Any]](_SQL["add_version"], "name version definition")
