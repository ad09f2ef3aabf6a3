"""Finds what is past retention, marks prefixes of sessions as pruned, and deletes them in bounded batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.store.log.events import BEGINNING
from consolidator.store.queries import (
    Column,
    OneRow,
    Pairs,
    Rows,
    Statement,
    StatementEach,
    Value,
    fetch_all,
    fetch_value,
    load,
)

_SQL = load("log/retention")


@dataclass(frozen=True, slots=True)
class PrunableSession:
    """A session with events before the cutoff."""

    id: str
    pruned_to: int  # every event up to here is marked as gone
    head: int
    cutoff: datetime  # of its agent
    last: int  # seq of its last event before the cutoff
    unlearned: int | None  # seq of the first of them that was not learned from
    events: int  # how many are before the cutoff
    open: bool  # whether it is open and had an event since the cutoff
    read_floor: int | None  # the last seq before what a live child or a checkpoint reads; None where none does


@dataclass(frozen=True, slots=True)
class LatestTimes:
    """What the clock is checked against, and the size of the log."""

    database_clock: datetime
    activity: datetime | None  # the last event, or the last run that ended well
    events: int  # in the log


@dataclass(frozen=True, slots=True)
class ExpiredTurns:
    """A session with turns in recall that have outlived their events."""

    id: str
    memory: str
    pruned_to: int


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Before when events are past retention: of each agent that has days of its own, and of all others."""

    common: datetime
    by_agent: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def latest(self) -> datetime:
        """The latest of them: nothing from after it is past retention."""
        return max(self.common, *self.by_agent.values()) if self.by_agent else self.common


@dataclass(frozen=True, slots=True)
class ExpiredSession:
    """An open session past its time to live."""

    id: str
    expires_at: datetime
    is_held: bool  # a harness drives it at this moment
    is_awaited: bool  # something in it is to be answered or decided, and the time of grace for that is not over


async def list_prunable(conn: Connection, cutoffs: Cutoffs, *, window: int, now: datetime) -> list[PrunableSession]:
    """Return the sessions with events from before their cutoff, in order of id."""
    values: dict[str, Any] = {"cutoff": cutoffs.common, "latest": cutoffs.latest, "agents": list(cutoffs.by_agent)}
    values |= {"window": window, "now": now}
    values["cutoffs"] = list(cutoffs.by_agent.values())
    return await fetch_all(conn, PrunableSession, _SQL["list_prunable"], values)


async def count_orphan_blobs(conn: Connection, limits: Mapping[str, int], *, untouched_since: datetime) -> int:
    """Return how many blobs could be collected if the sessions were pruned up to their limits."""
    values = {"grace": untouched_since, "ids": list(limits), "uptos": list(limits.values())}
    return int(await fetch_value(conn, _SQL["count_orphan_blobs"], values))


lock_expired = Column[str, Sequence[str], datetime, datetime](_SQL["lock_expired"], "ids now grace")
collect_blobs = Value[int, datetime, int](_SQL["collect_blobs"], "grace batch")
list_last_events = Pairs[str, int, datetime, datetime](_SQL["list_last_events"], "begin end")
has_live_chunks = Value[bool, datetime, datetime](_SQL["has_live_chunks"], "begin end")
list_sessions_before = Column[str, datetime](_SQL["list_sessions_before"])
list_sessions_with_stale_output = Pairs[str, int](_SQL["list_sessions_with_stale_output"])
list_expired_turns = Rows[ExpiredTurns, datetime | None](ExpiredTurns, _SQL["list_expired_turns"])
forget_api_requests = Statement[datetime](_SQL["forget_api_requests"])
forget_idempotency_keys = Statement[datetime](_SQL["forget_idempotency_keys"])
forget_claims = Value[int, datetime](_SQL["forget_claims"])
get_latest_times = OneRow[LatestTimes](LatestTimes, _SQL["get_latest_times"])
begin_pruning = Value[str](_SQL["begin_pruning"])
delete_events = Value[int, str](_SQL["delete_events"], "session_id")
delete_output = Value[int, str](_SQL["delete_output"], "session_id")
load_retention_days = Pairs[str, int](_SQL["list_retention_days"])
get_pruned_seqs = Pairs[str, int, Sequence[str]](_SQL["get_pruned_seqs"])
# Marks (session, seq) as gone up to the seq, with blob references; a session that moved since stays as it is.
mark_pruned = StatementEach(_SQL["prune_session"], "id upto", order="id")
list_expired = Rows[ExpiredSession](ExpiredSession, _SQL["list_expired"], after=(BEGINNING, ""))
