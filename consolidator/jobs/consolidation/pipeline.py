"""The night: each session with something new is read up to a safe point, learned from, and stamped, all or nothing.

Every unit commits in windows of bounded size; when all units have ended, each agent with news is merged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation import learning
from consolidator.jobs.consolidation.deciding import Deciding
from consolidator.jobs.consolidation.late_extraction import LateReading
from consolidator.jobs.consolidation.learning import Folded, WindowResult, bounds_of, context_of
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.gather import gather
from consolidator.jobs.indexing import indexer
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.ledger import Ledger, Unit, record
from consolidator.jobs.model.batches import batches_of
from consolidator.jobs.model.calls import Calls, model_of
from consolidator.jobs.model.extraction import BACKGROUND, Extraction, Read
from consolidator.memory.procedures.digest import VERSION, Packed
from consolidator.models.event import Event
from consolidator.settings import Settings
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests, facts, rederive, revisions
from consolidator.store.nights import extraction, runs
from consolidator.store.queries import Row

log = logging.getLogger("consolidator.jobs")
WINDOW = 2000  # events read, learned from and committed at once
SESSIONS, MERGES, LATE = 0, 1, 2  # phases; what came before the model is read before the rest
SafePoint = Callable[[Row, list[Event]], int]
ARRAYS = ("sequence", "seqs", "keys", "counts", "terms", "quotes", "state")


class WatermarkMoved(Exception):
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
        salt = await digests.salt(conn)
    await ledger.begin(found, phase=SESSIONS)
    if started:
        started(len(found))
    if model_of(settings):  # also where batches were switched off since: what is out is paid
        async with batches_of(database, settings) as batches:
            await batches.collect()
    async with calls_of(database, settings, ledger.run) as calls:
        reader = await reader_of(settings, calls)
        if reader is not None:
            await _read_late(ledger, reader, only)
        unit_work = SessionWork(database, settings, salt, ledger.stop, reader)
        await ledger.work(SESSIONS, unit_work.run, unit_work.bury)
        await merge_news(ledger, Deciding(database, calls, settings.model or model_of(settings)))
        report = await report_of(database, ledger.run)
        if settings.batch and calls:
            async with batches_of(database, settings) as batches:
                await batches.submit()
        if (made := await embed_missing(database, settings, ledger.stop, run=ledger.run)) is not None:
            report["vectors"] = made
        report["model"] = {"name": model_of(settings), **await calls.report()} if calls else "none: rules only"
    return await ledger.end(report)


@asynccontextmanager
async def calls_of(database: Database, settings: Settings, run: str) -> AsyncIterator[Calls | None]:
    """Yield a run's calls of models; None where no model is configured."""
    if model_of(settings) is None:
        yield None
        return
    calls = Calls(database, settings, run)
    try:
        yield calls
    finally:
        await calls.close()


async def reader_of(settings: Settings, calls: Calls | None) -> Extraction | None:
    """Return the model that reads for facts of the current generation, where there is one."""
    model = model_of(settings)
    if calls is None or model is None:
        return None
    async with calls.database.connection() as conn:
        return Extraction(calls, model, settings.chunk_tokens, await revisions.current(conn))


async def _read_late(ledger: Ledger, reader: Extraction, only: list[str] | None) -> None:
    """Have the model read what was learned from before there was one; stamps do not move."""
    async with ledger.database.connection() as conn:
        found = await extraction.late(conn)
    chosen = found if only is None else [one for one in found if one in set(only)]
    await ledger.begin([f"model:{one}" for one in chosen], phase=LATE)
    work = LateReading(ledger.database, reader, ledger.stop)
    await ledger.work(LATE, work.run, nothing_to_bury)


async def merge_news(ledger: Ledger, decider: Deciding, *, sweep: bool = False) -> None:
    """Merge every agent with news, in the ledger."""
    async with ledger.database.connection() as conn:
        agents = await digests.agents_with_news(conn, undecided_too=decider.calls is not None)
    await ledger.begin([f"merge:{agent}" for agent in agents], phase=MERGES, again=True)
    await ledger.work(MERGES, lambda units: _merge_unit(decider, ledger.settings, units, sweep=sweep), nothing_to_bury)


async def _merge_unit(decider: Deciding, settings: Settings, units: Sequence[Unit], *, sweep: bool) -> None:
    """Merge one agent, or a few, each in a transaction of its own; `sweep` away what nothing supports any more."""
    database = decider.database
    for unit in units:
        agent = unit.name.removeprefix("merge:")
        await decider.agent(agent)
        async with database.transaction() as conn:
            changes = await merge_agent(conn, agent, run_id=unit.run, now=database.clock.now(), settings=settings)
            if sweep:
                changes.gone("facts or solutions", await rederive.sweep(conn, agent))
                await indexer.index_facts(conn, agent)
            await record(conn, [unit], [runs.UnitProgress(unit.name, done=True)])
            await runs.remark(conn, unit.run, unit.name, changes.line() or None)


async def nothing_to_bury(_unit: str) -> int:
    """A unit that has no events of its own leaves none unlearned."""
    return 0


@dataclass(slots=True)
class SessionWork:
    """How a session's unit is worked on."""

    database: Database
    settings: Settings
    salt: bytes
    stop: asyncio.Event
    reader: Extraction | None = None

    async def run(self, units: list[Unit]) -> None:
        """Read sessions window by window up to their safe points; the windows of a few sessions commit together."""
        waiting = units
        while waiting:
            with suppress(WatermarkMoved):
                done = await self._windows(waiting)
                waiting = [unit for unit in waiting if unit.name not in done]
            if waiting and self.stop.is_set():
                raise Interrupted("asked to stop between two windows of a session")

    async def bury(self, session: str) -> int:
        """Return how many events a session that is given up leaves unlearned."""
        async with self.database.connection() as conn:
            return sum(found["head"] - found["consolidated_to"] for found in await sessions.get_each(conn, [session]))

    async def _windows(self, units: Sequence[Unit]) -> set[str]:
        """Do one window of each session; return the sessions that are done."""
        now = self.database.clock.now()
        windows = await self._read(units, now)
        if self.reader is not None:  # no connection is held while a model is asked
            await gather(*(self._extract(self.reader, window) for window in windows))
        await asyncio.to_thread(self._learn, windows)
        steps = [window.step() for window in windows]
        read = {step.unit for step in steps}
        steps += [
            runs.UnitProgress(unit.name, done=True) for unit in units if unit.name not in read
        ]  # erased meanwhile
        async with self.database.transaction(flushed=False) as conn:  # the run's end is flushed, and this with it
            await commit(conn, [window for window in windows if window.readable], run_id=units[0].run, now=now)
            await record(conn, units, steps)
        return {step.unit for step in steps if step.done}

    async def _read(self, units: Sequence[Unit], now: datetime) -> list[SessionWindow]:
        """Read the next events of some sessions, and how far they may be read."""
        async with self.database.connection() as conn:
            found = await sessions.get_each(conn, [unit.name for unit in units])
            share = WINDOW // len(units)
            spans = [events.Span(s["id"], s["consolidated_to"], s["head"], bounds_of(s)) for s in found]
            read = await events.read_each(conn, spans, limit=share)
            stored = await digests.digests(conn, [session["id"] for session in found])
            folds = [await self._folded(conn, session, stored.get(session["id"])) for session in found]
            before = {} if self.reader is None else await background(conn, found)
        found_windows = []
        safe = safe_point(self.settings, now)
        for session, window, folded in zip(found, read, folds, strict=True):
            last = not window or window[-1].seq >= session["head"]
            upto = safe(session, window) if last else learning.window_end(window)
            readable = [event for event in window if event.seq <= upto]
            found_windows.append(SessionWindow(session, readable, upto, last, folded, before.get(session["id"], [])))
        return found_windows

    async def _extract(self, reader: Extraction, window: SessionWindow) -> None:
        """Have a model read a window; what it cannot read tonight is left for another night."""
        session = window.session
        if session["simulated"] or not window.readable:
            return
        if max(session["extracted_to"], session["pruned_to"]) < session["consolidated_to"]:
            window.cut(session["consolidated_to"])  # what came before it could not be read
            return
        read = await reader.read(context_of(session), window.readable, window.before)
        if read.stopped_before is not None:
            window.cut(read.stopped_before - 1)
        window.read = read.upto(window.upto)

    async def _folded(self, conn: Connection, session: Row, stored: Row | None) -> Folded | None:
        """Return a session's folds; made anew where another version stored them, None where that cannot be."""
        if stored is None or stored["version"] == VERSION:
            return folded_of(stored)
        if session["pruned_to"]:
            return None
        folded = Folded()
        async for learned in windows(conn, session, folded, self.salt, after=0, upto=session["consolidated_to"]):
            folded = learned.folded
        return folded

    def _learn(self, windows: Sequence[SessionWindow]) -> None:
        for window in windows:
            folded = window.folded or Folded()
            window.learned = learning.learn(context_of(window.session), folded, window.readable, self.salt)
            if window.folded is None:  # its beginning is gone: the digest of the older version stays as it is
                window.learned.folded = Folded()
            if window.read is not None:
                window.learned.add_read(window.read)


@dataclass(slots=True)
class SessionWindow:
    """The next events of a session, and what they taught."""

    session: Row
    readable: list[Event]
    upto: int  # the safe point, or where the window ends
    last: bool  # whether nothing is left of the session after it
    folded: Folded | None
    before: list[Event]  # of what was read earlier
    read: Read | None = None  # by a model
    learned: WindowResult | None = None

    def cut(self, upto: int) -> None:
        """End the window earlier, between calls; the rest is left for another night."""
        self.upto = learning.before_open_calls(self.readable, upto)
        self.readable = [event for event in self.readable if event.seq <= self.upto]
        self.last = True

    def step(self) -> runs.UnitProgress:
        """Return what it comes to in the ledger."""
        assert self.learned is not None
        took, dead = len(self.learned.sources), len(self.learned.dead)
        left = self.session["head"] - max(self.upto, self.session["consolidated_to"])
        return runs.UnitProgress(
            self.session["id"],
            done=self.last,
            learned=took,
            nothing=len(self.readable) - took - dead,
            deferred=left if self.last else 0,
            dead=dead,
        )


async def commit(conn: Connection, windows: Sequence[SessionWindow], *, run_id: str, now: datetime) -> None:
    """Commit what windows taught together with their stamps; raise Moved where somebody was faster."""
    spans = [events.Span(w.session["id"], w.session["consolidated_to"], w.upto, bounds_of(w.session)) for w in windows]
    await digests.share_agents(conn, {window.session["agent"] for window in windows})
    if not await sessions.advance(conn, spans):  # it locks the sessions: whoever erases one waits for us
        raise WatermarkMoved
    learned = [(window.session, window.learned) for window in windows if window.learned is not None]
    await save_memory(conn, learned, run_id=run_id)
    await indexer.save_episodes(conn, [(session, one.episodes) for session, one in learned])
    for session, one in learned:
        for seq, told in one.dead.items():
            extractor, _, error = told.partition(": ")
            await runs.dead_letter(
                conn, run_id, session=session["id"], seq=seq, extractor=extractor, error=error, now=now
            )
    await events.stamp(conn, spans, now=now, dead=[list(one.dead) for _, one in learned])
    await extraction.advance(conn, [(w.session["id"], w.session["extracted_to"], w.upto) for w in windows if w.read])


async def save_memory(
    conn: Connection,
    learned: Sequence[tuple[Row, WindowResult]],
    *,
    run_id: str,
    digest: bool = True,
    errors: bool = True,
    candidates: bool = True,
) -> None:
    """Store sessions' digests, errors and candidates, or some of these, and tell their scopes."""
    if digest:
        kept = [(session, one) for session, one in learned if one.folded.packed is not None]
        await digests.save_digests(conn, [_digest_row(session, one) for session, one in kept])
        scopes = sorted({(session["agent"], session["project"] or "") for session, _ in learned})
        await digests.touch_scopes(conn, scopes)
    if errors:
        await digests.save_errors(conn, [(session, r.to_json()) for session, one in learned for r in one.errors])
    if candidates:
        proposed = [asdict(candidate) for _, one in learned for candidate in one.candidates]
        refused = [facts.refused(session, rejected) for session, one in learned for rejected in one.rejected]
        await facts.save_candidates(conn, proposed + refused, run_id=run_id)


def _digest_row(session: Row, learned: WindowResult) -> dict[str, Any]:
    packed = learned.folded.packed
    assert packed is not None
    return {
        "session": session["id"],
        "agent": session["agent"],
        "project": session["project"],
        "last_at": learned.last_at or session["last_event_at"],
        "folds": learning.packed_json(learned.folded.errors),
        "summary": learned.folded.summary,
        **asdict(packed),
    }


async def background(conn: Connection, found: Sequence[Row]) -> dict[str, list[Event]]:
    """Return the last events of some sessions that were read earlier, by session."""
    known = [s for s in found if s["consolidated_to"] > s["pruned_to"]]
    spans = [
        events.Span(s["id"], max(s["consolidated_to"] - BACKGROUND, s["pruned_to"]), s["consolidated_to"], bounds_of(s))
        for s in known
    ]
    read = await events.read_each(conn, spans, limit=BACKGROUND) if spans else []
    return {session["id"]: window for session, window in zip(known, read, strict=True)}


def folded_of(stored: Row | None) -> Folded:
    """Return a session's folds as they were stored; none where this version cannot go on with them."""
    if stored is None or stored["version"] != VERSION:  # the caller makes an older version's folds anew
        return Folded()
    arrays = {name: bytes(stored[name]) for name in ARRAYS}
    packed = Packed(calls=stored["calls"], version=stored["version"], **arrays)
    return Folded(packed, learning.unpacked_json(bytes(stored["folds"])), stored["summary"])


async def windows(
    conn: Connection, session: Row, folded: Folded, salt: bytes, *, after: int, upto: int, safe: SafePoint | None = None
) -> AsyncIterator[WindowResult]:
    """Yield what each window of a session teaches, one fold after another; to its `safe` point where that is asked."""
    bounds = bounds_of(session)
    while after < upto:
        window = await events.read(conn, session["id"], after=after, upto=upto, limit=WINDOW, bounds=bounds)
        if not window:
            return
        last = window[-1].seq
        if safe is not None and last >= upto:
            window = [event for event in window if event.seq <= safe(session, window)]
        if window:
            learned = await asyncio.to_thread(learning.learn, context_of(session), folded, window, salt)
            folded = learned.folded
            yield learned
        after = last


def safe_point(settings: Settings, now: datetime) -> SafePoint:
    """Return the function that says how far a session may be read now, given its last window."""

    def of(session: Row, window: list[Event]) -> int:
        return learning.safe_point(
            window,
            ended=session["status"] == "ended",
            last=min(session["last_occurred_at"], session["last_event_at"]),
            now=now,
            quiet=timedelta(minutes=settings.quiet_minutes),
            abandoned=timedelta(hours=settings.abandoned_hours),
        )

    return of


async def report_of(database: Database, run_id: str) -> dict[str, Any]:
    """Return what the run added and changed, for the ledger."""
    async with database.connection() as conn:
        told = await runs.remarks(conn, run_id)
    return {"memory": {unit.removeprefix("merge:"): note for unit, note in told.items()}}
