"""How rows and reports become JSON, the same for every front end."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

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
