"""Agents: the defaults of their sessions, read by whoever reaches the agent, changed by administrators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consolidator.database import Database
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound, UsageError
from consolidator.models.agent import AUTO, AgentRow, AgentVersionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.agent_defaults import change_defaults, defaults_of
from consolidator.runtime.session.budget import check_cap
from consolidator.store.sessions import agents

_MAX_NAME_LENGTH = 200


async def list_agents(database: Database, *, limit: int = 100, viewer: Viewer = OWNER) -> list[AgentRow]:
    """Return the agents that have defaults, by name."""
    viewer.check_may("read")
    async with database.connection() as conn:
        return await agents.list_all(conn, only=viewer.agent, limit=limit)


async def get_agent(database: Database, name: str, *, viewer: Viewer = OWNER) -> AgentRow:
    """Return an agent's defaults. Raises NotFound where it has none."""
    viewer.check_may("read")
    async with database.connection() as conn:
        agent = await agents.get(conn, name) if viewer.agent in (None, name) else None
    if agent is None:
        raise _not_found(name)
    return agent


async def list_agent_versions(
    database: Database, name: str, *, limit: int = 20, viewer: Viewer = OWNER
) -> list[AgentVersionRow]:
    """Return the versions of an agent's defaults, the latest first, also of one that was deleted; NotFound for none."""
    viewer.check_may("read")
    async with database.connection() as conn:
        versions = await agents.list_versions(conn, name, limit) if viewer.agent in (None, name) else []
    if not versions:
        raise _not_found(name)
    return versions


async def change_agent(
    database: Database, name: str, changes: Mapping[str, Any], *, viewer: Viewer = OWNER
) -> AgentRow:
    """Change an agent's defaults, or set the first ones; None unsets one. Sessions that exist keep what they have.

    What differs becomes a new version. Raises UsageError for what no session could run with, and Forbidden.
    """
    viewer.check_may("admin")
    if not name.strip() or len(name) > _MAX_NAME_LENGTH or escape(name) != name:
        raise UsageError(f"{name[:80]!r} is no name of an agent")
    now = database.clock.now()
    async with database.transaction() as conn:
        agent = await agents.lock(conn, name, now=now)
        assert agent is not None  # it is locked
        defaults = change_defaults(defaults_of(agent), changes)
        if agent.version and defaults == defaults_of(agent):
            return agent
        if defaults.model not in (None, AUTO):
            check_cap(defaults.model, defaults.max_cost)
        last = await agents.get_last_version(conn, name)
        is_new_template = defaults.template is not None and defaults.template != agent.template
        definition = defaults.as_definition()
        definition["template_version"] = max(last.template_version, agent.template_version) + is_new_template
        return await agents.save(conn, name, last.version + 1, definition, now=now, changed_by=viewer.name)


async def delete_agent(database: Database, name: str, *, viewer: Viewer = OWNER) -> None:
    """Delete an agent's defaults; its sessions and the history of its versions stay. Raises NotFound, and Forbidden."""
    viewer.check_may("admin")
    now = database.clock.now()
    async with database.transaction() as conn:
        agent = await agents.lock(conn, name)
        if agent is None:
            raise _not_found(name)
        await agents.delete(conn, name)
        await agents.add_version(conn, name, agent.version + 1, {}, now=now, changed_by=viewer.name)


def _not_found(name: str) -> NotFound:
    return NotFound(f"no agent named {name!r} has defaults; `consolidator agent show` shows those that have")
