"""Prunes events that are past retention and learned from: whole days where possible, the rest in batches.

Only prefixes of sessions are pruned, with the chunks and deliveries of their messages. Spared are events that were not
learned from (a dead letter spares all that follows it), the context window of an open session, and what a live child
or an unexpired checkpoint reads. Memory keeps its quotes and counts. An agent may keep its events for days of its own.
At the end, sessions whose time to live is over are ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from consolidator.database import Connection, Database, partitions
from consolidator.errors import RetentionHalted
from consolidator.jobs.indexing.indexer import forget_turns
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.runtime.turn.sub_agents import finish_abandoned
from consolidator.store.facts import revisions
from consolidator.store.log import events
from consolidator.store.log import retention as store
from consolidator.store.log.events import BEGINNING
from consolidator.store.log.retention import Cutoffs, ExpiredSession, PrunableSession
from consolidator.store.memory import injections, store_items
from consolidator.store.nights import model_calls
from consolidator.store.queries import row_values
from consolidator.store.sessions import checkpoints, sessions

GRACE = timedelta(days=7)  # for a session in which something is to be answered or decided
ENDED_BATCH = 100  # sessions ended in one transaction
_END = NewEvent(EventType.SESSION_END, {"reason": "expired"}, principal=Role.OPERATOR.value)


async def end_expired(database: Database, *, dry_run: bool) -> tuple[int, Counter[str]]:
    """End the sessions whose time to live is over; with `dry_run` only count them.

    Return how many were or would be ended, and how many were spared, by reason.
    """
    now = database.clock.now()
    ended, spared = 0, Counter[str]()
    last = (BEGINNING, "")
    while True:
        async with database.connection() as conn:
            page = await store.list_expired(conn, now=now, grace=now - GRACE, after=last, batch=ENDED_BATCH)
        if not page:
            if not dry_run:
                await finish_abandoned(database)
            return ended, spared
        last = (page[-1].expires_at, page[-1].id)
        spared.update(reason for session in page if (reason := _spared_because(session)))
        ids = [session.id for session in page if _spared_because(session) is None]
        done = len(ids) if dry_run else await _end(database, ids, now)
        ended += done
        if done < len(ids):
            spared["changed meanwhile"] += len(ids) - done


def _spared_because(session: ExpiredSession) -> str | None:
    """Return why an expired session is not ended tonight; None if it is."""
    if session.is_held:
        return "driven at this moment"
    return "something awaits an answer" if session.is_awaited else None


async def _end(database: Database, ids: list[str], now: datetime) -> int:
    """End sessions in one transaction; those that somebody touches at this moment stay. Return how many ended."""
    async with database.transaction() as conn:
        locked = await store.lock_expired(conn, ids, now, now - GRACE)
        for session_id in locked:
            await events.append(conn, session_id, [_END], now=now)
            await sessions.retire(conn, session_id, hide=False)
    return len(locked)


CONTEXT_WINDOW = 200  # events that the context of an open session may read
BLOB_GRACE = timedelta(days=1)
ANSWERS_KEPT = timedelta(days=1)  # to requests with a key, so that a repeated one is not done again
INJECTIONS_KEPT = timedelta(days=365)  # what hooks put into agents' contexts is counted so long
MAX_CLOCK_DIFFERENCE = timedelta(days=1)  # between this machine and the database
DATABASE_SHARE = 0.5  # of the log that the database lets anybody but its owner prune within a day
MAX_SILENCE = timedelta(
    days=60
)  # since the last event or run; after more, the clock has jumped rather than the agents rested
BATCH = 5000  # rows deleted in one transaction
MARK_BATCH = 500  # sessions marked in one transaction
Progress = Callable[[str], None]


@dataclass(slots=True)
class RetentionReport:
    """What was pruned, or would be, and what was spared and why."""

    cutoff: datetime  # events ingested before it were candidates
    dry_run: bool
    sessions: int = 0
    events: int = 0
    partitions: list[str] = field(default_factory=list)  # of whole days that were dropped
    blobs: int = 0
    spared: Counter[str] = field(default_factory=Counter)  # events by reason
    agents: dict[str, datetime] = field(default_factory=dict)  # the cutoffs of agents that have days of their own
    expired: int = 0  # sessions that were ended because their time to live was over
    unexpired: Counter[str] = field(default_factory=Counter)  # sessions whose time is over that stay open, by reason

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs and the ledger."""
        return row_values(self) | {
            "cutoff": self.cutoff.isoformat(),
            "spared": dict(sorted(self.spared.items())),
            "agents": {agent: cutoff.isoformat() for agent, cutoff in self.agents.items()},
            "unexpired": dict(sorted(self.unexpired.items())),
        }


def prunable_limit(session: PrunableSession) -> tuple[int, str | None]:
    """Return the last seq that may be pruned, and the reason if that is not the last old one."""
    upto, reason = session.last, None
    if session.unlearned is not None and session.unlearned - 1 < upto:
        upto, reason = session.unlearned - 1, "not learned from"
    if session.open and session.head - CONTEXT_WINDOW < upto:
        upto, reason = session.head - CONTEXT_WINDOW, "window of an open session"
    if session.read_floor is not None and session.read_floor < upto:
        upto, reason = session.read_floor, "read by a child or a checkpoint"
    return max(upto, session.pruned_to), reason


async def prune(
    database: Database,
    *,
    older_than: timedelta,
    episodes: timedelta | None = None,
    max_share: float | None = None,
    dry_run: bool = False,
    run_id: str | None = None,
    progress: Progress | None = None,
) -> RetentionReport:
    """Prune events that were ingested before now - `older_than` and learned from; with `dry_run` only report them.

    Of an agent that has retention days of its own, these count instead, also where a person names `older_than`.
    With `max_share`, raise RetentionHalted and prune nothing if a larger share of the log than this would go, or if
    the clock seems to have jumped: what is pruned is gone, so a wrong clock must not decide it.
    The database holds brakes of its own against a run of retention (`run_id`); without `max_share`, on a clock that was
    set, or without a run it is asked as the log's owner, who alone may go past them.
    Recall forgets turns with their events or, if `episodes` is given, when they are that old. `progress` is called with
    the name of each dropped partition and pruned session.
    """
    now = database.clock.now()
    report = RetentionReport(cutoff=now - older_than, dry_run=dry_run)

    async with database.connection() as conn:
        if not dry_run:
            await partitions.finish_drops(conn)
            await checkpoints.delete_expired(conn, now)
        days = await store.load_retention_days(conn)
        report.agents = {agent: now - timedelta(days=own) for agent, own in days.items()}
        cutoffs = Cutoffs(report.cutoff, report.agents)
        candidates = await store.list_prunable(conn, cutoffs, window=CONTEXT_WINDOW, now=now)

    limits = {session.id: upto for session in candidates if (upto := prunable_limit(session)[0]) >= _first_seq(session)}
    if max_share is not None and not dry_run:
        await _check_brakes(database, candidates, limits, older_than, max_share)
    if not dry_run:
        override = max_share is None or max_share > DATABASE_SHARE or run_id is None or not database.clock.is_real
        limits = await _mark_candidates(database, candidates, limits, run_id=run_id, override=override)

    _count_events(report, candidates, limits)
    whole_days = await _find_whole_days(database, cutoffs.latest, limits)
    if dry_run:
        report.partitions = whole_days
        async with database.connection() as conn:
            report.blobs = await store.count_orphan_blobs(conn, limits, untouched_since=now - BLOB_GRACE)
    else:
        cutoff_of = {session.id: session.cutoff for session in candidates if session.id in limits}
        await _delete_pruned(database, report, cutoffs, cutoff_of, whole_days, progress or (lambda _: None))
        await _forget_turns(database, None if episodes is None else now - episodes)
        await _forget_by_age(database, report)

    report.expired, report.unexpired = await end_expired(database, dry_run=dry_run)
    return report


async def _mark_candidates(
    database: Database, candidates: list[PrunableSession], limits: dict[str, int], *, run_id: str | None, override: bool
) -> dict[str, int]:
    """Mark what is to be pruned, cutoff by cutoff; return up to where each session is pruned now.

    With `override` as the log's owner, who alone may go past the database's brakes.
    """
    cutoff_of = {session.id: session.cutoff for session in candidates}
    marked: dict[str, int] = {}
    for cutoff in sorted({cutoff_of[session_id] for session_id in limits}):
        async with database.owner_connection() if override else database.connection() as conn:
            pruning = await store.begin_pruning(conn, run_id=run_id, cutoff=cutoff, override=override)
        batch = {session_id: upto for session_id, upto in limits.items() if cutoff_of[session_id] == cutoff}
        marked |= await _mark_pruned(database, batch, pruning)
    return marked


async def _delete_pruned(
    database: Database,
    report: RetentionReport,
    cutoffs: Cutoffs,
    cutoff_of: dict[str, datetime],
    whole_days: list[str],
    progress: Progress,
) -> None:
    """Delete the events that are marked, by session or as whole days, and the output that belongs to none any more."""
    for partition in whole_days:
        async with database.connection() as conn:
            if await partitions.drop(conn, partition):
                report.partitions.append(partition)
        progress(partition)
    async with database.connection() as conn:
        remaining = [name for name in await store.list_sessions_before(conn, cutoffs.latest) if name in cutoff_of]
    for session_id in remaining:
        delete = partial(store.delete_events, session_id=session_id, cutoff=cutoff_of[session_id])
        await _in_batches(database, delete)
        progress(session_id)

    async with database.connection() as conn:
        for name, day in await _days_before(conn, cutoffs.latest, "generation_chunk"):
            if not await store.has_live_chunks(conn, *day):  # each belongs to a message whose first event is pruned
                await partitions.drop(conn, name, "generation_chunk")
        stale = await store.list_sessions_with_stale_output(conn)
    for session_id in stale:  # also what a crash left behind
        await _in_batches(database, partial(store.delete_output, session_id=session_id))


async def _forget_by_age(database: Database, report: RetentionReport) -> None:
    """Delete what is kept beside the log for a time of its own."""
    now = database.clock.now()
    async with database.connection() as conn:
        await model_calls.prune(conn, report.cutoff)
        await injections.delete_before(conn, now - INJECTIONS_KEPT)
    await _in_batches(database, partial(store_items.delete_expired, now=now))
    report.blobs = await _in_batches(database, lambda conn, batch: store.collect_blobs(conn, now - BLOB_GRACE, batch))
    async with database.connection() as conn:
        await store.forget_idempotency_keys(conn, report.cutoff)
        await store.forget_api_requests(conn, now - ANSWERS_KEPT)
        await store.forget_claims(conn, report.cutoff)
        await revisions.delete_retired(conn, report.cutoff)


async def _check_brakes(
    database: Database,
    candidates: list[PrunableSession],
    limits: dict[str, int],
    older_than: timedelta,
    max_share: float,
) -> None:
    """Raise RetentionHalted if the clock seems wrong, or if a larger share of the log than `max_share` would go."""
    now = database.clock.now()
    async with database.connection() as conn:
        latest = await store.get_latest_times(conn)
        expired = await store.list_expired(conn, now=now, grace=now - GRACE, batch=1)
    prunable = sum(limits[session.id] - session.pruned_to for session in candidates if session.id in limits)
    if not prunable and not expired:
        return
    reason = None
    if database.clock.is_real and abs(now - latest.database_clock) > MAX_CLOCK_DIFFERENCE:
        reason = (
            f"this machine's clock says {now:%Y-%m-%d %H:%M}, the database's {latest.database_clock:%Y-%m-%d %H:%M}"
        )
    elif latest.activity is not None and now - latest.activity > max(2 * older_than, MAX_SILENCE):
        reason = f"the clock says {now:%Y-%m-%d}, but the last event or run is of {latest.activity:%Y-%m-%d}"
    elif prunable > max_share * latest.events:
        reason = f"{prunable:,} of {latest.events:,} events would go, more than {max_share:.0%} of the log"
    if reason is not None:
        raise RetentionHalted(
            f"retention pruned nothing and ended no session: {reason}. If that is right, "
            "`consolidator run retention --force` does it; `consolidator run retention --dry-run` shows what would go"
        )


def _first_seq(session: PrunableSession) -> int:
    """Return the seq of the oldest event that is not pruned."""
    return session.last - session.events + 1


def _count_events(report: RetentionReport, candidates: list[PrunableSession], limits: dict[str, int]) -> None:
    """Count the events of each session that are pruned, and those that are spared, by reason."""
    for session in candidates:
        pruned = max(0, min(limits.get(session.id, 0), session.last) - _first_seq(session) + 1)
        if pruned:
            report.sessions += 1
            report.events += pruned
        if pruned < session.events:
            report.spared[prunable_limit(session)[1] or "changed meanwhile"] += session.events - pruned


async def _find_whole_days(database: Database, cutoff: datetime, limits: dict[str, int]) -> list[str]:
    """Return the partitions before the cutoff in which every event may be pruned."""
    whole_days = []
    async with database.connection() as conn:
        for name, day in await _days_before(conn, cutoff, "event"):
            last_events = await store.list_last_events(conn, *day)
            if all(seq <= limits.get(session_id, -1) for session_id, seq in last_events.items()):
                whole_days.append(name)
    return whole_days


async def _days_before(conn: Connection, cutoff: datetime, parent: str) -> list[tuple[str, tuple[datetime, datetime]]]:
    """Return the partitions of a table whose day ended before the cutoff, with where it begins and ends."""
    days = []
    for name, day in await partitions.list_attached(conn, parent):
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        end = begin + timedelta(days=1)
        if end <= cutoff:
            days.append((name, (begin, end)))
    return days


async def _mark_pruned(database: Database, limits: dict[str, int], pruning: str) -> dict[str, int]:
    """Mark the prefixes as pruned, in order of session id; return up to where each session is pruned now.

    Sessions that changed since they were read are left for the next night.
    """
    prune_limits = sorted(limits.items())
    for first in range(0, len(prune_limits), MARK_BATCH):
        async with database.transaction() as conn:
            batch = prune_limits[first : first + MARK_BATCH]
            await store.mark_pruned(conn, batch, pruning=pruning, window=CONTEXT_WINDOW)
    async with database.connection() as conn:
        return await store.get_pruned_seqs(conn, list(limits))


async def _in_batches(database: Database, delete: Callable[..., Awaitable[int]]) -> int:
    deleted = 0
    while True:
        async with database.connection() as conn:
            count = await delete(conn, batch=BATCH)
        deleted += count
        if count < BATCH:
            return deleted


async def _forget_turns(database: Database, before: datetime | None) -> None:
    """Remove turns from recall whose events are pruned and, if `before` is given, that happened before it."""
    async with database.connection() as conn:
        expired = await store.list_expired_turns(conn, before)
    for session in expired:
        removed = 1
        while removed:
            async with database.transaction(flushed=False) as conn:
                removed = await forget_turns(conn, session.memory, session.id, session.pruned_to, before)
