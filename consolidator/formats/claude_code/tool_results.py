"""What a tool result of Claude Code says beyond its text: rejected, cancelled, timed out, and a person's answer.

Pure. Only the harness's own sentences count, and only where a result begins with them: a search may quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from consolidator.formats.claude_code.user_text import INTERRUPTED, EventDraft, message
from consolidator.formats.common.content import text_of
from consolidator.models.payload import EventType

_WRAPPED = re.compile(r"^(?:Error: )?(?:<tool_use_error>)?(?:Error: )?")
_DENIED = (  # a person said no
    "The user doesn't want to proceed with this tool use",
    "User rejected tool use",
    "The agent proposed a plan that was rejected by the user",
    "User chose to stay in plan mode",
)
_REFUSED = (  # a rule, or nobody there to ask
    "Permission to use ",
    "Permission for this tool use was denied",
    "Claude requested permissions to ",
)
_ABORTED = (
    "The user doesn't want to take this action right now",
    "Interrupted by user",
    "Request interrupted by user",
    "Streaming fallback - tool execution discarded",
    "[Tool use interrupted]",
    "[Tool call skipped",
    INTERRUPTED,
)
_CASCADE = ("Sibling tool call errored", "Cancelled: parallel tool call")
_REASON = re.compile(r"(?:provided the following reason for the rejection:|the user said:)\s*(.+)", re.DOTALL)
_NOTE = re.compile(r"\n\s*Note: The user's next message may contain a correction or preference\..*\Z", re.DOTALL)
_TIMED_OUT = re.compile(r"^(?:Command|Request|Tool|Agent) timed out after ", re.MULTILINE)
ASKING = ("AskUserQuestion", "ExitPlanMode")  # tools that ask a person whatever the permission mode


def reason_of(text: str) -> str | None:
    """Return why a failed result is no ordinary failure: rejected, aborted, cascade or timeout."""
    plain = _WRAPPED.sub("", text, count=1)
    if plain.startswith(_DENIED + _REFUSED):
        return "rejected"
    if plain.startswith(_CASCADE):
        return "cascade"
    if plain.startswith(_ABORTED) or plain.rstrip().endswith(INTERRUPTED + " for tool use]"):
        return "aborted"
    if "<error>Command was aborted before completion</error>" in plain:
        return "aborted"
    return "timeout" if _TIMED_OUT.search(plain) else None


def denied(text: str) -> bool:
    """Tell whether it was a person who said no."""
    return _WRAPPED.sub("", text, count=1).startswith(_DENIED)


def words_of(text: str) -> str | None:
    """Return what the person said when they said no."""
    found = _REASON.search(text)
    return _NOTE.sub("", found[1]).removesuffix("</tool_use_error>").strip() or None if found else None


def result(part: str, block: Mapping[str, Any], tool: str | None, more: Any) -> EventDraft:
    """Return the result in a tool_result block; `more` is what the harness noted beside it."""
    text = text_of(block.get("content"))
    interrupted = isinstance(more, Mapping) and more.get("interrupted") is True
    failed = block.get("is_error") is True or interrupted
    reason = reason_of(text) if failed else None
    data: dict[str, Any] = {
        "call_id": str(block.get("tool_use_id") or block.get("id") or ""),
        "tool": tool,
        "status": "error" if failed else "ok",
        "reason": reason or ("aborted" if interrupted else None),
        "content": text,
    }
    return EventDraft(part, EventType.TOOL_RESULT, data)


def denial(part: str, outcome: EventDraft, given: Any, mode: str | None) -> Iterator[EventDraft]:
    """Yield the denial that a rejected result reports, and the person's words with it.

    `interrupted` marks a call that was running without anybody having been asked: they pressed Escape.
    """
    text, tool = str(outcome.data["content"]), outcome.data["tool"]
    words = words_of(text)
    data = {"call_id": outcome.data["call_id"], "tool": tool, "arguments": given, "reason": words}
    if mode == "bypassPermissions" and tool not in ASKING and words is None:
        data["interrupted"] = True
    yield EventDraft(part + "/denied", EventType.APPROVAL_DENIED, data)
    if words:
        yield message(part + "/words", words, mode="steer")


def answers(part: str, outcome: EventDraft, more: Any) -> Iterator[EventDraft]:
    """Yield an approved plan, and the answers to questions that a person typed rather than picked from a list."""
    if outcome.data["status"] != "ok":
        return
    if outcome.data["tool"] == "ExitPlanMode" and str(outcome.data["content"]).startswith("User has approved"):
        data = {"call_id": outcome.data["call_id"], "tool": "ExitPlanMode"}
        yield EventDraft(part + "/granted", EventType.APPROVAL_GRANTED, data)
    if not isinstance(more, Mapping) or not isinstance(more.get("answers"), Mapping):
        return
    offered = _labels(more.get("questions"))
    for question, answer in more["answers"].items():
        if isinstance(answer, str) and answer.strip() and not _picked(answer, offered.get(question, set())):
            yield message(f"{part}/answer/{question}", answer, in_reply_to=question)


def _labels(questions: Any) -> dict[str, set[str]]:
    """Return the labels of each question's options."""
    return {
        str(question.get("question")): {
            str(option.get("label")) for option in _list(question.get("options")) if isinstance(option, Mapping)
        }
        for question in _list(questions)
        if isinstance(question, Mapping)
    }


def _list(told: Any) -> list[Any]:
    return told if isinstance(told, list) else []


def _picked(answer: str, labels: set[str]) -> bool:
    """Tell whether an answer is one of the options, or several of them joined by commas."""
    return answer in labels or all(piece.strip() in labels for piece in answer.split(","))
