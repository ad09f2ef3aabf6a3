"""What the agents learned: what is new since a night, what took another's place, and what waits for a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.cli.learned import _show_person
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.retention import prune
from consolidator.settings import Settings
from consolidator.store.memory import learned
from tests.conftest import NOON
from tests.nights import count, tonight, workday, worked
from tests.support import answered, later, logged, said


async def told(database: Database, **more: Any) -> dict[str, Any]:
    """Return what was learned since the latest night that learned something."""
    async with database.connection() as conn:
        since = await learned.latest(conn)
        assert since is not None
        return await learned.learned(conn, since, **more)


async def test_nothing_was_learned_before_the_first_night(database: Database) -> None:
    async with database.connection() as conn:
        assert await learned.latest(conn) is None


async def test_each_night_tells_its_own_news(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await worked(database, 4)
    await logged(database, "one", [said("Our package manager is npm."), answered("Good.")], project="/src")
    await tonight(database, clock, settings)
    first = await told(database)
    assert (first["nights"], first["sessions"]) == (1, 5)
    assert first["seen"] == first["learned"] + first["nothing"]
    assert "Their package manager is npm." in [one["sentence"] for one in first["facts"]]
    assert first["procedures"]
    assert first["changed"] == []
    assert first["waiting"] == {"to_review": 0, "flagged": 0, "dead_letters": 0, "calls": 0}

    clock.set(later(clock.now(), hours=1))
    await logged(database, "two", [said("Our package manager is pnpm."), answered("Good.")], project="/src")
    await tonight(database, clock, settings)
    second = await told(database)
    assert [(one["before"], one["sentence"]) for one in second["changed"]] == [
        ("Their package manager is npm.", "Their package manager is pnpm.")
    ]
    assert (second["facts"], second["procedures"], second["sessions"]) == ([], [], 1)


async def test_what_is_left_out_is_counted(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await worked(database, 4)
    await logged(database, "more", workday(9), agent="other")
    await tonight(database, clock, settings)
    everything, some = await told(database, limit=1000), await told(database, limit=1)
    for kind in learned.KINDS:
        assert len(some[kind]) + some["more"][kind] == len(everything[kind])
    assert {one["agent"] for one in (await told(database, agent="other"))["facts"]} <= {"other"}


async def test_what_nights_came_to_is_told_when_their_units_are_forgotten(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    begin = clock.now()
    await worked(database, 3)
    await logged(database, "idle", [said("Hello.")])
    await tonight(database, clock, settings)
    await worked(database, 1, begin=2)  # goes on: each night has read it
    await tonight(database, clock, settings)
    async with database.connection() as conn:
        before, latest = await learned.learned(conn, begin), await learned.latest(conn)
        assert (before["nights"], before["sessions"], before["seen"]) == (2, 5, 4 * len(workday(0)) + 1)
        clock.advance(timedelta(days=40))
        await prune(database, older_than=timedelta(days=30))
        assert await count(database, "select count(*) from claim") == 0
        assert await learned.learned(conn, begin) == before
        assert await learned.latest(conn) == latest


async def test_a_night_that_is_at_work_is_told_from_its_units(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 2)
    await tonight(database, clock, settings)
    done = await told(database)
    async with database.connection() as conn:
        await conn.execute("update run set status = 'running', finished_at = null, report = '{}'")
    assert await told(database) == done


def test_a_person_is_told_of_how_many_sessions_where_that_is_certain(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = dict.fromkeys(learned.KINDS, ())
    found |= {"since": NOON, "nights": 1, "seen": 182, "sessions": 10, "more": {}}
    _show_person(found)
    _show_person({**found, "nights": 5})
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first.endswith("from 182 events of 10 sessions:")
    assert second.endswith("from 182 events in 5 nights:")
