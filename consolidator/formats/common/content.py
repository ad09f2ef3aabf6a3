"""Extract the text of a message's content, which is a text or a list of parts; media leave a placeholder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_TYPED = ("text", "input_text")
_TEXT_KEYS = ("text", "thinking", "refusal")
_RESULT_KIND = re.compile(
    r"tool|function|output|mcp|\Aresult\Z", re.IGNORECASE
)  # tool_result, function_call_output, ...
_RESULT_KEYS = ("tool_use_id", "tool_call_id", "toolCallId", "call_id")  # of the call that a message or part answers
_MEDIA = ("image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio")


def extract_text(content: Any) -> str:
    """Return the text of a content: its parts joined by newlines, with `[image image/png]` for an image."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(extract_text(part) for part in content)
    if isinstance(content, Mapping):
        return _extract_part_text(content)
    return json.dumps(content, ensure_ascii=False)


def split_message(content: Any) -> tuple[str, str]:
    """Return what a person may have typed in a message's content, and what only came with it.

    Parts of the kinds text and input_text are typed, an image or a document leaves its mark; a result, a resource or a
    part of an unknown kind is nobody's words, whatever it holds. What stands beside a result, nobody typed.
    """
    if has_result(content):
        return "", extract_text(content)
    typed: list[str] = []
    others: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            typed.append(part)
        elif isinstance(part, Mapping) and part.get("type", "text") in _TYPED and isinstance(part.get("text"), str):
            typed.append(part["text"])
        elif is_media(part):
            typed.append(f"[{part['type']} {_media_type(part)}]")
        elif part is not None:
            others.append(extract_text(part))
    return "\n".join(typed), "\n".join(others)


def has_result(content: Any) -> bool:
    """Tell whether a content, or one of its parts, is what a call gave."""
    return any(
        isinstance(part, Mapping) and (bool(_RESULT_KIND.search(str(part.get("type", "")))) or answers_call(part))
        for part in (content if isinstance(content, list) else [content])
    )


def answers_call(message: Mapping[str, Any]) -> bool:
    """Tell whether a message or part names the call that it answers."""
    return any(message.get(key) not in (None, "") for key in _RESULT_KEYS)


def is_media(part: Any) -> bool:
    """Tell whether a part is an image, a document or the like, which leaves a mark and no text."""
    return isinstance(part, Mapping) and part.get("type") in _MEDIA and not any(key in part for key in _TEXT_KEYS)


def _extract_part_text(part: Mapping[str, Any]) -> str:
    for key in _TEXT_KEYS:
        if isinstance(part.get(key), str):
            return str(part[key])
    kind = part.get("type")
    if kind in _MEDIA:
        return f"[{kind} {_media_type(part)}]"
    return json.dumps(part, ensure_ascii=False)


def _media_type(part: Mapping[str, Any]) -> str:
    """Return the media type from any of its keys or from the data URL; else 'unknown'."""
    source = part.get("source")
    for mapping in (source if isinstance(source, Mapping) else {}, part):
        for key in ("media_type", "mimeType", "mime_type"):
            if isinstance(mapping.get(key), str):
                return str(mapping[key])
    url = part.get("image_url")
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url.startswith("data:"):
        return url[5:60].partition(";")[0]
    return "unknown"
