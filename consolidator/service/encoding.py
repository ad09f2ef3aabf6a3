"""How rows and reports become JSON and text, the same for every front end: nothing in it that nobody sees."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from consolidator.memory.text.invisible import escape_invisible as escape_invisible
from consolidator.memory.text.invisible import mark_invisible as mark_invisible
from consolidator.memory.text.invisible import strip_invisible_in as strip_invisible_in
from consolidator.models.table import PEOPLE_ONLY


def encode_json(value: Any) -> Any:
    """Return what `json.dumps` cannot encode by itself as something that it can: its `default`.

    JSON is for programs: fields that only people are shown are left out.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value) if not each.metadata.get(PEOPLE_ONLY)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set):
        return sorted(value)
    return str(value)


def to_visible_json(value: Any) -> Any:
    """Return a value as plain JSON types, without the characters that nobody sees."""
    return strip_invisible_in(json.loads(json.dumps(value, default=encode_json)))
