"""The ledger's queries: runs, their units and leases, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ulid import ULID

from consolidator.database.partitions import Connection
from consolidator.models.run import ClaimRow, DeadLetterRow, RunRow, UnitKind
from consolidator.store.queries import (
    Attempt,
    AttemptEach,
    Column,
    FirstRow,
    OneRow,
    Pairs,
    Rows,
    Statement,
    Value,
    execute,
    fetch_all,
    fetch_value,
    load,
)

_SQL = load("nights/runs")


@dataclass(frozen=True, slots=True)
class RunSums:
    """The sums over a run's units, in events where nothing else is said."""

    sessions: int  # with events that were seen
    units: int  # of the first phase
    dead_units: int
    seen: int
    learned: int
    nothing: int
    deferred: int
    dead: int


@dataclass(frozen=True, slots=True)
class ListedRun(RunRow):
    """A run with the sums over its units."""

    seen: int
    learned: int
    nothing: int
    deferred: int
    dead: int
    units: int  # of the first phase


@dataclass(frozen=True, slots=True)
class ClaimedUnit:
    """A unit that an owner has just claimed, or still holds."""

    kind: UnitKind
    unit: str
    attempts: int  # this one included


@dataclass(frozen=True, slots=True)
class ListedDeadLetter(DeadLetterRow):
    """A dead letter with its session's origin."""

    origin: str | None


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds units of a run."""

    owner: str
    units: int
    until: datetime  # unless it renews the last of its leases


async def start(
    conn: Connection,
    *,
    job: str,
    scheduled_at: datetime,
    trigger: str,
    owner: str,
    now: datetime,
    arguments: dict[str, Any] | None = None,
) -> RunRow:
    """Return the run of a job at a scheduled time; start it unless another replica has."""
    named = {"id": str(ULID.from_datetime(now)), "arguments": arguments or {}}
    await _start(conn, job=job, scheduled_at=scheduled_at, trigger=trigger, owner=owner, now=now, **named)
    return await _at_scheduled_time(conn, job, scheduled_at)


async def claim_units(
    conn: Connection,
    run_id: str,
    phase: int,
    owner: str,
    *,
    now: datetime,
    until: datetime,
    limit: int = 1,
    names: Sequence[str] | None = None,
) -> list[ClaimedUnit]:
    """Claim up to `limit` free units that were not tried before, else one that was; return them by name.

    With `names` only of these, which an engine has handed to this owner.
    """
    values = {"run": run_id, "phase": phase, "owner": owner, "now": now, "until": until}
    values["units"] = None if names is None else list(names)
    claimed = await fetch_all(conn, ClaimedUnit, _SQL["claim"], {**values, "tried": False, "limit": limit})
    if not claimed:
        claimed = await fetch_all(conn, ClaimedUnit, _SQL["claim"], {**values, "tried": True, "limit": 1})
    return sorted(claimed, key=lambda unit: unit.unit)


async def renew_leases(conn: Connection, run_id: str, *, owner: str, now: datetime, until: datetime) -> None:
    """Renew an owner's leases in a run, and the run's heartbeat."""
    await execute(conn, _SQL["renew_leases"], {"run": run_id, "owner": owner, "until": until})
    await execute(conn, _SQL["heartbeat"], {"run": run_id, "now": now})


@dataclass(frozen=True, slots=True)
class UnitProgress:
    """What one step of a unit did, in events."""

    kind: UnitKind
    unit: str
    done: bool  # whether the unit has ended
    learned: int = 0
    nothing: int = 0
    deferred: int = 0
    dead: int = 0


async def add_dead_letters(
    conn: Connection, run_id: str, *, session: str, failures: Mapping[int, str], now: datetime
) -> None:
    """Set aside events of a session that could not be learned from; `failures` maps a seq to "extractor: error"."""
    for seq, failure in failures.items():
        extractor, _, error = failure.partition(": ")
        values = {"id": str(ULID()), "session": session, "seq": seq, "extractor": extractor, "error": error}
        await add_dead_letter(conn, run_id, **values, now=now)


resume = Statement[str, str, datetime](_SQL["resume"], "run owner now")
list_unfinished = Column[str, str, int, int](_SQL["unfinished_units"], "run phase limit")
count_dead_events = Statement[str, UnitKind, str, int](_SQL["count_dead_events"], "run kind unit events")
list_leased = Rows[ClaimedUnit, str, str](ClaimedUnit, _SQL["leased_units"], "run owner")
mark_interrupted = Statement[str, datetime](_SQL["mark_interrupted"], "run now")
abandon_unfinished = Statement[str, str, datetime](_SQL["abandon_unfinished"], "run job now")
close_silent_runs = Statement[datetime, datetime, Sequence[str]](_SQL["close_silent_runs"], "since now jobs")
is_unfinished = Value[bool, str](_SQL["is_unfinished"])
find_last_ended = FirstRow[RunRow, str](RunRow, _SQL["last_ended"])
unlock_job = Statement[str](_SQL["unlock_job"])
list_holders = Rows[LeaseHolder, str](LeaseHolder, _SQL["list_holders"])


async def hold(conn: Connection, executor: str, *, lease_seconds: int) -> None:
    """Hold a process's lock as long as the connection lives, at most a lease longer than its machine."""
    await execute(conn, _SQL["notice_dead_peers"], {"seconds": str(max(1, lease_seconds // 4))})
    await execute(conn, _SQL["lock"], {"executor": executor})


async def try_lock(conn: Connection, executor: str, *, lease_seconds: int) -> bool:
    """Take the lock of a process that has ended; return whether it has, and nobody else sees to it.

    One that has not said anything for a lease loses its lock, and is told so when it wakes.
    """
    await execute(conn, _SQL["end_silent"], {"executor": executor, "seconds": lease_seconds})
    return bool(await fetch_value(conn, _SQL["try_lock"], {"executor": executor}))


unlock = Statement[str](_SQL["unlock"])
release_others = Statement[str, int, Sequence[str], str](_SQL["release_others"], "run phase units owner")
settle_dead_letters = Statement[str, Sequence[int], str, datetime](
    _SQL["settle_dead_letters"], "session seqs settlement now"
)
get = OneRow[RunRow, str](RunRow, _SQL["get"], missing="no run {!r}; `consolidator runs` lists them")
_start = Statement[()](_SQL["start"])
_at_scheduled_time = OneRow[RunRow, str, datetime](RunRow, _SQL["at_scheduled_time"], "job scheduled_at")
find_unfinished = FirstRow[RunRow](RunRow, _SQL["unfinished"])
last_scheduled = Value[datetime | None, str](_SQL["last_scheduled"], "job")
add_units = Statement[str, UnitKind, Sequence[str]](_SQL["add_units"], "run_id kind names", phase=0, reopen=False)
add_foreign = Statement[str, str, int](_SQL["add_foreign"], "run_id session count")
count_foreign = Value[int, str](_SQL["count_foreign"])
count_unfinished = Value[int, str](_SQL["count_unfinished"], "run_id", limit=None)
sum_units = OneRow[RunSums, str](RunSums, _SQL["sums"])
try_lock_job = Value[bool, str](_SQL["try_lock_job"])
list_sessions_with_dead_letters = Column[str, str | None](_SQL["sessions_with_dead_letters"])
list_units = Rows[ClaimRow, str](ClaimRow, _SQL["list_units"], "run_id", limit=200)
list_dead_letters = Rows[ListedDeadLetter](
    ListedDeadLetter, _SQL["list_dead_letters"], run_or_letter_id=None, session=None, include_settled=False, limit=200
)
release_units = Statement[str](_SQL["release_units"], "run_id", count_attempt=True)
list_notes = Pairs[str, str, str, UnitKind](_SQL["notes"], "run kind")
set_note = Statement[str, UnitKind, str, str | None](_SQL["set_note"], "run kind unit note")
# False if another replica has ended it before; with `died` the death is counted.
finish = Attempt[str](_SQL["finish"], "run", error=None, died=False)
# The new status, None if the owner has lost the unit; with an error it counts as an attempt.
return_unit = Value[str | None, str, UnitKind, str](_SQL["return_unit"], "run kind unit", max_attempts=0, error=None)
add_dead_letter = Statement[str](_SQL["add_dead_letter"], "run")
# Adds the counts of steps to their units; False if the owner has lost one: then the caller must not commit.
record_progress = AttemptEach(_SQL["record_progress"])
list_runs = Rows[ListedRun](ListedRun, _SQL["list_runs"], job=None, after=None, limit=20)  # the latest first
