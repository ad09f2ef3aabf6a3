"""Sessions end when their time to live is over, and agents keep their events for days of their own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import RetentionHalted
from consolidator.jobs.retention import GRACE, prune
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.session import lease as leases
from consolidator.runtime.session.creation import SessionRequest, create_session
from consolidator.runtime.turn import sessions as people
from consolidator.service.sessions.agents import change_agent
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from tests.nights import run_next_night, workday_events
from tests.runtime import describe_log, read_log
from tests.support import assert_invariants, log_events

SETTINGS = Settings(home=Path("/nonexistent"))
MONTH, DAY = timedelta(days=30), timedelta(days=1)
ENDED = NewEvent(EventType.SESSION_END, {})


async def create(database: Database, **wanted: Any) -> SessionRow:
    """Create a session that lives for a day."""
    return await create_session(database, SETTINGS, SessionRequest(session_ttl_seconds=86_400, **wanted), agent="desk")


async def load(database: Database, session_id: str) -> SessionRow:
    """Return a session."""
    async with database.connection() as conn:
        return await sessions.get(conn, session_id)


async def test_a_session_whose_time_is_over_is_ended_by_the_operator_and_nothing_is_deleted(
    database: Database, clock: FrozenClock
) -> None:
    old, forever = await create(database), await create_session(database, SETTINGS, SessionRequest(), agent="desk")
    clock.advance(timedelta(hours=20))
    young = await create(database)
    clock.advance(timedelta(hours=10))
    preview = await prune(database, older_than=MONTH, dry_run=True)
    assert (preview.expired, (await load(database, old.id)).status) == (1, "open")
    report = await prune(database, older_than=MONTH)
    row = await load(database, old.id)
    assert (report.expired, row.status, row.completed_at, row.current) == (1, "ended", clock.now(), False)
    end = (await read_log(database, old.id))[-1]
    assert (end.type, end.data["reason"], end.principal) == (EventType.SESSION_END, "expired", "operator")
    assert [(await load(database, name)).status for name in (forever.id, young.id)] == ["open", "open"]
    assert (await prune(database, older_than=MONTH)).expired == 0
    await assert_invariants(database)


async def test_more_sessions_than_a_batch_are_ended(
    database: Database, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consolidator.jobs.retention.ENDED_BATCH", 3)
    names = [(await create(database)).id for _ in range(7)]
    clock.advance(2 * DAY)
    assert (await prune(database, older_than=MONTH)).expired == 7
    assert {(await load(database, name)).status for name in names} == {"ended"}


async def test_a_session_that_is_held_or_awaits_somebody_is_spared_the_latter_for_a_time_of_grace(
    database: Database, clock: FrozenClock
) -> None:
    held, waiting = await create(database), await create(database)
    await people.send_message(database, waiting.id, "are you there?")
    clock.advance(2 * DAY)
    lease = await leases.acquire_lease(database, held.id, seconds=3600)
    assert lease is not None
    report = await prune(database, older_than=MONTH)
    assert (report.expired, report.unexpired) == (0, {"driven at this moment": 1, "something awaits an answer": 1})
    clock.advance(GRACE)
    assert (await prune(database, older_than=MONTH)).expired == 2
    assert describe_log(await read_log(database, waiting.id)) == ["SessionStart", "user: are you there?", "SessionEnd"]
    assert not (await load(database, waiting.id)).pending


async def test_a_clock_that_has_jumped_ends_no_session(database: Database, clock: FrozenClock) -> None:
    session = await create(database)
    clock.advance(timedelta(days=400))
    with pytest.raises(RetentionHalted, match="ended no session"):
        await prune(database, older_than=MONTH, max_share=0.5)
    assert (await load(database, session.id)).status == "open"


async def test_an_agent_keeps_its_events_for_days_of_its_own(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """A12."""
    for agent in ("brief", "common", "long"):
        await log_events(database, agent, [*workday_events(0), ENDED], agent=agent)
    await change_agent(database, "brief", {"retention_days": 5})
    await change_agent(database, "long", {"retention_days": 365})
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=10))
    report = await prune(database, older_than=MONTH)
    assert (report.sessions, set(report.agents)) == (1, {"brief", "long"})
    assert [(await load(database, name)).pruned_to > 0 for name in ("brief", "common", "long")] == [True, False, False]
    assert "event_20260302" not in report.partitions  # the day holds the others' events
    clock.advance(timedelta(days=30))
    preview = await prune(database, older_than=MONTH, dry_run=True)
    assert (preview.sessions, (await prune(database, older_than=MONTH)).sessions) == (1, 1)
    assert [(await load(database, name)).pruned_to > 0 for name in ("brief", "common", "long")] == [True, True, False]
    await assert_invariants(database)
    clock.advance(timedelta(days=400))
    report = await prune(database, older_than=MONTH)
    assert report.sessions == 1
    assert report.partitions[0] == "event_20260302"  # now the whole day may go


async def test_days_of_its_own_spare_what_was_not_learned_from(database: Database, clock: FrozenClock) -> None:
    await change_agent(database, "brief", {"retention_days": 1})
    await log_events(database, "unread", [*workday_events(0), ENDED], agent="brief")
    clock.advance(timedelta(days=10))
    report = await prune(database, older_than=MONTH)
    assert (report.events, list(report.spared)) == (0, ["not learned from"])
