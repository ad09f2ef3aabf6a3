"""When a job is due: the times of a cron expression in the configured time zone.

Computed in wall-clock time. When the clocks go back, a time that occurs twice counts once, the first time; when they go
forward, the times that are skipped come together at that moment, so that no job overtakes one that is due before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from consolidator.errors import UsageError

_MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Each field with its least and greatest value, and what people may write in place of a number.
_FIELDS = (
    ("minute", 0, 59, ()), ("hour", 0, 23, ()), ("day", 1, 31, ()), ("month", 1, 12, _MONTHS), ("weekday", 0, 6, _DAYS),
)  # fmt: skip
_ITEM = re.compile(r"(?:\*|(?P<low>[0-9a-z]+)(?:-(?P<high>[0-9a-z]+))?)(?:/(?P<step>[1-9]\d*))?")
_LOOKBACK_DAYS = (1, 8, 40, 400)
_LOOKAHEAD_DAYS = 366 * 8  # a 29th of February comes within these
_MAX_CLOCK_CHANGE = timedelta(hours=3)


class WallClockTrigger:
    """The times of a cron expression; a day has to fit both the day of the month and the weekday."""

    def __init__(self, expression: str, timezone: str) -> None:
        """Raise UsageError unless the expression is a cron expression of five fields."""
        try:
            fields = zip(expression.lower().split(), _FIELDS, strict=True)
            minutes, hours, *days = (_read_field(text, *field) for text, field in fields)
        except ValueError as error:
            raise UsageError(f"{expression!r} is not a cron expression of five fields: {error}") from error
        self._times = [timedelta(hours=hour, minutes=minute) for hour in sorted(hours) for minute in sorted(minutes)]
        self._days, self._months, self._weekdays = days
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
        for day in (first + timedelta(days=number) for number in range((last - first).days + 1)):
            is_weekday = day.isoweekday() % 7 in self._weekdays
            if is_weekday and day.day in self._days and day.month in self._months:
                yield day

    def _firings(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the wall-clock time (as UTC) of each firing from a moment on, and its actual time."""
        begin = self._wall(moment)
        for day in self.days_between(begin.date(), begin.date() + timedelta(days=_LOOKAHEAD_DAYS)):
            midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
            for wall in (midnight + time for time in self._times if midnight + time >= begin):
                yield wall, self._find_moment(wall)

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


def _read_field(text: str, name: str, least: int, most: int, words: tuple[str, ...]) -> set[int]:
    """Return the values that a field stands for; a range of weekdays may pass Saturday, and Sunday is 0 or 7."""
    values: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is no {name}")
        low = _read_value(match["low"] or str(least), words)
        is_open = match["step"] is not None or match["low"] is None  # up to the greatest value
        high = _read_value(match["high"], words) if match["high"] else most if is_open else low
        if name == "weekday" and high == 0 < low:  # "fri-sun"
            high = 7
        if not least <= low <= high <= most + (name == "weekday"):
            raise ValueError(f"{item!r} is no {name}")
        every = range(low, high + 1, int(match["step"] or 1))
        values.update(value % 7 if name == "weekday" else value for value in every)
    return values


def _read_value(text: str, words: tuple[str, ...]) -> int:
    return words.index(text) if text in words else int(text)


def last_due(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the last time of the expression up to `now`; None if there is none within 400 days."""
    trigger = WallClockTrigger(expression, timezone)
    return next(filter(None, (trigger.last_until(now, days) for days in _LOOKBACK_DAYS)), None)


def next_due(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the next time of the expression after `now`."""
    return WallClockTrigger(expression, timezone).next_after(now)
