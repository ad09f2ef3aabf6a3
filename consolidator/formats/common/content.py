"""The text of a message's content, which logs write as text or as a list of parts; what is no text leaves a mark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TEXT_KEYS = ("text", "thinking", "refusal")
_MEDIA = ("image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio")


def text_of(content: Any) -> str:
    """Return the text of a content: its parts joined by newlines, with `[image image/png]` where an image was."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, Mapping):
        return _part(content)
    return json.dumps(content, ensure_ascii=False)


def _part(part: Mapping[str, Any]) -> str:
    for key in _TEXT_KEYS:
        if isinstance(part.get(key), str):
            return str(part[key])
    kind = part.get("type")
    if kind in _MEDIA:
        return f"[{kind} {_media_type(part)}]"
    return json.dumps(part, ensure_ascii=False)


def _media_type(part: Mapping[str, Any]) -> str:
    """Return the media type by any of the names it has, or from the data URL; else 'unknown'."""
    source = part.get("source")
    for holder in (source if isinstance(source, Mapping) else {}, part):
        for key in ("media_type", "mimeType", "mime_type"):
            if isinstance(holder.get(key), str):
                return str(holder[key])
    address = part.get("image_url")
    address = address.get("url") if isinstance(address, Mapping) else address
    if isinstance(address, str) and address.startswith("data:"):
        return address[5:60].partition(";")[0]
    return "unknown"
