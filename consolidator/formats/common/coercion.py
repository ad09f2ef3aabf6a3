"""Coerce the data of foreign logs into valid payloads: logs have numbers, objects or null where a text belongs."""

from __future__ import annotations

from collections.abc import Mapping
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
