"""What front ends do with characters that nobody sees: none in answers, marked or escaped in a log's lines."""

from __future__ import annotations

import json
from typing import Any

from consolidator.memory.text.invisible import escape_invisible as escape_invisible
from consolidator.memory.text.invisible import mark_invisible as mark_invisible
from consolidator.memory.text.invisible import strip_invisible_in as strip_invisible_in
from consolidator.service.json_encoding import encode_json


def to_visible_json(value: Any) -> Any:
    """Return a value as plain JSON types, without the characters that nobody sees."""
    return strip_invisible_in(json.loads(json.dumps(value, default=encode_json)))
