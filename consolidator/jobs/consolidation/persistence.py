"""Stores what windows of sessions taught, in the transaction that stamps their events."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime

from consolidator.database import Connection, Database
from consolidator.jobs.consolidation.learning import FoldStates, ReadResult, WindowResult
from consolidator.jobs.consolidation.session_window import SessionWindow, WatermarkMoved, learn_windows
from consolidator.jobs.indexing import indexer
from consolidator.jobs.ledger import Unit, record_progress
from consolidator.memory.facts.relations import spellings_of
from consolidator.memory.procedures.digest import COMPRESSION, DIGEST_VERSION, PackedDigest
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.error_tracker import renew_fingerprint
from consolidator.memory.solutions.fingerprint import VERSION
from consolidator.models.digest import DigestRow, ErrorRecordRow
from consolidator.models.session import SessionRow, SteerRow, TaskOutcomeRow
from consolidator.store.calls import digests, error_records, scopes
from consolidator.store.facts import facts
from consolidator.store.log import events
from consolidator.store.memory import derived
from consolidator.store.nights import model_calls, runs
from consolidator.store.nights.runs import UnitProgress
from consolidator.store.queries import row_values
from consolidator.store.search import index
from consolidator.store.sessions import sessions


async def commit_windows(
    conn: Connection,
    windows: Sequence[SessionWindow],
    *,
    units: Sequence[Unit],
    steps: Sequence[UnitProgress],
    now: datetime,
) -> None:
    """Store what windows taught, count the steps of their units, and stamp the events that every extractor has read.

    Raises WatermarkMoved if another run has stamped some, and LostClaim if another replica has taken over a unit.
    """
    run_id = units[0].run_id
    spans = [
        events.Span(window.session.id, window.session.consolidated_to, window.upto, window.session.ingest_bounds)
        for window in windows
    ]

    await scopes.lock_agents_shared(conn, {window.session.memory for window in windows})
    # This locks the sessions: an erasure of one waits for the end of this transaction.
    if not await sessions.lock_watermarks(conn, spans):
        raise WatermarkMoved

    learned = [(window.session, window.learned) for window in windows if window.learned is not None]
    await save_memory(conn, learned, run_id=run_id)
    await indexer.save_episodes(conn, [(session, result.episodes) for session, result in learned])
    announced = {session.id: result.announced for session, result in learned if result.announced is not None}
    if announced:
        await index.note_announced(conn, list(announced), list(announced.values()))
    for session, result in learned:
        await runs.add_dead_letters(conn, run_id, session=session.id, failures=result.dead, now=now)

    await record_progress(conn, units, steps)
    for window in windows:
        if window.read is None and window.learned is not None and window.learned.foreign:
            await runs.add_foreign(conn, run_id, window.session.id, window.learned.foreign)

    # The database stamps only what this transaction has stored and counted.
    learned_spans = [
        events.LearnedSpan(span, window.stamped_to, list(result.dead))
        for span, window, (_, result) in zip(spans, windows, learned, strict=True)
    ]
    await events.stamp(conn, learned_spans, run_id=run_id, now=now)
    await model_calls.advance_watermarks(
        conn, [(window.session.id, window.session.extracted_to, window.stamped_to) for window in windows if window.read]
    )


async def save_memory(
    conn: Connection,
    learned: Sequence[tuple[SessionRow, WindowResult]],
    *,
    run_id: str,
    digest: bool = True,
    errors: bool = True,
    candidates: bool = True,
) -> None:
    """Store the digests, error records and candidates of windows, or only some of these; mark what has to be merged."""
    if digest:
        rows = [
            _digest_row(session, result, result.folds.digest)
            for session, result in learned
            if result.folds.digest is not None
        ]
        await digests.save(conn, rows)
        await scopes.touch(conn, await scopes.list_of_sessions(conn, [session.id for session, _ in learned]))
    if errors:
        await error_records.save(
            conn, [_error_row(session, record) for session, result in learned for record in result.errors]
        )
    if candidates:
        proposed = [asdict(each) for _, result in learned for each in (*result.candidates, *result.rejected)]
        await facts.save_candidates(conn, proposed, run_id=run_id)
        forgotten = [row for _, result in learned for row in result.forgotten]
        await facts.save_tombstones(conn, [(row, spellings_of(row.predicate)) for row in forgotten])
        marks = [mark for _, result in learned for mark in result.steering]
        steers = [mark for mark in marks if isinstance(mark, SteerRow)]
        outcomes = [mark for mark in marks if isinstance(mark, TaskOutcomeRow)]
        await facts.save_steers(conn, steers, outcomes, run_id=run_id)


async def derive_again(
    conn: Connection,
    session: SessionRow,
    salt: bytes,
    *,
    run_id: str,
    digest: bool = True,
    errors: bool = True,
    candidates: bool = True,
) -> AsyncIterator[WindowResult]:
    """Yield what a session's learned events teach, stored in place of what they taught before; stamp nothing."""
    chosen = {"digest": digest, "errors": errors, "candidates": candidates}
    after = session.pruned_to
    await derived.delete_derived(conn, session.id, after=after, **chosen)
    async for result in learn_windows(conn, session, FoldStates(), salt, after=after, upto=session.consolidated_to):
        await save_memory(conn, [(session, result)], run_id=run_id, **chosen)
        yield result


async def save_extracted(conn: Connection, extracted: Sequence[tuple[SessionRow, ReadResult]], *, run_id: str) -> None:
    """Store what a model read in sessions, except in those that were erased since."""
    existing = await sessions.lock_shared(conn, [session.id for session, _ in extracted])
    reads = [read for session, read in extracted if session.id in existing]
    proposed = [asdict(each) for read in reads for each in (*read.candidates, *read.rejected)]
    await facts.save_candidates(conn, proposed, run_id=run_id)


async def stamp_waiting(conn: Connection, session: SessionRow, *, upto: int, run_id: str, now: datetime) -> None:
    """Stamp the events of a session that waited for a model, up to a seq, except its dead letters."""
    after = max(session.extracted_to, session.pruned_to)
    span = events.Span(session.id, after, upto, session.ingest_bounds)
    await events.stamp_awaited(conn, span, run_id=run_id, now=now)


async def settle_waiting(database: Database, run_id: str, only: list[str] | None = None) -> None:
    """Stamp what waited for a model that is not configured any more: rules are the only extractor left."""
    async with database.connection() as conn:
        waiting = await model_calls.list_waiting(conn)
    for session_id in waiting:
        if only is not None and session_id not in only:
            continue
        async with database.transaction() as conn:
            await sessions.lock(conn, [session_id])
            for session in await sessions.get_each(conn, [session_id]):
                if not session.awaits_model:  # another process was first
                    continue
                await model_calls.stop_waiting(conn, session_id)
                now = database.clock.now()
                await stamp_waiting(conn, session, upto=session.consolidated_to, run_id=run_id, now=now)


def _digest_row(session: SessionRow, result: WindowResult, packed: PackedDigest) -> DigestRow:
    errors = json.dumps(result.folds.errors, ensure_ascii=True, separators=(",", ":"))
    return DigestRow(
        session_id=session.id,
        agent=session.memory,
        project=session.project,
        last_at=result.last_at or session.last_event_at,
        error_state=zlib.compress(errors.encode(), COMPRESSION),
        summary=result.folds.summary or {},
        trace=result.folds.trace,
        **row_values(packed),
    )


def _error_row(session: SessionRow, record: ErrorRecord) -> ErrorRecordRow:
    return ErrorRecordRow(
        session_id=session.id,
        seq=record.seq,
        agent=session.memory,
        project=session.project,
        fingerprint=record.fingerprint,
        status=record.status,
        record=record.to_json(),
    )


def unpack_folds(row: DigestRow | None) -> FoldStates:
    """Return the folds of a session as its digest stores them; empty ones if another version stored it."""
    if row is None or row.version != DIGEST_VERSION:
        return FoldStates()
    packed = PackedDigest(**{each.name: getattr(row, each.name) for each in fields(PackedDigest)})
    return FoldStates(packed, json.loads(zlib.decompress(row.error_state)), row.summary, row.trace)


async def lock_for_rederiving(conn: Connection, session: str) -> bool:
    """Keep merges of the session's agent and other learning from it out until the transaction ends.

    Return whether the session still exists.
    """
    for row in await sessions.get_each(conn, [session]):
        await scopes.lock_agents(conn, [row.memory])
    return session in await sessions.lock(conn, [session])


async def derive_outdated_errors(conn: Connection, agent: str, *, run_id: str) -> int:
    """Derive an agent's outdated errors again, and delete their solutions; return how many sessions had some.

    A session's digest is derived with its errors, since it holds those that are still open. Of a session whose
    beginning is pruned, the stored errors get a new fingerprint.
    """
    names = await error_records.list_outdated_sessions(conn, agent, VERSION)
    if not names:
        return 0
    salt = await digests.load_salt(conn)
    for name in names:
        if await lock_for_rederiving(conn, name):
            session = await sessions.get(conn, name)
            if session.is_whole:
                async for _ in derive_again(conn, session, salt, run_id=run_id, candidates=False):
                    pass
            else:
                stored = await error_records.list_outdated(conn, name, VERSION)
                renewed = [renew_fingerprint(ErrorRecord.from_json(record)) for record in stored]
                await error_records.save(conn, [_error_row(session, record) for record in renewed])
    await error_records.delete_outdated_solutions(conn, agent, VERSION)
    return len(names)
