"""When a job is due: the times of a cron expression in the configured time zone.

Computed in wall-clock time. When the clocks go back, a time that occurs twice counts once, the first time; when they go
forward, the times that are skipped come together at that moment, so that no job overtakes one that is due before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from consolidator.errors import UsageError

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = rf"[0-7]|{'|'.join(_DAYS[:7])}"
_WEEKDAY_RANGE = re.compile(rf"(?:\*|(?P<low>{_DAY})(?:-(?P<high>{_DAY}))?)(?:/(?P<step>[1-7]))?")
_LOOKBACK_DAYS = (1, 8, 40, 400)
_MAX_CLOCK_CHANGE = timedelta(hours=3)


class WallClockTrigger:
    """Fires at the times of a cron expression.

    APScheduler's cron trigger never gets past the second of two equal hours, so it is given wall-clock times as UTC.
    """

    def __init__(self, expression: str, timezone: str) -> None:
        """Raise UsageError unless the expression is a cron expression of five fields."""
        fields = expression.split()
        try:
            if len(fields) == 5:
                fields[4] = _weekdays(fields[4])
            self._cron: CronTrigger = CronTrigger.from_crontab(" ".join(fields), timezone=UTC)
        except ValueError as error:
            raise UsageError(f"{expression!r} is not a cron expression of five fields: {error}") from error
        self._zone = ZoneInfo(timezone)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment."""
        first: datetime | None = None
        for wall, fires_at in self._firings(moment - _MAX_CLOCK_CHANGE):
            if fires_at > moment:
                first = fires_at if first is None else min(first, fires_at)
            if first is not None and wall > self._wall(first) + _MAX_CLOCK_CHANGE:
                break
        return first

    def last_until(self, moment: datetime, days: int) -> datetime | None:
        """Return the last time up to a moment, at most `days` before it."""
        last: datetime | None = None
        for wall, fires_at in self._firings(moment - timedelta(days=days)):
            if wall > self._wall(moment) + _MAX_CLOCK_CHANGE:
                break
            if fires_at <= moment:
                last = fires_at if last is None else max(last, fires_at)
        return last

    def days_between(self, first: date, last: date) -> Iterator[date]:
        """Yield the days, the first and last among them, on which it fires, in the configured time zone."""
        day: date | None = first
        while day is not None and day <= last:
            wall = self._cron.get_next_fire_time(None, datetime.combine(day, time(), UTC))
            day = None
            if wall is not None and wall.date() <= last:
                yield wall.date()
                day = wall.date() + timedelta(days=1)

    def _firings(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the wall-clock time (as UTC) of each firing from a moment on, and its actual time."""
        wall = self._cron.get_next_fire_time(None, self._wall(moment))
        while wall is not None:
            yield wall, self._find_moment(wall)
            wall = self._cron.get_next_fire_time(wall, wall + timedelta(microseconds=1))

    def _find_moment(self, wall: datetime) -> datetime:
        """Return when the clocks show a time (as UTC); of one that they skip, when they skip it."""
        later = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if self._wall(later) == wall:
            return later
        earlier = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
        while later - earlier > timedelta(seconds=1):  # the clocks are moved between the two
            middle = (earlier + (later - earlier) / 2).replace(microsecond=0)
            earlier, later = (earlier, middle) if self._wall(middle) > wall else (middle, later)
        return later

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=UTC, fold=0)


def _weekdays(text: str) -> str:
    """Name each weekday of a cron field: cron counts from Sunday, and ranges may pass Saturday; APScheduler differs."""
    names: list[str] = []
    for item in text.lower().split(","):
        match = _WEEKDAY_RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not a day of the week")
        low, high = _day(match["low"] or "0"), _day(match["high"] or match["low"] or "6")
        if match["step"] and match["low"] and not match["high"]:
            high = 6
        if high == 0 < low:  # "fri-sun"
            high = 7
        names += [_DAYS[day] for day in range(low, high + 1, int(match["step"] or 1))]
    return "*" if text == "*" or not names else ",".join(dict.fromkeys(names))


def _day(text: str) -> int:
    return int(text) if text.isdigit() else _DAYS.index(text)


def last_due(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the last time of the expression up to `now`; None if there is none within 400 days."""
    trigger = WallClockTrigger(expression, timezone)
    for days in _LOOKBACK_DAYS:
        scheduled_at = trigger.last_until(now, days)
        if scheduled_at is not None:
            return scheduled_at
    return None


def next_due(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the next time of the expression after `now`."""
    return WallClockTrigger(expression, timezone).next_after(now)
