"""The parts of a message in Google's API, as Gemini CLI and Qwen Code log them. What they share; no reader itself."""

from __future__ import annotations

from typing import Any

from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text

_REFERENCED = "--- Content from referenced files ---"  # before the text of the files that a prompt names


def draft_parts(parts: Any, model: Any = None) -> drafts.Drafts:
    """Yield what a model's message holds: answers, thoughts and calls, in order."""
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, dict) and isinstance(part.get("functionCall"), dict):
            call = part["functionCall"]
            yield drafts.call(call.get("id"), call.get("name"), call.get("args"))
        elif isinstance(part, dict) and part.get("thought"):
            yield from drafts.thought(part.get("text"), model)
        elif isinstance(part, (str, dict)) and (text := _text(part)):
            yield from drafts.answer(text, model)


def draft_response(part: Any, *, status: Any = None, call_id: Any = None, tool: Any = None) -> drafts.Draft:
    """Return the result that a part of the kind functionResponse holds; `status` is what the log says of the call."""
    response = drafts.object_of(drafts.object_of(part).get("functionResponse"))
    answer = response.get("response")
    answer = answer if isinstance(answer, dict) else {"output": answer}
    content = answer.get("error") or answer.get("output") or answer.get("content")
    text, code = drafts.split_output(extract_text(content))
    failed = {"error": True, "cancelled": True, "success": False, "ok": False}.get(str(status))
    return drafts.result(
        call_id or response.get("id"),
        tool or response.get("name"),
        text,
        failed=True if answer.get("error") else (failed if code is None or failed else None),
        reason="rejected" if status == "cancelled" else None,
        exit_code=code,
    )


def split_prompt(content: Any) -> tuple[str, str]:
    """Return what a person typed and what the agent appended: files that were named, an editor's state, a hook's words.

    The first part is what was typed; the agent puts what it adds into parts of its own. Older versions joined them.
    """
    parts = content if isinstance(content, list) else [content]
    if any(isinstance(part, dict) and "functionResponse" in part for part in parts):
        return "", "\n".join(map(_text, parts))
    typed, _, files = _text(parts[0]).partition(_REFERENCED) if parts else ("", "", "")
    return typed, "\n".join(text for text in (files, *map(_text, parts[1:])) if text)


def _text(part: Any) -> str:
    if isinstance(part, dict):
        return extract_text(part["text"]) if "text" in part and not part.get("thought") else ""
    return part if isinstance(part, str) else ""
