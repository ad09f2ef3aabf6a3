"""Derives facts again from the log that is kept, by another model or prompt, beside what is believed.

A draft changes nothing. Promoted, its sayings count where it has read; what they took the place of can be restored.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.consolidation.changes import Changes
from consolidator.jobs.consolidation.deciding import Deciding, decide_by_code
from consolidator.jobs.consolidation.learning import bounds_of, context_of
from consolidator.jobs.consolidation.manual_run import Choice, begin
from consolidator.jobs.consolidation.pipeline import calls_of, merge_news, report_of
from consolidator.jobs.consolidation.reconciling import reconcile_agent
from consolidator.jobs.consolidation.units import WINDOW, WatermarkMoved, nothing_to_bury
from consolidator.jobs.ledger import Ledger, Unit, manual_run, record_progress
from consolidator.jobs.model.calls import model_of
from consolidator.jobs.model.extraction import Extraction, Read
from consolidator.memory.facts.extraction import PROMPT
from consolidator.memory.text.similarity import LIKE, likeness
from consolidator.settings import Settings
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests, facts, rederive, revisions
from consolidator.store.nights import runs
from consolidator.store.queries import Row


@dataclass(slots=True)
class RevisionDraft:
    """How sessions are read for a revision, window by window; who is stopped goes on where it was."""

    database: Database
    reader: Extraction
    ledger: Ledger

    async def run(self, units: list[Unit]) -> None:
        """Read sessions up to their stamps."""
        for unit in units:
            done = False
            while not done:
                with suppress(WatermarkMoved):
                    done = await self._window(unit)
                if not done and self.ledger.stop.is_set():
                    raise Interrupted("asked to stop between two windows of a session")

    async def _window(self, unit: Unit) -> bool:
        """Read one window; tell whether it was the session's last."""
        name = unit.name.removeprefix("draft:")
        async with self.database.connection() as conn:
            found = await sessions.get_each(conn, [name])
            reached = await revisions.reached(conn, self.reader.revision, name)
            session = found[0] if found else None
            window = await self._events(conn, session, reached) if session else []
        if session is None or not window:
            async with self.database.transaction() as conn:
                await record_progress(conn, [unit], [runs.UnitProgress(unit.name, done=True)])
            return True
        read = await self.reader.read(context_of(session), window)
        upto = window[-1].seq if read.stopped_before is None else read.stopped_before - 1
        last = read.stopped_before is not None or upto >= session["consolidated_to"]
        read, taken = read.upto(upto), sum(event.seq <= upto for event in window)
        left = session["consolidated_to"] - upto if last else 0
        step = runs.UnitProgress(
            unit.name, done=last, learned=len(read.sources), nothing=taken - len(read.sources), deferred=left
        )
        async with self.database.transaction() as conn:
            if taken:
                await self._save(conn, session, read, unit, reached=reached, upto=upto, after=window[0].seq - 1)
            await record_progress(conn, [unit], [step])
        return last

    async def _events(self, conn: Connection, session: Row, reached: int | None) -> list[Any]:
        after, upto = max(reached or 0, session["pruned_to"]), session["consolidated_to"]
        if after >= upto or session["simulated"]:
            return []
        return await events.read(conn, session["id"], after=after, upto=upto, limit=WINDOW, bounds=bounds_of(session))

    async def _save(
        self, conn: Connection, session: Row, read: Read, unit: Unit, *, reached: int | None, upto: int, after: int
    ) -> None:
        number, name = self.reader.revision, session["id"]
        if not await revisions.reach(conn, number, name, after=after, before=reached, upto=upto):
            raise WatermarkMoved
        proposed = [asdict(candidate) for candidate in read.candidates]
        refused = [facts.refused(session, one) | {"revision": number} for one in read.rejected]
        await facts.save_candidates(conn, proposed + refused, run_id=unit.run, active=False)
        if read.dead:
            told = ", ".join(str(seq) for seq in sorted(read.dead)[:20])
            await runs.set_note(conn, unit.run, unit.name, f"no answer could be had for events {told}")


@dataclass(slots=True)
class Reprocessing:
    """Reads sessions again with a model into a draft of their own, and says what would be different."""

    database: Database
    settings: Settings
    choice: Choice
    model: str
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None

    async def run(self) -> dict[str, Any]:
        """Do it in the ledger, going on where the same command was cut short; return the comparison."""
        choice = self.choice
        told = {**choice.as_json(), "prompt": PROMPT}  # another prompt reads into a draft of its own
        async with self.database.transaction() as conn:
            found = await rederive.chosen(
                conn,
                session=choice.session,
                agent=choice.agent,
                since=choice.since,
                until=choice.until,
                learned_too=True,
            )
            draft = await revisions.draft(conn, model=self.model, choice=told, now=self.database.clock.now())
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        await begin(ledger, {**told, "model": self.model})
        if self.started:
            self.started(len(found))
        report = await logged(ledger, self._read(ledger, [one["id"] for one in found], draft))
        return {**report, **await compare(self.database, draft)}

    async def _read(self, ledger: Ledger, found: list[str], draft: int) -> dict[str, Any]:
        settings = self.settings.model_copy(update={"extract_model": self.model, "batch": False})
        async with calls_of(self.database, settings, ledger.run_id) as calls:
            assert calls is not None
            reader = Extraction(calls, self.model, settings.chunk_tokens, draft)
            await ledger.add_units([f"draft:{one}" for one in found])
            await ledger.run_phase(0, RevisionDraft(self.database, reader, ledger).run, nothing_to_bury)
            return await ledger.finish({"revision": draft, "calls": await calls.report()})


async def logged(ledger: Ledger, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Do a run's work, and say which run it is."""
    async with manual_run(ledger):
        return {"run": ledger.run_id, "job": "backfill", **await work}


async def compare(database: Database, revision: int) -> dict[str, Any]:
    """Return what promoting a draft would add, lose and change of the facts; writes nothing.

    What a model would be asked about near duplicates is not asked, so some additions may turn out to be known.
    """
    async with database.connection() as conn:
        told = await revisions.get(conn, revision)
    async with database.transaction() as conn:
        held = {*await revisions.agents(conn, revision), *await digests.agents_with_news(conn)}
        await digests.lock_agents(conn, held)
        before = (await digests.published(conn))["facts"]
        await revisions.turn_to(conn, revision)
        for agent in sorted(held.intersection(await digests.agents_with_news(conn))):
            await decide_by_code(conn, agent)
            await reconcile_agent(conn, agent, {"run_id": "rehearsal", "now": database.clock.now()}, Changes())
        after = (await digests.published(conn))["facts"]
        raise psycopg.Rollback
    return {"revision": revision, "model": told["model"], "status": told["status"], **_beside(before, after)}


def _beside(before: dict[str, Row], after: dict[str, Row]) -> dict[str, Any]:
    """Return added, lost and changed lines; what is lost and what is like it among the added go side by side."""
    added = {name: row["line"] for name, row in after.items() if name not in before}
    lost = {name: row["line"] for name, row in before.items() if name not in after}
    changed = [
        (before[name]["line"], row["line"])
        for name, row in after.items()
        if name in before and row["line"] != before[name]["line"]
    ]
    by_agent: dict[str, list[str]] = defaultdict(list)
    for name, line in added.items():
        by_agent[line.partition(": ")[0]].append(name)
    for name, line in list(lost.items()):
        options = [(likeness(line, added[one]), one) for one in by_agent[line.partition(": ")[0]] if one in added]
        like, best = max(options, default=(0.0, ""))
        if like > LIKE:
            changed.append((lost.pop(name), added.pop(best)))
    return {
        "kept": len(before) - len(lost) - len(changed),
        "added": sorted(added.values()),
        "lost": sorted(lost.values()),
        "changed": sorted(changed),
    }


async def promote(database: Database, settings: Settings, revision: int, stop: asyncio.Event) -> dict[str, Any]:
    """Believe a draft in place of what was read before, and merge; return the run's report."""
    async with database.transaction() as conn:
        await revisions.promote(conn, revision, database.clock.now())
    return await _merged(database, settings, stop, {"promoted": revision})


async def restore(database: Database, settings: Settings, stop: asyncio.Event) -> dict[str, Any]:
    """Undo the last promotion, and merge; return the run's report."""
    since = database.clock.now() - timedelta(days=settings.retention_days)
    async with database.transaction() as conn:
        taken_back = await revisions.restore(conn, since=since)
    return await _merged(database, settings, stop, {"restored": taken_back})


async def _merged(database: Database, settings: Settings, stop: asyncio.Event, told: dict[str, Any]) -> dict[str, Any]:
    """Merge what has news; killed before it is done, the next night does it."""
    ledger = Ledger(database, settings, "", stop)
    await begin(ledger, told)
    return await logged(ledger, _merge(ledger, told))


async def _merge(ledger: Ledger, told: dict[str, Any]) -> dict[str, Any]:
    settings = ledger.settings
    async with calls_of(ledger.database, settings, ledger.run_id) as calls:
        await merge_news(ledger, Deciding(ledger.database, calls, settings.model or model_of(settings)))
        report = await report_of(ledger.database, ledger.run_id)
        if calls:
            report["model"] = await calls.report()
    return await ledger.finish({**told, **report})
