"""The night: each session with something new is read up to a safe point, learnt from, and stamped, all or nothing.

Every unit commits in windows of bounded size; when all units have ended, each agent with news is merged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from consolidator.database import Database, Driver
from consolidator.errors import Interrupted
from consolidator.jobs import learning
from consolidator.jobs.learning import Folded, Learnt
from consolidator.jobs.ledger import Ledger, Unit
from consolidator.jobs.merging import merge_agent
from consolidator.memory.digest import VERSION, Packed
from consolidator.memory.facts import SessionContext
from consolidator.models.event import Event
from consolidator.settings import Settings
from consolidator.store import events, memory, runs, sessions
from consolidator.store.queries import Row

log = logging.getLogger("consolidator.jobs")
WINDOW = 2000  # events read, learnt from and committed at once
SESSIONS, MERGES = 0, 1  # phases


class Moved(Exception):
    """Another run has moved the session's watermark since it was read: read again."""


async def consolidate(
    ledger: Ledger, *, only: list[str] | None = None, started: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Consolidate every due session (or `only` some) in a run, with its replicas; return the run's report.

    Raises Interrupted when the ledger is asked to stop: the unit in hand is finished or handed back.
    """
    database, settings = ledger.database, ledger.settings
    async with database.connection() as conn:
        found = [r["id"] for r in await sessions.due(conn)] if only is None else only
        salt = await memory.salt(conn)
    await ledger.begin(found, phase=SESSIONS)
    if started:
        started(len(found))
    unit_work = SessionWork(database, settings, salt, ledger.stop)
    await ledger.work(SESSIONS, unit_work.run, unit_work.bury)
    async with database.connection() as conn:
        agents = await memory.agents_with_news(conn)
    await ledger.begin([f"merge:{agent}" for agent in agents], phase=MERGES)
    await ledger.work(MERGES, lambda unit: merge_unit(database, settings, unit), nothing_to_bury)
    report = await report_of(database, ledger.run)
    return await ledger.end(report)


async def merge_unit(database: Database, settings: Settings, unit: Unit) -> None:
    """Merge one agent."""
    agent = unit.name.removeprefix("merge:")
    async with database.transaction() as conn:
        changes = await merge_agent(conn, agent, run_id=unit.run, now=database.clock.now(), settings=settings)
        await unit.record(conn, done=True)
        await conn.execute(
            "update claim set error = %s where run_id = %s and unit = %s", [changes.line() or None, unit.run, unit.name]
        )


async def nothing_to_bury(_unit: str) -> int:
    """A unit that has no events of its own leaves none unlearnt."""
    return 0


@dataclass(slots=True)
class SessionWork:
    """How a session's unit is worked on."""

    database: Database
    settings: Settings
    salt: bytes
    stop: asyncio.Event

    async def run(self, unit: Unit) -> None:
        """Read a session window by window up to its safe point; each window commits by itself."""
        while True:
            with suppress(Moved):
                if await self._window(unit):
                    return
            if self.stop.is_set():
                raise Interrupted("asked to stop between two windows of a session")

    async def bury(self, session: str) -> int:
        """Return how many events a session that is given up leaves unlearnt."""
        async with self.database.connection() as conn:
            found = await sessions.get(conn, session)
        return int(found["head"] - found["consolidated_to"])

    async def _window(self, unit: Unit) -> bool:
        """Do one window; return whether the unit is done."""
        now = self.database.clock.now()
        async with self.database.connection() as conn:
            session = await sessions.get(conn, unit.name)
            after, head = session["consolidated_to"], session["head"]
            bounds = bounds_of(session)
            window = await events.read(conn, unit.name, after=after, upto=head, limit=WINDOW, bounds=bounds)
            folded = folded_of(await memory.digest(conn, unit.name))
        last = not window or window[-1].seq >= head
        upto = self._safe_point(session, window, now) if last else learning.window_end(window)
        readable = [event for event in window if event.seq <= upto]
        learnt = await asyncio.to_thread(learning.learn, context_of(session), folded, readable, self.salt)
        took, dead = len(learnt.sources), len(learnt.dead)
        counts = {
            "learnt": took,
            "nothing": len(readable) - took - dead,
            "deferred": head - max(upto, after) if last else 0,
            "dead": dead,
        }
        async with self.database.transaction(flushed=False) as conn:  # the run's end is flushed, and this with it
            if readable:
                await commit(conn, session, learnt, after=after, upto=upto, run_id=unit.run, now=now)
            await unit.record(conn, done=last, **counts)
        return last

    def _safe_point(self, session: Row, window: list[Event], now: datetime) -> int:
        return learning.safe_point(
            window,
            ended=session["status"] == "ended",
            last=min(session["last_occurred_at"], session["last_event_at"]),
            now=now,
            quiet=timedelta(minutes=self.settings.quiet_minutes),
            abandoned=timedelta(hours=self.settings.abandoned_hours),
        )


async def commit(
    conn: Driver, session: Row, learnt: Learnt, *, after: int, upto: int, run_id: str, now: datetime
) -> None:
    """Commit what a window taught together with its stamp; raise Moved where somebody was faster."""
    await save_memory(conn, session, learnt, run_id=run_id)
    for seq, told in learnt.dead.items():
        extractor, _, error = told.partition(": ")
        await runs.dead_letter(conn, run_id, session=session["id"], seq=seq, extractor=extractor, error=error, now=now)
    await events.stamp(
        conn, session["id"], after=after, upto=upto, now=now, dead=list(learnt.dead), bounds=bounds_of(session)
    )
    if not await sessions.advance(conn, session["id"], after=after, upto=upto):
        raise Moved


async def save_memory(
    conn: Driver,
    session: Row,
    learnt: Learnt,
    *,
    run_id: str,
    digest: bool = True,
    errors: bool = True,
    candidates: bool = True,
) -> None:
    """Store a session's digest, errors and candidates, or some of these, and tell its scope."""
    packed = learnt.folded.packed
    assert packed is not None
    assert learnt.folded.summary is not None
    if digest:
        await memory.save_digest(
            conn,
            session,
            asdict(packed),
            folds=learning.packed_json(learnt.folded.errors),
            summary=learnt.folded.summary,
            last_at=learnt.last_at or session["last_event_at"],
        )
        await memory.touch_scope(conn, session["agent"], session["project"])
    if errors and learnt.errors:
        await memory.save_errors(conn, session, [record.to_json() for record in learnt.errors])
    if candidates and learnt.candidates:
        await memory.save_candidates(conn, [asdict(one) for one in learnt.candidates], run_id=run_id)


def folded_of(stored: Row | None) -> Folded:
    """Return a session's folds as they were stored; none where this version cannot go on with them."""
    if stored is None or stored["version"] != VERSION:
        return Folded()
    arrays = {name: bytes(stored[name]) for name in ("sequence", "seqs", "keys", "counts", "terms", "state")}
    packed = Packed(calls=stored["calls"], version=stored["version"], **arrays)
    return Folded(packed, learning.unpacked_json(bytes(stored["folds"])), stored["summary"])


def context_of(session: Row) -> SessionContext:
    """Return what memory is told of a session."""
    return SessionContext(
        session_id=session["id"],
        root_id=session["root_id"],
        agent=session["agent"],
        project=session["project"],
        peer=session["peer"],
        is_subagent=session["kind"] == "sub-agent",
    )


def bounds_of(session: Row) -> tuple[datetime, datetime]:
    """Return between which times a session's events were ingested, so that other partitions are left alone."""
    return session["created_at"], session["last_event_at"]


async def report_of(database: Database, run_id: str) -> dict[str, Any]:
    """Return what the run added and changed, for the ledger."""
    async with database.connection() as conn:
        cursor = await conn.execute(
            "select unit, error from claim where run_id = %s and phase = %s and error is not null order by unit",
            [run_id, MERGES],
        )
        changes = {unit.removeprefix("merge:"): told for unit, told in await cursor.fetchall()}
    return {"memory": changes}
