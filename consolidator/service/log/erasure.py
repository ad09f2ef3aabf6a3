"""Erases a person's or a session's log and what was learned from it, or all that is kept on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.database.embedded.binaries import remove_unused_copies
from consolidator.errors import NotFound, UsageError
from consolidator.jobs.indexing.indexer import forget_turns, index_facts
from consolidator.jobs.merging.agent_merge import lock_lessons, merge_agent
from consolidator.jobs.merging.warning_file import write_warnings
from consolidator.models.provenance import ErasureRow
from consolidator.runtime.turn.sub_agents import cancel_sub_agent
from consolidator.service.credentials import TOKEN_FILE
from consolidator.settings import PATH_VARIABLE, Settings, config_path
from consolidator.store.calls import scopes
from consolidator.store.memory import derived, lessons, store_items
from consolidator.store.memory.derived import FamilyMember
from consolidator.store.sessions import lineage, projects, sessions


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What would be erased, for a person to confirm."""

    sessions: list[FamilyMember]
    named_ids: list[str]  # the sessions that a person named, by id or by peer
    peer: str | None = None  # set if they were named by peer

    @property
    def events(self) -> int:
        """How many events the sessions have."""
        return sum(session.events for session in self.sessions)


async def plan_erasure(database: Database, *, session: str | None = None, peer: str | None = None) -> ErasurePlan:
    """Return what erasing a session or a peer would remove; raise NotFound if there is no such session."""
    async with database.connection() as conn:
        ids = (
            [await sessions.find_session_id(conn, session)]
            if session
            else await derived.list_sessions_of_peer(conn, peer or "")
        )
        if not ids:
            raise NotFound(f"there is no session with peer {peer!r}")
        return ErasurePlan(await derived.list_family(conn, ids), ids, peer)


async def erase_sessions(database: Database, settings: Settings, plan: ErasurePlan, *, reason: str) -> dict[str, Any]:
    """Erase the planned sessions with what was derived from them, all or nothing, and merge what remains."""
    async with database.connection() as conn:
        at_work = await lineage.list_unfinished_among(conn, [session.id for session in plan.sessions])
    for sub_agent in at_work:  # its parent, which may stay, learns of its end and what it cost
        await cancel_sub_agent(database, sub_agent, "it was erased")

    now = database.clock.now()
    erased_events = 0
    async with database.transaction() as conn:
        # The plan may be minutes old: descendants that were added since are erased too.
        named_ids = await derived.list_sessions_of_peer(conn, plan.peer) if plan.peer else plan.named_ids
        planned = await derived.list_family(conn, named_ids)
        agents = sorted({name for session in planned for name in (session.agent, session.memory)})
        await scopes.lock_agents(conn, agents)
        await sessions.lock(conn, [session.id for session in await derived.list_family(conn, named_ids)])
        family = await derived.list_family(conn, named_ids)
        changed = await scopes.list_of_sessions(conn, [session.id for session in family])

        for session in family:
            erased_events += await derived.erase_session(conn, session.id, reason=reason, now=now)

        # Lock in the same order as the nights do, so that there is no deadlock.
        await scopes.touch(conn, changed)
        for session in family:
            while await forget_turns(conn, session.memory, session.id):
                pass

        items = 0
        if plan.peer:
            await derived.erase_corrections(conn, plan.peer)
            items = await store_items.erase_label(conn, plan.peer)

        await lock_lessons(conn, agents)
        for agent in agents:
            await merge_agent(conn, agent, run_id=None, cause="erasure", now=now, settings=settings)
            await derived.erase_retired_procedures(conn, agent)
            await derived.delete_unsupported(conn, agent)
            await index_facts(conn, agent)

        for scope in changed:
            await lessons.delete_retired(conn, scope.peer, scope.project)
        await projects.forget_unused(conn)

    await write_warnings(database, settings.home)
    return {"sessions": len(family), "events": erased_events, "store_items": items}


async def list_erasures(database: Database, *, limit: int = 50) -> list[ErasureRow]:
    """Return what was erased, when and why, the latest first."""
    async with database.connection() as conn:
        return await derived.list_erasures(conn, limit=limit)


# What consolidator itself keeps in its home; anything else there is somebody else's.
_OWN = ("hooks", "install", "postgres", "rules", "tokenizer", TOKEN_FILE)


@dataclass(frozen=True, slots=True)
class Everything:
    """What would be erased."""

    home: Path
    data: str  # the directory of the database's cluster
    sessions: int
    events: int
    config: Path | None  # the configuration file, where there is one in its usual place


async def describe_everything(database: Database, settings: Settings) -> Everything:
    """Return what would be erased; raise UsageError where the database is not ours to delete."""
    if database.server is None:
        raise UsageError(
            "the database is one that CONSOLIDATOR_DATABASE_URL names: drop it there (`dropdb`), then remove "
            f"{settings.home}"
        )
    async with database.connection() as conn:
        rows = await conn.execute("select count(*), coalesce(sum(head), 0) from session")
        sessions, events = (int(value) for value in (await rows.fetchone()) or (0, 0))
    return Everything(
        home=settings.home.absolute(),
        data=database.server.info()["data directory"],
        sessions=sessions,
        events=events,
        config=_own_config(),
    )


async def erase_everything(database: Database, settings: Settings) -> list[Path]:
    """Delete the cluster, what else is ours in the home, and the configuration file.

    Returns what is left in the home, which is somebody else's.
    Raises UsageError while another process uses the database.
    """
    server = database.server
    assert server is not None
    await database.close_idle()
    if not await server.delete():
        raise UsageError("another process uses the database: stop `serve`, MCP servers and agents, then try again")
    await asyncio.to_thread(remove_unused_copies)
    home = settings.home.absolute()
    for path in (home / name for name in _OWN):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if (config := _own_config()) is not None:
        config.unlink()
        with suppress(OSError):  # somebody else's files are in it
            config.parent.rmdir()
    left = sorted(home.iterdir()) if home.is_dir() else []
    if home.is_dir() and not home.is_symlink() and not left:
        home.rmdir()
    return left


def _own_config() -> Path | None:
    """Return the configuration file, unless a variable names it: then it is the deployment's."""
    path = config_path()
    return None if os.environ.get(PATH_VARIABLE) or not path.is_file() else path
