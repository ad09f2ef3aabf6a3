"""Nights on the page: what each saw, and what could not be learned from, tried again."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import psycopg
from playwright.sync_api import Page, expect

from consolidator.jobs.cron import WallClockTrigger
from consolidator.service.memory.learned import WeekRow
from consolidator.ui.pages.helped import BOTTOM, TOP, draw_weeks
from consolidator.ui.pages.nights import make_calendar
from tests.acceptance.api.server import ApiServer
from tests.acceptance.ui.conftest import check_looks
from tests.conftest import NOON

INJECTION = """
insert into injection (id, session_id, agent, moment, tokens, created_at)
select 'told', 's', 'coder', 'session_start', 250, %s where not exists (select from injection where created_at = %s)"""


def test_a_dead_letter_is_retried(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/nights")
    person.locator(".calendar a").first.click()
    expect(person.get_by_role("heading", name="What it saw")).to_be_visible()
    expect(person.get_by_text("<b>it broke</b>")).to_be_visible()
    check_looks(person, "night")
    person.get_by_role("button", name="Retry all").click()
    address = person.url
    for _ in range(50):
        if person.get_by_role("heading", name="Could not be learned from").count() == 0:
            break
        person.goto(address)
    expect(person.get_by_role("heading", name="Could not be learned from")).to_have_count(0)


def test_what_came_of_telling_is_shown_by_week(person: Page, served: ApiServer) -> None:
    with psycopg.connect(served.dsn) as conn:
        conn.execute(INJECTION, (NOON, NOON))
    person.goto(f"{served.address}/ui/helped")
    expect(person.get_by_text("250 tokens in 1 session")).to_be_visible()
    expect(person.locator(".weeks .spent")).to_have_count(1)
    check_looks(person, "helped")
    row = WeekRow(
        NOON.date(), told=4, told_failed=1, untold=2, untold_failed=2, runs=0, runs_failed=0, tokens=0, sessions=0
    )
    failures, tries, spent = draw_weeks([row])
    assert (
        "in 2 of 2 chances (100%) where nobody was told of it, and in 1 of 4 chances (25%) after it was told"
        in failures.words
    )
    assert [round(bar.height / (BOTTOM - TOP), 2) for bar in failures.bars] == [1.0, 0.25]
    assert (tries.bars, spent.bars) == ([], [])


def test_a_day_without_a_night_is_missed_and_one_that_failed_stands_out() -> None:
    class Run:
        seen, learned, dead = 3, 1, 0

        def __init__(self, days: int, status: str = "done") -> None:
            self.started_at, self.status = NOON - timedelta(days=days), status

    runs, today = [Run(1), Run(3), Run(4, "failed"), Run(4)], NOON.date()
    every_day = list(WallClockTrigger("0 3 * * *", "UTC").days_between(today - timedelta(weeks=8), today))
    calendar = make_calendar(runs, today, ZoneInfo("UTC"), every_day)  # type: ignore[arg-type]
    nights = {night.day: night for week in calendar for night in week}
    latest = [nights[today - timedelta(days=days)] for days in range(6)]
    assert [night.state for night in latest] == ["before", "learned", "missed", "learned", "failed", "before"]
    assert latest[4].words.startswith("the night failed")  # though one went well after it
    weekly = [today - timedelta(days=days) for days in (2, 9)]  # the latter before the first night
    calendar = make_calendar([Run(1), Run(7)], today, ZoneInfo("UTC"), weekly)  # type: ignore[list-item]
    assert [night.day for week in calendar for night in week if night.state == "missed"] == weekly[:1]
