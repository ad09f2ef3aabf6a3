"""When a job is owed: the latest moment of a cron expression that has come, in the configured time zone.

Reckoned in wall-clock time, so that a moment that a change of the clocks repeats comes once (the first time), and one
that it leaves out comes as much later as the clocks were moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger

from consolidator.errors import UsageError

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = rf"[0-7]|{'|'.join(_DAYS[:7])}"
_SPAN = re.compile(rf"(?:\*|(?P<low>{_DAY})(?:-(?P<high>{_DAY}))?)(?:/(?P<step>[1-7]))?")
_LOOK_BACK = (1, 8, 40, 400)  # days
_CHANGE = timedelta(hours=3)  # no change of the clocks is larger


class WallClock(BaseTrigger):
    """Fires at the moments of a cron expression.

    APScheduler's own cron trigger names the second of two equal hours again and again, without end, so it only ever
    sees time that is not set back: wall-clock time.
    """

    def __init__(self, expression: str, timezone: str) -> None:
        """Raise UsageError where the expression is no cron expression of five fields."""
        fields = expression.split()
        try:
            if len(fields) == 5:
                fields[4] = _weekdays(fields[4])
            self._cron: CronTrigger = CronTrigger.from_crontab(" ".join(fields), timezone=UTC)
        except ValueError as error:
            raise UsageError(f"{expression!r} is not a cron expression of five fields: {error}") from error
        self._zone = ZoneInfo(timezone)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> Any:
        """Return the first moment after the previous one, or after now."""
        return self.after(previous_fire_time or now)

    def after(self, moment: datetime) -> datetime | None:
        """Return the first moment after another."""
        best: datetime | None = None
        for wall, found in self._from(moment - _CHANGE):
            if found > moment:
                best = found if best is None else min(best, found)
            if best is not None and wall > self._wall(best) + _CHANGE:
                break
        return best

    def last(self, moment: datetime, days: int) -> datetime | None:
        """Return the last moment that is not after another, looking back so many days."""
        best: datetime | None = None
        for wall, found in self._from(moment - timedelta(days=days)):
            if wall > self._wall(moment) + _CHANGE:
                break
            if found <= moment:
                best = found if best is None else max(best, found)
        return best

    def _from(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield what the clock on the wall shows at each firing, and when that is."""
        wall = self._cron.get_next_fire_time(None, self._wall(moment))
        while wall is not None:
            yield wall, wall.replace(tzinfo=self._zone).astimezone(UTC)
            wall = self._cron.get_next_fire_time(wall, wall + timedelta(microseconds=1))

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=UTC, fold=0)


def _weekdays(told: str) -> str:
    """Name each weekday of a cron field: cron counts them from Sunday and runs past Saturday, APScheduler does not."""
    names: list[str] = []
    for item in told.lower().split(","):
        found = _SPAN.fullmatch(item)
        if found is None:
            raise ValueError(f"{item!r} is no day of the week")
        low, high = _day(found["low"] or "0"), _day(found["high"] or found["low"] or "6")
        if found["step"] and found["low"] and not found["high"]:
            high = 6
        if high == 0 < low:  # "fri-sun"
            high = 7
        names += [_DAYS[day] for day in range(low, high + 1, int(found["step"] or 1))]
    return "*" if told == "*" or not names else ",".join(dict.fromkeys(names))


def _day(told: str) -> int:
    return int(told) if told.isdigit() else _DAYS.index(told)


def latest(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the last moment of the expression that is not after `now`."""
    trigger = WallClock(expression, timezone)
    for days in _LOOK_BACK:
        found = trigger.last(now, days)
        if found is not None:
            return found
    return None


def upcoming(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the next moment of the expression after `now`."""
    return WallClock(expression, timezone).after(now)
