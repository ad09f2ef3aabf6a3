"""How rows and reports become JSON, the same for every front end."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any


def encode_json(value: Any) -> Any:
    """Return what `json.dumps` cannot encode by itself as something that it can: its `default`."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set):
        return sorted(value)
    return str(value)
