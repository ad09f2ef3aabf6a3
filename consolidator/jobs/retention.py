"""Prunes what is past retention and learned from: whole days where it can, the rest in batches; says what it spared.

Only prefixes of sessions go, and with them what was said in pieces, and how far that reached each channel. Spared:
what was not learned from (dead letters block what follows them), the window of an open session, and what a live fork
reads. What was learned keeps its quotes and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from consolidator.database import Connection, Database, partitions
from consolidator.jobs.indexing.indexer import forget_turns
from consolidator.store.memory import revisions
from consolidator.store.nights import answers
from consolidator.store.queries import Row, execute, execute_each, load, rows

WINDOW = 200  # events that the context of an open session may read
BLOB_GRACE = timedelta(days=1)
BATCH = 5000
MARKED = 500  # sessions marked in one transaction
_SQL = load("log/retention")
Progress = Callable[[str], None]


@dataclass(slots=True)
class RetentionReport:
    """What retention removed, or would remove, and what it spared and why."""

    cutoff: datetime
    dry_run: bool
    sessions: int = 0
    events: int = 0
    partitions: list[str] = field(default_factory=list)
    blobs: int = 0
    spared: Counter[str] = field(default_factory=Counter)  # events by reason

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs and the ledger."""
        return {
            "cutoff": self.cutoff.isoformat(),
            "dry_run": self.dry_run,
            "sessions": self.sessions,
            "events": self.events,
            "partitions": self.partitions,
            "blobs": self.blobs,
            "spared": dict(sorted(self.spared.items())),
        }


def limit_of(session: Row) -> tuple[int, str | None]:
    """Return the last seq that may go, and the reason why not all that is old may."""
    upto, reason = session["last"], None
    if session["unlearned"] is not None and session["unlearned"] - 1 < upto:
        upto, reason = session["unlearned"] - 1, "not learned from"
    if session["open"] and session["head"] - WINDOW < upto:
        upto, reason = session["head"] - WINDOW, "window of an open session"
    if session["read_by_child"]:
        upto, reason = session["pruned_to"], "read by a live fork"
    return max(upto, session["pruned_to"]), reason


async def prune(
    database: Database,
    *,
    older_than: timedelta,
    episodes: timedelta | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RetentionReport:
    """Remove what was ingested before now - `older_than` and learned from; with `dry_run` only say what would go.

    Turns that recall searches go with their events, or stay until they are as old as `episodes`.
    """
    now = database.clock.now()
    report = RetentionReport(cutoff=now - older_than, dry_run=dry_run)
    async with database.connection() as conn:
        if not dry_run:
            await partitions.finish_drops(conn)
        found = await rows(conn, _SQL["prunable"], {"cutoff": report.cutoff})
    limits = {session["id"]: upto for session in found if (upto := limit_of(session)[0]) >= _first(session)}
    if not dry_run:
        limits = await _mark(database, limits, report.cutoff)
    _count(report, found, limits)
    whole = await _whole_days(database, report.cutoff, limits)
    if dry_run:
        report.partitions = whole
        report.blobs = await _orphans(database, now, limits)
        return report
    for part in whole:
        async with database.connection() as conn:
            if await partitions.drop(conn, part):
                report.partitions.append(part)
        if progress:
            progress(part)
    for name in await _left(database, report.cutoff, limits):
        await _delete(database, name, limits[name], report.cutoff)
        if progress:
            progress(name)
    await _drop_chunk_days(database, report.cutoff)
    await _delete_companions(database)
    await _forget_turns(database, None if episodes is None else now - episodes)
    async with database.connection() as conn:
        await answers.prune(conn, before=report.cutoff)
    report.blobs = await _sweep(database, now, report.cutoff)
    return report


def _first(session: Row) -> int:
    """Return the seq of the oldest event that is still there."""
    return int(session["last"] - session["events"] + 1)


def _count(report: RetentionReport, found: list[Row], limits: dict[str, int]) -> None:
    """Count what goes of each session and what is spared, and why."""
    for session in found:
        going = max(0, min(limits.get(session["id"], 0), session["last"]) - _first(session) + 1)
        if going:
            report.sessions += 1
            report.events += going
        if going < session["events"]:
            report.spared[limit_of(session)[1] or "changed meanwhile"] += session["events"] - going


async def _whole_days(database: Database, cutoff: datetime, limits: dict[str, int]) -> list[str]:
    """Return the partitions before the cutoff in which every event may go."""
    whole = []
    async with database.connection() as conn:
        for name, day in await _days_before(conn, cutoff, "event"):
            held = await rows(conn, _SQL["day_ends"], day)
            if all(session["last"] <= limits.get(session["id"], -1) for session in held):
                whole.append(name)
    return whole


async def _days_before(conn: Connection, cutoff: datetime, parent: str) -> list[tuple[str, dict[str, datetime]]]:
    """Return a table's partitions that hold nothing from the cutoff on, and when their day begins and ends."""
    found = []
    for name, day in await partitions.listing(conn, parent):
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        end = begin + timedelta(days=1)
        if end <= cutoff:
            found.append((name, {"day": begin, "end": end}))
    return found


async def _drop_chunk_days(database: Database, cutoff: datetime) -> None:
    """Drop the days before the cutoff of which every piece belongs to a message whose beginning is gone."""
    async with database.connection() as conn:
        for name, day in await _days_before(conn, cutoff, "generation_chunk"):
            (found,) = await rows(conn, _SQL["day_has_pieces"], day)
            if not found["kept"]:
                await partitions.drop(conn, name, "generation_chunk")


async def _mark(database: Database, limits: dict[str, int], cutoff: datetime) -> dict[str, int]:
    """Mark the prefixes as gone, some sessions at once and in order of id; return how far each is gone then.

    Sessions that moved since they were looked at are left as they are, for the next night.
    """
    more = {"cutoff": cutoff, "window": WINDOW}
    marks = [{"id": name, "upto": upto, **more} for name, upto in sorted(limits.items())]
    for first in range(0, len(marks), MARKED):
        some = marks[first : first + MARKED]
        async with database.transaction() as conn:
            await execute_each(conn, _SQL["mark"], some)
            await execute_each(conn, _SQL["drop_refs"], some)
    async with database.connection() as conn:
        found = await rows(conn, _SQL["marked"], {"ids": list(limits)})
    return {session["id"]: session["pruned_to"] for session in found}


async def _left(database: Database, cutoff: datetime, limits: dict[str, int]) -> list[str]:
    """Return which of the sessions still have events before the cutoff, now that whole days are gone."""
    async with database.connection() as conn:
        found = await rows(conn, _SQL["left"], {"cutoff": cutoff})
    return [session["session_id"] for session in found if session["session_id"] in limits]


async def _delete(database: Database, session: str, upto: int, cutoff: datetime) -> None:
    await _in_batches(database, "delete_prefix", {"id": session, "upto": upto, "cutoff": cutoff})


async def _delete_companions(database: Database) -> None:
    """Delete pieces and deliveries of messages whose beginning is gone, also what a crash or a late word left."""
    async with database.connection() as conn:
        found = await rows(conn, _SQL["outlived"])
    for session in found:
        for query in ("delete_chunks", "delete_deliveries"):
            await _in_batches(database, query, {"id": session["id"], "upto": session["pruned_to"]})


async def _in_batches(database: Database, query: str, values: dict[str, Any]) -> None:
    while True:
        async with database.connection() as conn:
            if await execute(conn, _SQL[query], {**values, "batch": BATCH}) < BATCH:
                return


async def _forget_turns(database: Database, before: datetime | None) -> None:
    """Take turns out of recall whose events are gone, and which happened `before` a time where one is given."""
    async with database.connection() as conn:
        found = await rows(conn, _SQL["forgettable"], {"before": before})
    for session in found:
        gone = 1
        while gone:
            async with database.transaction(flushed=False) as conn:
                gone = await forget_turns(conn, session["agent"], session["id"], session["pruned_to"], before)


async def _orphans(database: Database, now: datetime, limits: dict[str, int]) -> int:
    """Return how many blobs nothing would refer to any more."""
    values = {"grace": now - BLOB_GRACE, "ids": list(limits), "uptos": list(limits.values())}
    async with database.connection() as conn:
        (found,) = await rows(conn, _SQL["orphans"], values)
    return int(found["blobs"])


async def _sweep(database: Database, now: datetime, cutoff: datetime) -> int:
    """Collect orphan blobs, old idempotency keys and the claims of old runs; return how many blobs went."""
    swept = 0
    while True:
        async with database.connection() as conn:
            gone = await execute(conn, _SQL["collect_blobs"], {"grace": now - BLOB_GRACE, "batch": BATCH})
            swept += gone
            if gone < BATCH:
                await execute(conn, _SQL["forget_idempotency"], {"cutoff": cutoff})
                await execute(conn, _SQL["forget_claims"], {"cutoff": cutoff})
                await revisions.forget_outdated(conn, cutoff)
                return swept
