"""JSON answers: whatever the log holds can be sent, also halves of characters and numbers that JSON does not have."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from consolidator.service.encoding import encode_json

MEDIA_TYPE = "application/json"


def to_document(value: Any) -> str:
    """Return a value as a JSON document in ASCII; NaN and infinities become strings."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    try:
        return json.dumps(value, default=encode_json, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), default=encode_json, allow_nan=False, separators=(",", ":"))


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer with a JSON document."""
    return Response(to_document(value), status, headers=headers, media_type=MEDIA_TYPE)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
