"""Stores what windows of sessions taught, in the transaction that stamps their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.jobs.consolidation import learning
from consolidator.jobs.consolidation.learning import Folded, WindowResult, bounds_of
from consolidator.jobs.consolidation.session_window import SessionWindow
from consolidator.jobs.consolidation.units import WatermarkMoved
from consolidator.jobs.indexing import indexer
from consolidator.jobs.model.extraction import Read
from consolidator.memory.procedures.digest import VERSION, Packed
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests, facts
from consolidator.store.nights import extraction, runs
from consolidator.store.queries import Row

ARRAYS = ("sequence", "seqs", "keys", "counts", "terms", "quotes", "state")


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
            await runs.add_dead_letter(
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


async def save_read(conn: Connection, read: Sequence[tuple[Row, Read]], *, run_id: str) -> None:
    """Store what a model read in sessions, but for those that were erased since."""
    there = await sessions.keep(conn, [session["id"] for session, _ in read])
    read = [(session, one) for session, one in read if session["id"] in there]
    proposed = [asdict(candidate) for _, one in read for candidate in one.candidates]
    refused = [facts.refused(session, rejected) for session, one in read for rejected in one.rejected]
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


def folded_of(stored: Row | None) -> Folded:
    """Return a session's folds as they were stored; none where this version cannot go on with them."""
    if stored is None or stored["version"] != VERSION:  # the caller makes an older version's folds anew
        return Folded()
    arrays = {name: bytes(stored[name]) for name in ARRAYS}
    packed = Packed(calls=stored["calls"], version=stored["version"], **arrays)
    return Folded(packed, learning.unpacked_json(bytes(stored["folds"])), stored["summary"])


async def _held(conn: Connection, name: str) -> bool:
    """Let nobody merge the session's agent, nor learn from the session, until what was derived is derived anew.

    Return whether the session is still there, and was not erased.
    """
    for session in await sessions.get_each(conn, [name]):
        await digests.lock_agent(conn, session["agent"])
    return name in await sessions.lock(conn, [name])
