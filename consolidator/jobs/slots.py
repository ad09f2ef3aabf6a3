"""When a job is owed: the latest moment of a cron expression that has come, in the configured time zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from consolidator.errors import UsageError

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LOOK_BACK = (1, 8, 40, 400)  # days


def trigger(expression: str, timezone: str) -> CronTrigger:
    """Return the trigger of a five-field cron expression; raise UsageError where it is none."""
    fields = expression.split()
    if len(fields) == 5:
        # APScheduler counts weekdays from Monday, cron from Sunday: say them by name.
        fields[4] = "".join(_DAYS[int(c)] if c.isdigit() and int(c) < 8 else c for c in fields[4])
    try:
        found: CronTrigger = CronTrigger.from_crontab(" ".join(fields), timezone=ZoneInfo(timezone))
    except ValueError as error:
        raise UsageError(f"{expression!r} is not a cron expression of five fields: {error}") from error
    return found


def latest(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the last moment of the expression that is not after `now`."""
    schedule = trigger(expression, timezone)
    for days in _LOOK_BACK:
        found, moment = None, schedule.get_next_fire_time(None, now - timedelta(days=days))
        while moment is not None and moment <= now:
            found, moment = moment, schedule.get_next_fire_time(moment, moment + timedelta(microseconds=1))
        if found is not None:
            return datetime.fromtimestamp(found.timestamp(), tz=now.tzinfo)
    return None


def upcoming(expression: str, timezone: str, now: datetime) -> datetime | None:
    """Return the next moment of the expression after `now`."""
    found = trigger(expression, timezone).get_next_fire_time(None, now + timedelta(microseconds=1))
    return None if found is None else datetime.fromtimestamp(found.timestamp(), tz=now.tzinfo)
