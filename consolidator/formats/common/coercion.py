"""Makes what a foreign log says fit a payload: logs put numbers, objects or nothing where a text belongs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consolidator.formats.common.content import extract_text
from consolidator.models.payload import EventType, payload_model

_TEXTS = {
    kind: [name for name, field in payload_model(kind).model_fields.items() if field.annotation in (str, str | None)]
    for kind in EventType
}


def fit_payload(kind: EventType, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload without what is None, and with text where its type wants text, so that no line is lost."""
    fitted = {key: value for key, value in data.items() if value is not None}
    for name in _TEXTS[kind]:
        if name in fitted and not isinstance(fitted[name], str):
            fitted[name] = extract_text(fitted[name])
    return fitted
