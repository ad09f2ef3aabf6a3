"""When a foreign log says that something happened, as ISO 8601 in UTC; a time nobody can read is no time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 1e11  # seconds reach this in the year 5138, milliseconds did in 1973


def utc(value: object) -> str | None:
    """Return a time as ISO 8601 in UTC, from ISO text (UTC where it names no zone) or from an epoch in s or ms."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            moment = _EPOCH + timedelta(seconds=value / 1000 if abs(value) >= _MILLISECONDS else value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return moment.isoformat()


def at(value: object) -> dict[str, str]:
    """Return the `occurred_at` of a payload, or nothing where the log tells no time."""
    moment = utc(value)
    return {} if moment is None else {"occurred_at": moment}
