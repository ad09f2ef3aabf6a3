"""Reads fields of foreign logs, whatever they hold: texts, numbers, times, and the origin that a path tells."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.formats.common.content import extract_text
from consolidator.models.payload import PAYLOADS, EventType

_TEXT_FIELDS = {
    event_type: [
        name for name, field in PAYLOADS[event_type].model_fields.items() if field.annotation in (str, str | None)
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


_FIELD_NAME = re.compile(r"[A-Za-z_]{1,32}")
_SHAPE_FIELDS = 12


def describe_shape(line: Mapping[str, Any]) -> str:
    """Return the names of a line's fields and what kind of value each holds; nothing of what a line says.

    A name that may be a value, such as a path, is left out; so is what is nested.
    """
    names = [name for name in sorted(line) if _FIELD_NAME.fullmatch(name)]
    fields = [f"{name}:{_KINDS.get(type(line[name]), 'null')}" for name in names[:_SHAPE_FIELDS]]
    return "{" + ",".join(fields) + (",..." if len(fields) < len(line) else "") + "}"


_KINDS = {str: "text", bool: "bool", int: "number", float: "number", dict: "object", list: "list"}
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
