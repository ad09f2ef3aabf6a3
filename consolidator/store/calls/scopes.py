"""Scopes whose digests have changed, agents with something to merge, and what merges keep for the next ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from consolidator.database.partitions import Connection
from consolidator.models.digest import ScopeRow, ScopeStateRow
from consolidator.store.queries import Column, Pairs, Rows, Statement, Value, execute, execute_each, load, row_values

_SQL = load("calls/scopes")


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """One person's part of a scope."""

    agent: str
    project: str  # "" if there is none
    peer: str  # of the lineage root; "" for the owner of the machine


async def touch(conn: Connection, scopes: Sequence[ScopeKey]) -> None:
    """Have scopes merged again: their digests have changed."""
    await execute_each(conn, _SQL["touch"], list(map(row_values, scopes)))


async def mark_merged(conn: Connection, scopes: Sequence[ScopeRow]) -> None:
    """Mark scopes as merged up to their versions."""
    await execute_each(conn, _SQL["mark_merged"], list(map(row_values, scopes)))


async def get_state(conn: Connection, agent: str, project: str, audience: str) -> ScopeStateRow | None:
    """Return what the last merge of a scope left; "" is all projects."""
    values = {"agent": agent, "project": project, "audience": audience}
    async with conn.cursor(binary=True, row_factory=class_row(ScopeStateRow)) as cursor:
        await cursor.execute(_SQL["state"], values)
        return await cursor.fetchone()


async def forget_states(conn: Connection, agent: str, audience: str | None = None) -> None:
    """Delete what merges of an agent left, or of one audience."""
    if audience is None:
        await execute(conn, _SQL["forget"], {"agent": agent})
    else:
        await execute(conn, _SQL["forget_audience"], {"agent": agent, "audience": audience})


list_of_sessions = Rows[ScopeKey, Sequence[str]](ScopeKey, _SQL["of_sessions"])
list_changed = Rows[ScopeRow, str](ScopeRow, _SQL["changed"])
list_of_agent = Rows[ScopeRow, str](ScopeRow, _SQL["of_agent"])
list_projects_of_person = Column[str, str, str](_SQL["projects_of_person"], "agent peer")
save_form = Statement[str, str](_SQL["save_form"], "agent form")


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


get_form = Value[str | None, str](_SQL["form"])
list_agents_with_news = Column[str](_SQL["agents_with_news"], include_undecided=False, fingerprint_version="")
save_state = Statement[ScopeStateRow](_SQL["save_state"], "*")
list_selected = Pairs[str, bytes, str, str](_SQL["selected"], "agent audience")
