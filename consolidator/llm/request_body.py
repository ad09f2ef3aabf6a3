"""The body of a request to a model, as JSON: a message that is sent again and again is encoded once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Message(dict[str, Any]):
    """A message that nobody changes, with its JSON once it was sent."""

    __slots__ = ("encoded",)
    encoded: str


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a body with `messages` and more as JSON."""
    messages = ",".join([getattr(message, "encoded", "") or _encode_message(message) for message in body["messages"]])
    others = _encode({name: value for name, value in body.items() if name != "messages"})
    return f'{{"messages":[{messages}],{others[1:]}'.encode()


def _encode_message(message: dict[str, Any]) -> str:
    encoded = _encode(message)
    if isinstance(message, Message):
        message.encoded = encoded
    return encoded
