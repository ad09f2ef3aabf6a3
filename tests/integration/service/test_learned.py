"""What the agents learned: what is new since a night, what took another's place, and what waits for a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from consolidator.cli.memory.lessons import print_screen
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.ledger import JobContext
from consolidator.jobs.retention import prune
from consolidator.mcp_server.texts import learned_lines
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.models.session import SteerCounts
from consolidator.models.viewer import Viewer
from consolidator.service.clients.installation import learn_history
from consolidator.service.memory.learned import list_sections, load_learned
from consolidator.service.memory.solutions import list_solutions
from consolidator.settings import Settings
from consolidator.store.memory.learned import KINDS, LearnedNews, NightSumsRow, WaitingCountsRow
from tests.conftest import NOON
from tests.lessons import save_lessons
from tests.nights import (
    cancelled_booking_events,
    failed_command_events,
    log_workdays,
    query_number,
    run_next_night,
    workday_events,
)
from tests.support import assistant_response, call_and_result, later, log_events, user_message


async def load_news(
    database: Database, since: datetime | None = None, scope: MemoryScope = MemoryScope(), limit: int = 10
) -> LearnedNews:
    """Return what was learned, by default since the latest night that learned something."""
    news = await load_learned(database, since, scope, limit=limit)
    assert news is not None
    return news


async def test_nothing_was_learned_before_the_first_night(database: Database) -> None:
    assert await load_learned(database) is None


async def test_each_night_tells_its_own_news(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 4)
    for number in range(3):
        await log_events(database, f"other{number}", cancelled_booking_events(number), project="shop")
    await log_events(
        database, "one", [user_message("Our package manager is npm."), assistant_response("Good.")], project="/src"
    )
    await run_next_night(database, clock, settings)
    first = await load_news(database)
    assert first.sums is not None
    assert (first.sums.nights, first.sums.sessions) == (1, 8)
    assert first.sums.seen == first.sums.learned + first.sums.nothing
    assert "The package manager is npm." in [fact.sentence for fact in first.facts]
    assert any("get_user → get_booking → move_booking" in row.title for row in first.procedures)
    assert first.changed == []
    assert first.as_json()["waiting"] == {"to_review": 0, "flagged": 0, "dead_letters": 0, "calls": 0, "rules": 1}

    clock.set(later(clock.now(), hours=1))
    await log_events(
        database, "two", [user_message("Our package manager is pnpm."), assistant_response("Good.")], project="/src"
    )
    await run_next_night(database, clock, settings)
    second = await load_news(database)
    assert [(fact.before, fact.sentence) for fact in second.changed] == [
        ("The package manager is npm.", "The package manager is pnpm.")
    ]
    assert second.sums is not None
    assert (second.facts, second.procedures, second.sums.sessions) == ([], [], 1)


async def test_a_second_installation_does_not_hide_what_the_night_before_learned(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "one", [user_message("Our package manager is npm.")], project="/src")
    await run_next_night(database, clock, settings)
    clock.set(later(clock.now(), hours=1))
    await log_events(database, "two", [user_message("We use tabs.")], project="/src")
    await learn_history(JobContext(database, settings))
    assert "The package manager is npm." in [fact.sentence for fact in (await load_news(database)).facts]


async def test_what_failed_again_though_a_fix_was_known_is_told_first(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_events(database, f"s{number}", failed_command_events(number))
    await run_next_night(database, clock, settings)
    assert (await load_news(database)).failed_again == []  # the fix was not known when they failed
    clock.set(later(clock.now(), hours=1))
    await log_events(database, "again", [*failed_command_events(7), user_message("We use tabs.")])
    await log_events(database, "other", failed_command_events(8))
    await run_next_night(database, clock, settings)
    news = await load_news(database)
    (again,) = news.failed_again
    assert (again.times, again.in_sessions, again.sessions) == (2, 2, 5)
    first, *_, last = list_sections(news)
    assert (first.kind, first.lines[0].text) == ("failed_again", f"{again.body['line']} (again 2 times)")
    assert (last.title, [line.text for line in last.lines]) == ("New facts, said in one session", ["We use tabs."])
    assert "failed again (2×)" in "".join(learned_lines(news.as_json()))
    clock.set(later(clock.now(), hours=1))
    await log_events(database, "quiet", [user_message("Hello.")])
    await run_next_night(database, clock, settings)
    assert (await load_news(database, clock.now())).failed_again == []


@pytest.mark.usefixtures("agents_apart")
async def test_what_followed_once_on_a_failure_without_a_word_is_not_listed(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    calls = [({"command": "probe --all"}, "", "error"), ({"command": "probe --few"}, "3 found", "ok")]
    silent = [
        event for arguments, text, status in calls for event in call_and_result("p", "Bash", arguments, text, status)
    ]
    await log_events(database, "silent", [user_message("Look around"), *silent], project="shop")
    await log_events(database, "worded", failed_command_events(0), project="shop")
    await run_next_night(database, clock, settings)
    news = (await load_news(database)).solutions
    listed = await list_solutions(database)
    assert [row.headline for row in news] == [row.headline for row in listed] == ["bash: pytets: command not found"]
    every = await list_solutions(database, SolutionFilter(include_unsolved=True))
    assert "" in [row.headline for row in every if row.body["fixes"]]


async def test_what_is_left_out_is_counted(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 4)
    await log_events(database, "more", workday_events(9), agent="other")
    await run_next_night(database, clock, settings)
    everything, best = await load_news(database, limit=1000), await load_news(database, limit=1)
    for kind in KINDS:
        assert len(getattr(best, kind)) + best.more[kind] == len(getattr(everything, kind))
    assert {fact.agent for fact in (await load_news(database, scope=MemoryScope("other"))).facts} <= {"other"}


async def test_what_nights_came_to_is_told_when_their_units_are_forgotten(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    begin = clock.now()
    await log_workdays(database, 3)
    await log_events(database, "idle", [user_message("Hello.")])
    await run_next_night(database, clock, settings)
    await log_workdays(database, 1, begin=2)  # goes on: each night has read it
    await run_next_night(database, clock, settings)
    before, latest = await load_news(database, begin), await load_news(database)
    assert before.sums is not None
    assert (before.sums.nights, before.sums.sessions, before.sums.seen) == (2, 5, 4 * len(workday_events(0)) + 1)
    clock.advance(timedelta(days=40))
    await prune(database, older_than=timedelta(days=30))
    assert await query_number(database, "select count(*) from claim") == 0
    assert await load_news(database, begin) == before
    assert (await load_news(database)).since == latest.since


async def test_a_night_that_is_at_work_is_told_from_its_units(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    await run_next_night(database, clock, settings)
    done = await load_news(database)
    async with database.connection() as conn:
        await conn.execute("update run set status = 'running', finished_at = null, report = '{}'")
    assert await load_news(database) == done


async def test_new_lessons_are_told_to_their_person_and_none_that_is_hostile(database: Database) -> None:
    ids = await save_lessons(database, "/work/shop")
    await save_lessons(database, "/work/bank", person="ann")
    since = database.clock.now() - timedelta(days=1)
    news = await load_learned(database, since)
    assert news is not None
    assert [lesson.id for lesson in news.lessons] == [ids["rtk pnpm"], ids["test"]]
    assert list_sections(news)[0].kind == "lessons"
    for scope, count in (
        (MemoryScope(peer="ann"), 2),
        (MemoryScope(project="/work/bank"), 0),
        (MemoryScope("codex"), 2),
    ):
        told = await load_learned(database, since, scope)
        assert told is not None
        assert len(told.lessons) == count
    narrowed = await load_learned(database, since, viewer=Viewer(agent="codex"))
    assert narrowed is not None
    assert narrowed.lessons == []  # other agents had a part in them


def test_a_person_is_told_of_how_many_sessions_where_that_is_certain(capsys: pytest.CaptureFixture[str]) -> None:
    sums = NightSumsRow(nights=1, sessions=10, seen=182, learned=0, nothing=182, deferred=0, dead=0)
    news = LearnedNews(
        NOON, sums, SteerCounts(), [], [], [], [], [], [], limit=10, more={}, waiting=WaitingCountsRow(0, 0, 0, 0)
    )
    print_screen(news)
    print_screen(replace(news, sums=replace(sums, nights=5)))
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Since"))
    assert first.endswith("from 182 events of 10 sessions:")
    assert second.endswith("from 182 events in 5 nights:")
