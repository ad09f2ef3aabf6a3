"""Learns again from events that were set aside as dead letters, or discards them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation.learning import Folded, bounds_of, context_of
from consolidator.jobs.consolidation.manual_run import begin
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.consolidation.persistence import _held, save_memory, save_read
from consolidator.jobs.consolidation.pipeline import calls_of, reader_of
from consolidator.jobs.consolidation.session_window import windows
from consolidator.jobs.ledger import Ledger, manual_run
from consolidator.jobs.model.extraction import Extraction, Read
from consolidator.settings import Settings
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests, rederive
from consolidator.store.nights import runs
from consolidator.store.queries import Row

LOT = 200  # dead letters read at once


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
    async with manual_run(ledger):
        return await _retried(ledger, word, discard=discard)


async def _retried(ledger: Ledger, word: str | None, *, discard: bool) -> dict[str, Any]:
    database, settings = ledger.database, ledger.settings
    tried: set[str] = set()
    settled = 0
    async with calls_of(database, settings, ledger.run_id) as calls:
        reader = await reader_of(settings, calls)
        while letters := await _untried(database, word, tried):
            settled += await _settle(ledger, letters, None if discard else reader, discard=discard)
            tried |= {letter["id"] for letter in letters}
    done = {"settled": settled, "remaining": len(tried) - settled}
    now = database.clock.now()
    async with database.transaction() as conn:
        for agent in await digests.agents_with_news(conn):
            await merge_agent(conn, agent, run_id=ledger.run_id, now=now, settings=settings)
            await rederive.sweep(conn, agent)
    await ledger.finish(done)
    return done


async def _refuse_unknown(conn: Connection, word: str | None) -> None:
    """Raise NotFound for a word that is neither a dead letter's id, settled or not, nor a run's."""
    if word is None or await runs.list_dead_letters(conn, run_or_letter_id=word, include_settled=True, limit=1):
        return
    try:
        await runs.get(conn, word)
    except NotFound:
        raise NotFound(f"no dead letter and no run is called {word!r}; `consolidator runs` lists the runs") from None


async def _untried(database: Database, word: str | None, tried: set[str]) -> list[Row]:
    """Return open dead letters that were not tried yet; those tried in vain stay open and may come first."""
    async with database.connection() as conn:
        found = await runs.list_dead_letters(conn, run_or_letter_id=word, limit=LOT + 2 * len(tried))
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
            fine, sources = (
                (seqs, set()) if discard else await _learn_again(conn, name, seqs, salt, run_id=ledger.run_id)
            )
            if read is not None:
                fine = [seq for seq in fine if seq not in asked[name] or seq in read.fine]
                sources |= {seq for _, one in read.taken for seq in one.sources}
                await save_read(conn, read.taken, run_id=ledger.run_id)
            await rederive.stamp_some(conn, name, seqs=fine, now=now)
            settlement = "discarded" if discard else "retried"
            await runs.settle_dead_letters(conn, session=name, seqs=fine, settlement=settlement, now=now)
            took, dead = len(sources.intersection(fine)), len(seqs) - len(fine)
            await runs.add_counts(conn, ledger.run_id, name, learned=took, nothing=len(fine) - took, dead=dead)
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


@dataclass(frozen=True, slots=True)
class Reread:
    """What a model read in single events that had been set aside."""

    taken: list[tuple[Row, Read]]
    fine: set[int]  # the events it could read


async def reread(database: Database, reader: Extraction, name: str, seqs: Sequence[int]) -> Reread:
    """Have a model read single events of a session again, each by itself."""
    taken: list[tuple[Row, Read]] = []
    fine: set[int] = set()
    for seq in seqs:
        async with database.connection() as conn:
            found = await sessions.get_each(conn, [name])
            bounds = bounds_of(found[0]) if found else None
            event = await events.read(conn, name, after=seq - 1, upto=seq, limit=1, bounds=bounds) if bounds else []
        if event:
            read = await reader.read(context_of(found[0]), event)
            if not read.dead and read.stopped_before is None:
                taken.append((found[0], read))
                fine.add(seq)
    return Reread(taken, fine)
