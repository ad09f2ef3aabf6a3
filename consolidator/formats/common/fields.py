"""Reads fields of foreign logs, whatever they hold: texts, numbers, times, and the origin that a path tells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.formats.common.content import extract_text
from consolidator.models.payload import EventType, payload_model

_TEXT_FIELDS = {
    event_type: [
        name for name, field in payload_model(event_type).model_fields.items() if field.annotation in (str, str | None)
    ]
    for event_type in EventType
}


def fit_payload(event_type: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without None values, and with text in all text fields, so that it is a valid payload."""
    fitted = {key: value for key, value in data.items() if value is not None}
    for name in _TEXT_FIELDS[event_type]:
        if name in fitted and not isinstance(fitted[name], str):
            fitted[name] = extract_text(fitted[name])
    return fitted


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


def derive_origin(path: Path, root: Path) -> str:
    """Return the file's path below `root` without its suffix; its name if `root` is the file itself."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    if not relative.parts:
        relative = Path(path.name)
    return relative.with_suffix("").as_posix()
