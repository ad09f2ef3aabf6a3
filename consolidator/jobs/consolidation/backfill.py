"""Consolidation by hand: of what the nights have not read yet, or deriving again what they have; resumable.

Deriving again never moves a stamp, shows what would be different, and replaces only when told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.errors import Interrupted, NotFound
from consolidator.jobs.consolidation.deciding import Deciding
from consolidator.jobs.consolidation.late_extraction import reread, save_read
from consolidator.jobs.consolidation.learning import Folded
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.consolidation.pipeline import (
    SESSIONS,
    calls_of,
    consolidate,
    folded_of,
    merge_news,
    nothing_to_bury,
    reader_of,
    report_of,
    safe_point,
    save_memory,
    windows,
)
from consolidator.jobs.ledger import Ledger, Unit, by_hand, record
from consolidator.jobs.model.extraction import Extraction
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.memory import digests, rederive
from consolidator.store.nights import runs
from consolidator.store.queries import Row

LOT = 200  # dead letters read at once
EXTRACTORS = ("facts", "procedures", "solutions")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which sessions, and what of them."""

    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only: str | None = None  # one of EXTRACTORS
    reprocess: bool = False
    words: tuple[str | None, str | None] | None = None  # since and until as they were said: "7d" is ever another moment

    @property
    def again(self) -> bool:
        """Whether this derives again what was learned already."""
        return self.reprocess or self.only is not None

    def wants(self, extractor: str) -> bool:
        """Whether an extractor is among those asked for."""
        return self.only in (None, extractor)

    def as_json(self) -> dict[str, Any]:
        """Return the choice as the ledger keeps it, to recognise it when it is resumed."""
        since, until = self.words or (
            None if moment is None else moment.isoformat() for moment in (self.since, self.until)
        )
        return {
            "session": self.session,
            "agent": self.agent,
            "since": since,
            "until": until,
            "only": self.only,
            "reprocess": self.reprocess,
        }


@dataclass(slots=True)
class Backfill:
    """A backfill of some sessions."""

    database: Database
    settings: Settings
    choice: Choice
    stop: asyncio.Event
    started: Callable[[int], None] | None = None
    progress: Callable[[str], None] | None = None

    async def _chosen(self) -> list[Row]:
        async with self.database.connection() as conn:
            found = await rederive.chosen(
                conn,
                session=self.choice.session,
                agent=self.choice.agent,
                since=self.choice.since,
                until=self.choice.until,
                learned_too=self.choice.again,
            )
        if not found and self.choice.session:
            raise NotFound(f"session {self.choice.session} has nothing to read; --reprocess reads it again")
        return found

    async def rehearse(self) -> dict[str, Any]:
        """Do everything in a transaction that is rolled back; return what would be learned, by agent."""
        found = await self._chosen()
        if self.started:
            self.started(len(found))
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            read = 0
            # First, as a merge does: what is derived here is locked to the end.
            agents = {*(one["agent"] for one in found), *await digests.agents_with_news(conn)}
            await digests.lock_agents(conn, agents)
            before = await digests.published(conn)
            salt = await digests.salt(conn)
            for one in found:
                if self.stop.is_set():
                    raise Interrupted("nothing was written")
                step = await self._derive(conn, one["id"], salt, run_id="rehearsal", forget=self.choice.again)
                read += step.learned + step.nothing + step.dead
                if self.progress:
                    self.progress(one["id"])
            for agent in sorted(agents.intersection(await digests.agents_with_news(conn))):
                await merge_agent(conn, agent, run_id="rehearsal", now=now, settings=self.settings)
                await rederive.sweep(conn, agent)
            after = await digests.published(conn)
            raise psycopg.Rollback
        return {"sessions": len(found), "events": read, "memory": difference(before, after)}

    async def run(self) -> dict[str, Any]:
        """Do it in the ledger, going on where the same backfill was cut short."""
        ledger = Ledger(self.database, self.settings, "", self.stop, progress=self.progress)
        found = [one["id"] for one in await self._chosen()]  # before there is a run that could be left open
        await begin(ledger, self.choice.as_json())
        async with by_hand(ledger):
            if not self.choice.again:
                report = await consolidate(ledger, only=found, started=self.started)
            else:
                report = await self._again(ledger, found)
        return {"run": ledger.run, "job": "backfill", **report}

    async def _again(self, ledger: Ledger, found: list[str]) -> dict[str, Any]:
        """Derive again, session by session, and merge."""
        async with self.database.connection() as conn:
            salt = await digests.salt(conn)
        await ledger.begin(found, phase=SESSIONS)
        if self.started:
            self.started(len(found))

        async def work(units: list[Unit]) -> None:
            for unit in units:
                async with self.database.transaction() as conn:
                    step = runs.UnitProgress(unit.name, done=True)
                    if await _held(conn, unit.name):
                        step = await self._derive(conn, unit.name, salt, run_id=unit.run, forget=True)
                    await record(conn, [unit], [step])

        await ledger.work(SESSIONS, work, nothing_to_bury)
        await merge_news(ledger, Deciding(self.database), sweep=True)
        return await ledger.end(await report_of(self.database, ledger.run))

    async def _derive(
        self, conn: Connection, name: str, salt: bytes, *, run_id: str, forget: bool
    ) -> runs.UnitProgress:
        """Fold a session's events, from the beginning if what was derived is to be forgotten; stamp nothing."""
        session = await sessions.get(conn, name)
        pruned = session["pruned_to"]
        whole = pruned == 0  # what is gone cannot be derived again: then its digest and errors stay
        digest = self.choice.wants("procedures") and whole
        errors = self.choice.wants("solutions") and whole
        facts = self.choice.wants("facts")
        folded = Folded() if forget else folded_of(await digests.digest(conn, name))
        after = pruned if forget else session["consolidated_to"]
        upto = session["consolidated_to"] if forget else session["head"]
        if forget:
            await rederive.forget(conn, name, after=pruned, digest=digest, errors=errors, candidates=facts)
        safe = None if forget else safe_point(self.settings, self.database.clock.now())
        seen = took = dead = 0
        async for learned in windows(conn, session, folded, salt, after=after, upto=upto, safe=safe):
            seen, took, dead = seen + learned.events, took + len(learned.sources), dead + len(learned.dead)
            await save_memory(
                conn, [(session, learned)], run_id=run_id,
                digest=digest or not forget, errors=errors or not forget, candidates=facts,
            )  # fmt: skip
        return runs.UnitProgress(name, done=True, learned=took, nothing=seen - took - dead, dead=dead)


async def begin(ledger: Ledger, arguments: dict[str, Any], *, job: str = "backfill") -> None:
    """Give a ledger the run of a job by hand with these arguments: one that was cut short, else a new one."""
    now = ledger.database.clock.now()
    async with ledger.database.transaction() as conn:
        run = await runs.unfinished(conn, job=job, arguments=arguments)
        if run is None:
            run = await runs.start(
                conn, job=job, slot=now, trigger="manual", owner=ledger.owner, now=now, arguments=arguments
            )
        await runs.resume(conn, run["id"], owner=ledger.owner, now=now)
    ledger.run = run["id"]


def difference(before: dict[str, dict[str, Row]], after: dict[str, dict[str, Row]]) -> dict[str, dict[str, list[str]]]:
    """Return the lines of what would be added, lost and changed, by kind."""
    told: dict[str, dict[str, list[str]]] = {}
    for kind, now in after.items():
        was = before[kind]
        told[kind] = {
            "added": [now[one]["line"] for one in now if one not in was],
            "lost": [was[one]["line"] for one in was if one not in now],
            "changed": [now[one]["line"] for one in now if one in was and now[one] != was[one]],
        }
    return told


async def _held(conn: Connection, name: str) -> bool:
    """Let nobody merge the session's agent, nor learn from the session, until what was derived is derived anew.

    Return whether the session is still there, and was not erased.
    """
    for session in await sessions.get_each(conn, [name]):
        await digests.lock_agent(conn, session["agent"])
    return name in await sessions.lock(conn, [name])


async def retry(
    database: Database, settings: Settings, *, word: str | None = None, discard: bool = False
) -> dict[str, Any]:
    """Learn again from sessions with dead letters, or discard these; return how many were settled and how many stay.

    `word` is the id of one letter or of a run, whose letters are meant; raises NotFound where it is neither.
    """
    async with database.connection() as conn:
        await _refuse_unknown(conn, word)
    if not await _untried(database, word, set()):
        return {"settled": 0, "remaining": 0}
    ledger = Ledger(database, settings, "", asyncio.Event())
    await begin(ledger, {"word": word, "discard": discard}, job="retry")
    async with by_hand(ledger):
        return await _retried(ledger, word, discard=discard)


async def _retried(ledger: Ledger, word: str | None, *, discard: bool) -> dict[str, Any]:
    database, settings = ledger.database, ledger.settings
    tried: set[str] = set()
    settled = 0
    async with calls_of(database, settings, ledger.run) as calls:
        reader = await reader_of(settings, calls)
        while letters := await _untried(database, word, tried):
            settled += await _settle(ledger, letters, None if discard else reader, discard=discard)
            tried |= {letter["id"] for letter in letters}
    done = {"settled": settled, "remaining": len(tried) - settled}
    now = database.clock.now()
    async with database.transaction() as conn:
        for agent in await digests.agents_with_news(conn):
            await merge_agent(conn, agent, run_id=ledger.run, now=now, settings=settings)
            await rederive.sweep(conn, agent)
    await ledger.end(done)
    return done


async def _refuse_unknown(conn: Connection, word: str | None) -> None:
    """Raise NotFound for a word that is neither a dead letter's id, settled or not, nor a run's."""
    if word is None or await runs.dead_letters(conn, word=word, settled_too=True, limit=1):
        return
    try:
        await runs.get(conn, word)
    except NotFound:
        raise NotFound(f"no dead letter and no run is called {word!r}; `consolidator runs` lists the runs") from None


async def _untried(database: Database, word: str | None, tried: set[str]) -> list[Row]:
    """Return open dead letters that were not tried yet; those tried in vain stay open and may come first."""
    async with database.connection() as conn:
        found = await runs.dead_letters(conn, word=word, limit=LOT + 2 * len(tried))
    return [letter for letter in found if letter["id"] not in tried]


async def _settle(ledger: Ledger, letters: list[Row], reader: Extraction | None, *, discard: bool) -> int:
    """Settle what can be settled of some dead letters, session by session; return how many that were."""
    database, now = ledger.database, ledger.database.clock.now()
    by_session: dict[str, list[int]] = {}
    asked: dict[str, list[int]] = {}  # what a model died of, and is asked again
    for letter in letters:
        by_session.setdefault(letter["session_id"], []).append(letter["seq"])
        if letter["extractor"] == "model" and reader is not None:
            asked.setdefault(letter["session_id"], []).append(letter["seq"])
    async with database.connection() as conn:
        salt = await digests.salt(conn)
    settled = 0
    for name, seqs in by_session.items():
        read = await reread(database, reader, name, asked[name]) if reader is not None and name in asked else None
        async with database.transaction() as conn:
            fine, sources = (seqs, set()) if discard else await _learn_again(conn, name, seqs, salt, run_id=ledger.run)
            if read is not None:
                fine = [seq for seq in fine if seq not in asked[name] or seq in read.fine]
                sources |= {seq for _, one in read.taken for seq in one.sources}
                await save_read(conn, read.taken, run_id=ledger.run)
            await rederive.stamp_some(conn, name, seqs=fine, now=now)
            settlement = "discarded" if discard else "retried"
            await runs.settle_dead_letters(conn, session=name, seqs=fine, settlement=settlement, now=now)
            took, dead = len(sources.intersection(fine)), len(seqs) - len(fine)
            await runs.account(conn, ledger.run, name, learned=took, nothing=len(fine) - took, dead=dead)
        settled += len(fine)
    return settled


async def _learn_again(
    conn: Connection, name: str, seqs: list[int], salt: bytes, *, run_id: str
) -> tuple[list[int], set[int]]:
    """Derive a session anew with the events that were set aside.

    Return those that can be read now, and what the session taught was learned from.

    Where its beginning was pruned the fold cannot be made anew, so only the facts of these events are taken.
    """
    if not await _held(conn, name):
        return [], set()
    session = await sessions.get(conn, name)
    dead: set[int] = set()
    sources: set[int] = set()
    if session["pruned_to"] == 0:
        await rederive.forget(conn, name, after=0, digest=True, errors=True, candidates=True)
        found = windows(conn, session, Folded(), salt, after=0, upto=session["consolidated_to"])
        async for learned in found:
            dead, sources = dead | set(learned.dead), sources | set(learned.sources)
            await save_memory(conn, [(session, learned)], run_id=run_id)
        return [seq for seq in seqs if seq not in dead], sources
    for seq in seqs:
        found = windows(conn, session, Folded(), salt, after=seq - 1, upto=seq)
        async for learned in found:
            dead, sources = dead | set(learned.dead), sources | set(learned.sources)
            await save_memory(conn, [(session, learned)], run_id=run_id, digest=False, errors=False)
    return [seq for seq in seqs if seq not in dead], sources
