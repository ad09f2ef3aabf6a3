"""How rows and reports become JSON and text, the same for every front end: nothing in it that nobody sees."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.errors import InvalidCursor
from consolidator.memory.text.invisible import escape_invisible as escape_invisible
from consolidator.memory.text.invisible import mark_invisible as mark_invisible
from consolidator.memory.text.invisible import strip_invisible_in as strip_invisible_in
from consolidator.models import PEOPLE_ONLY


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
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)  # an amount without an exponent


def to_visible_json(value: Any) -> Any:
    """Return a value as plain JSON types, without the characters that nobody sees."""
    return strip_invisible_in(json.loads(json.dumps(value, default=encode_json)))


VERSION = 1
MAX_LENGTH = 1000
_CHECK_BYTES = 6


def encode_cursor(of: str, position: list[Any]) -> str:
    """Return the cursor for a position in a list; `of` names the list and whatever it was narrowed to."""
    body = json.dumps([VERSION, _digest(of), *position], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_check(body) + body).rstrip(b"=").decode()


def decode_cursor(of: str, cursor: str | None, *kinds: type) -> list[Any] | None:
    """Return the position of a cursor, of values of these kinds; None for None.

    Raises InvalidCursor for a cursor that was changed, cut off, made up, or that is of another list.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > MAX_LENGTH:
            raise ValueError
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        if check != _check(body):
            raise ValueError
        version, of_list, *values = json.loads(body)
        position: list[Any] = values
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidCursor("the cursor is damaged: give back exactly what a page ended with") from error
    if version != VERSION or of_list != _digest(of) or [type(value) for value in position] != list(kinds):
        raise InvalidCursor("the cursor is of another list, or of another version of this service")
    return position


def _digest(of: str) -> str:
    return hashlib.blake2b(of.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, person=b"cursor").digest()
