"""Parse the times of foreign logs to ISO 8601 in UTC; an unreadable time counts as absent."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_MILLISECONDS = 1e11  # as seconds it is the year 5138, as milliseconds 1973


def to_utc_iso(value: object) -> str | None:
    """Return a time as ISO 8601 in UTC, from ISO text (UTC if it has no zone) or from a Unix time in s or ms."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            moment = _EPOCH + timedelta(seconds=value / 1000 if abs(value) >= _MIN_MILLISECONDS else value)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return moment.isoformat()


def occurred_at_field(value: object) -> dict[str, str]:
    """Return the field `occurred_at` of a payload; empty if the log has no readable time."""
    moment = to_utc_iso(value)
    return {} if moment is None else {"occurred_at": moment}
