"""Locks on agents: one transaction at a time merges an agent, or any number of them learn about it.

Take them before any row lock, in order of agent, so that no two transactions can deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable

from consolidator.database.partitions import Connection
from consolidator.store.queries import execute_each, load

_SQL = load("calls/agent_locks")


async def lock_agent(conn: Connection, agent: str) -> None:
    """Keep other merges of this agent out until the transaction ends."""
    await lock_agents(conn, [agent])


async def lock_agents(conn: Connection, agents: Iterable[str]) -> None:
    """Keep other merges of these agents out until the transaction ends; name all that the transaction will need."""
    await execute_each(conn, _SQL["lock"], [{"agent": agent} for agent in sorted(agents)])


async def lock_agents_shared(conn: Connection, agents: Iterable[str]) -> None:
    """Keep merges of these agents out until the transaction ends, but not others that take this shared lock.

    Take it before a session is locked: a rehearsal holds its agents for long, and appends to a session must not wait.
    """
    await execute_each(conn, _SQL["lock_shared"], [{"agent": agent} for agent in sorted(agents)])
