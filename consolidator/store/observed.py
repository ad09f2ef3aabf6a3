"""Reads what is watched from outside: the latest nights, the queue of sessions to drive, and what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.store.queries import OneRow, Rows, load

_SQL = load("observed")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The latest run of a job."""

    job: str
    status: str  # running | done | failed | interrupted
    started_at: datetime
    finished_at: datetime | None
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DrivingQueue:
    """The sessions that a driver has to look at."""

    due: int
    since: datetime | None  # the last event of the one that was quiet for longest
    failing: int  # whose last wakes did not come to an end
    driven: int  # that a harness holds


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """What waits for a person or a night."""

    calls: int  # sessions with a call that waits for a person
    sessions: int  # with events that no night has read
    dead_letters: int
    open_calls: int  # of models, reserved and not settled


load_last_runs = Rows[LastRun, Sequence[str]](LastRun, _SQL["last_runs"])
load_queue = OneRow[DrivingQueue](DrivingQueue, _SQL["queue"])
load_waiting = OneRow[WaitingWork](WaitingWork, _SQL["waiting"])
