"""Learns again from events that were set aside as dead letters, or discards them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation.learning import FoldStates
from consolidator.jobs.consolidation.persistence import derive_again, lock_for_rederiving, save_extracted, save_memory
from consolidator.jobs.consolidation.session_window import learn_windows
from consolidator.jobs.ledger import Ledger, recorded_run, resume_or_start_run
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.lesson_merge import lock_lessons
from consolidator.jobs.model.extraction import FactReader, ReadResult, create_fact_reader, open_model_calls
from consolidator.memory.facts.candidates import session_context
from consolidator.models.session import SessionRow
from consolidator.settings import Settings
from consolidator.store.calls import digests, scopes
from consolidator.store.log import events
from consolidator.store.memory import rederive
from consolidator.store.nights import runs
from consolidator.store.nights.runs import ListedDeadLetter
from consolidator.store.sessions import sessions

BATCH = 200  # dead letters read at once


async def retry_dead_letters(
    database: Database, settings: Settings, *, run_or_letter_id: str | None = None, discard: bool = False
) -> dict[str, Any]:
    """Learn again from dead letters, or discard them; return how many were settled and how many remain.

    `run_or_letter_id` names a letter, or a run with its letters; raises NotFound if it is neither.
    """
    async with database.connection() as conn:
        await _check_id(conn, run_or_letter_id)
    if not await _list_untried(database, run_or_letter_id, set()):
        return {"settled": 0, "remaining": 0}
    ledger = Ledger(database, settings, "", asyncio.Event())
    await resume_or_start_run(ledger, {"word": run_or_letter_id, "discard": discard}, job="retry")
    tried: set[str] = set()
    settled = 0
    async with recorded_run(ledger):
        async with open_model_calls(database, settings, ledger.run_id) as calls:
            reader = await create_fact_reader(calls)
            while letters := await _list_untried(database, run_or_letter_id, tried):
                settled += await _retry_session_letters(ledger, letters, None if discard else reader, discard=discard)
                tried |= {letter.id for letter in letters}
        report = {"settled": settled, "remaining": len(tried) - settled}
        now = database.clock.now()
        async with database.transaction() as conn:
            agents = await scopes.list_agents_with_news(conn)
            await scopes.lock_agents(conn, agents)
            await lock_lessons(conn, agents)
            for agent in agents:
                await merge_agent(conn, agent, run_id=ledger.run_id, now=now, settings=settings)
                await rederive.delete_unsupported(conn, agent)
        await ledger.finish(report)
        return report


async def _check_id(conn: Connection, run_or_letter_id: str | None) -> None:
    """Raise NotFound for an id that is neither a dead letter's, settled or not, nor a run's."""
    if run_or_letter_id is None or await runs.list_dead_letters(
        conn, run_or_letter_id=run_or_letter_id, include_settled=True, limit=1
    ):
        return
    try:
        await runs.get(conn, run_or_letter_id)
    except NotFound:
        raise NotFound(
            f"no dead letter and no run is called {run_or_letter_id!r}; `consolidator runs` lists the runs"
        ) from None


async def _list_untried(database: Database, run_or_letter_id: str | None, tried: set[str]) -> list[ListedDeadLetter]:
    """Return open dead letters that this run has not tried; those it tried in vain stay open and may come first."""
    async with database.connection() as conn:
        letters = await runs.list_dead_letters(conn, run_or_letter_id=run_or_letter_id, limit=BATCH + 2 * len(tried))
    return [letter for letter in letters if letter.id not in tried]


async def _retry_session_letters(
    ledger: Ledger, letters: list[ListedDeadLetter], reader: FactReader | None, *, discard: bool
) -> int:
    """Settle those dead letters whose events can be read now, session by session; return how many."""
    database, now = ledger.database, ledger.database.clock.now()
    seqs_of: defaultdict[str, list[int]] = defaultdict(list)
    model_seqs_of: defaultdict[str, list[int]] = defaultdict(list)  # what a model could not read, and reads again
    for letter in letters:
        seqs_of[letter.session_id].append(letter.seq)
        if letter.extractor == "model" and reader is not None:
            model_seqs_of[letter.session_id].append(letter.seq)
    async with database.connection() as conn:
        salt = await digests.load_salt(conn)
    settled = 0
    for session, seqs in seqs_of.items():
        reread: dict[int, tuple[SessionRow, ReadResult]] = {}
        if reader is not None:
            reread = await reread_events(database, reader, session, model_seqs_of[session])
        async with database.transaction() as conn:
            readable, sources = seqs, set[int]()
            if not discard:
                readable, sources = await _learn_again(conn, session, seqs, salt, run_id=ledger.run_id)
            readable = [seq for seq in readable if seq not in model_seqs_of[session] or seq in reread]
            if reread:
                sources |= {seq for _, result in reread.values() for seq in result.sources}
                await save_extracted(conn, list(reread.values()), run_id=ledger.run_id)
            settlement = "discarded" if discard else "retried"
            await runs.settle_dead_letters(conn, session, readable, settlement, now)
            learned, dead = len(sources.intersection(readable)), len(seqs) - len(readable)
            await runs.add_counts(
                conn, ledger.run_id, session, learned=learned, nothing=len(readable) - learned, dead=dead
            )
            await rederive.stamp_events(conn, session, seqs=readable, run_id=ledger.run_id, now=now)
        settled += len(readable)
    return settled


async def _learn_again(
    conn: Connection, name: str, seqs: list[int], salt: bytes, *, run_id: str
) -> tuple[list[int], set[int]]:
    """Derive a session again, with the events that were set aside.

    Return those of them that can be read now, and all events of the session that something was learned from. If the
    session's beginning is pruned, its folds cannot be made again: then only the facts of these events are stored.
    """
    if not await lock_for_rederiving(conn, name):
        return [], set()
    session = await sessions.get(conn, name)
    if session.is_whole:
        results = [result async for result in derive_again(conn, session, salt, run_id=run_id)]
    else:
        results = []
        for seq in seqs:
            async for result in learn_windows(conn, session, FoldStates(), salt, after=seq - 1, upto=seq):
                await save_memory(conn, [(session, result)], run_id=run_id, digest=False, errors=False)
                results.append(result)
    dead = {seq for result in results for seq in result.dead}
    return [seq for seq in seqs if seq not in dead], {seq for result in results for seq in result.sources}


async def reread_events(
    database: Database, reader: FactReader, name: str, seqs: Sequence[int]
) -> dict[int, tuple[SessionRow, ReadResult]]:
    """Have a model read single events of a session again, each by itself; return what it read, by the event's seq."""
    results = {}
    for seq in seqs:
        async with database.connection() as conn:
            rows = await sessions.get_each(conn, [name])
            if not rows:
                continue
            event = await events.read(conn, name, after=seq - 1, upto=seq, limit=1, bounds=rows[0].ingest_bounds)
        if event:
            read = await reader.read(session_context(rows[0]), event)
            if not read.failed_events and read.stopped_before is None:
                results[seq] = (rows[0], read)
    return results
