"""When a night is due: cron on the wall clock, where some hours do not exist and some come twice."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.errors import UsageError
from consolidator.jobs.cron import WallClockTrigger, last_due, next_due
from tests.support import count_examples

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo")
EXPRESSIONS = ("45 2 * * *", "0 3 * * *", "30 2 * * 0", "*/20 1-3 * * *", "0 0 1 * *")


def at(text: str) -> datetime:
    """Return a moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def scheduled_times(expression: str, timezone: str, begin: str, days: int) -> list[datetime]:
    """Return the due times that a check every ten minutes finds."""
    times: list[datetime] = []
    for step in range(days * 24 * 6):
        scheduled_at = last_due(expression, timezone, at(begin) + timedelta(minutes=10 * step))
        assert scheduled_at is not None
        if not times or scheduled_at != times[-1]:
            times.append(scheduled_at)
    return times


def test_the_latest_moment_is_the_one_that_has_come() -> None:
    assert last_due("0 3 * * *", "UTC", at("2026-03-02T03:00")) == at("2026-03-02T03:00")
    assert last_due("0 3 * * *", "UTC", at("2026-03-02T02:59:59")) == at("2026-03-01T03:00")
    assert next_due("0 3 * * *", "UTC", at("2026-03-02T03:00")) == at("2026-03-03T03:00")


def test_a_night_that_does_not_exist_comes_once_when_the_clocks_are_moved() -> None:
    times = scheduled_times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 3)
    assert times == [at("2026-03-28T01:30"), at("2026-03-29T01:00"), at("2026-03-30T00:30"), at("2026-03-31T00:30")]
    assert times[1].astimezone(BERLIN).hour == 3


@pytest.mark.parametrize(
    ("timezone", "day"),
    [
        ("Europe/Berlin", "2026-03-28"),
        ("America/New_York", "2026-03-07"),
        ("Australia/Lord_Howe", "2026-10-03"),  # half an hour
        ("Africa/Cairo", "2026-04-23"),  # at midnight
        ("Pacific/Apia", "2011-12-29"),  # a whole day
        ("UTC", "2026-03-28"),
    ],
)
@pytest.mark.parametrize("shift", range(0, 180, 15))
def test_jobs_stay_in_their_order_where_the_clocks_are_moved(timezone: str, day: str, shift: int) -> None:
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC)
    before, after = (45 + shift) % 1440, (60 + shift) % 1440
    first = next_due(f"{before % 60} {before // 60} * * *", timezone, noon)
    second = next_due(f"{after % 60} {after // 60} * * *", timezone, noon)
    assert first is not None
    assert second is not None
    assert first <= second <= first + timedelta(minutes=15)


def test_a_night_that_comes_twice_is_one_night() -> None:
    times = scheduled_times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 3)
    assert times == [at("2026-10-24T00:30"), at("2026-10-25T00:30"), at("2026-10-26T01:30"), at("2026-10-27T01:30")]


@pytest.mark.parametrize("timezone", ZONES)
def test_every_day_of_a_year_has_one_night(timezone: str) -> None:
    trigger, moment = WallClockTrigger("30 2 * * *", timezone), at("2026-01-01T12:00")
    days = []
    for _ in range(365):
        following = trigger.next_after(moment)
        assert following is not None
        moment = following
        days.append(moment.astimezone(ZoneInfo(timezone)).date())
    assert len(set(days)) == 365
    assert days == sorted(days)


@settings(max_examples=count_examples(150), deadline=None, derandomize=True)
@given(
    expression=st.sampled_from(EXPRESSIONS),
    timezone=st.sampled_from(ZONES),
    seconds=st.integers(0, 366 * 24 * 3600),
)
def test_now_lies_between_the_latest_and_the_next_moment(expression: str, timezone: str, seconds: int) -> None:
    now = at("2026-01-01T00:00") + timedelta(seconds=seconds)
    last, following = last_due(expression, timezone, now), next_due(expression, timezone, now)
    assert last is not None
    assert following is not None
    assert last <= now < following
    assert next_due(expression, timezone, last - timedelta(microseconds=1)) == last
    assert last_due(expression, timezone, following) == following


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", {6}), ("7", {6}), ("1", {0}), ("1-5", {0, 1, 2, 3, 4}), ("0-4", {6, 0, 1, 2, 3}), ("5-7", {4, 5, 6}),
        ("0-6", set(range(7))), ("*/2", {6, 1, 3, 5}), ("1-5/2", {0, 2, 4}), ("mon,FRI", {0, 4}),
        ("fri-sun", {4, 5, 6}), ("sat,0", {5, 6}), ("*", set(range(7))), ("5/1", {4, 5}),
    ],
)  # fmt: skip
def test_weekdays_are_cron_s_own(field: str, days: set[int]) -> None:
    moment, weekdays = at("2026-03-01T12:00"), set()
    for _ in range(7):
        following = next_due(f"0 3 * * {field}", "UTC", moment)
        assert following is not None
        moment = following
        weekdays.add(moment.weekday())
    assert weekdays == days


@pytest.mark.parametrize(
    "expression", ["", "0 3 * *", "61 3 * * *", "0 3 * * 8", "0 3 * * mon-", "0 3 * * 1#2", "at night"]
)
def test_what_is_no_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="not a cron expression"):
        last_due(expression, "UTC", at("2026-03-01T12:00"))


def test_a_day_that_never_comes_is_never_owed() -> None:
    assert last_due("0 3 31 2 *", "UTC", at("2026-03-01T12:00")) is None
    assert next_due("0 3 31 2 *", "UTC", at("2026-03-01T12:00")) is None


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 3 * * *", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("* * * * *", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("30 23 * * mon,thu", [2, 5]),
        ("0 3 8,20 * *", [8]),
        ("0 3 30 2 *", []),
    ],
)
def test_the_days_on_which_a_job_is_due(expression: str, days: list[int]) -> None:
    trigger = WallClockTrigger(expression, "Europe/Berlin")
    assert [day.day for day in trigger.days_between(date(2026, 3, 1), date(2026, 3, 8))] == days
