"""Finds the messages in a person's role that an agent wrote, whichever format they were read from.

A plan that a person accepted opens a session in their name, and so does a prompt that the agent scheduled. Neither may
become a person's word. Where the log has no field that says so, the safe side decides: such a message is the harness's.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item
from consolidator.formats.common.json_parsing import parse_json
from consolidator.markup import skip_blank
from consolidator.models.payload import EventType

_PLAN_START = re.compile(
    r"[*_#>\s]{0,20}(?:please\s+)?(?:implement|execute|carry\s+out)\s+(?:this|the)\s+(?:(?:following|approved|accepted)\s+)?plan"
    r"(?:\s+below)?\s*(?::|\*|\n|\Z)",
    re.IGNORECASE,
)
_ASKING_TOOLS = ("AskUserQuestion", "request_user_input")  # what they offer, a person may type as well
_MAX_INPUT_CHARS = 4 * 1024 * 1024  # kept of what a session's calls were given, the latest
_MAX_SESSIONS = 64  # of a file, whose calls are kept at once
_MIN_EXCERPT_BYTES = 24  # of a message that stands in the middle of an input; a shorter one must be all of it


def is_accepted_plan(text: str) -> bool:
    """Tell whether a message begins as clients send a plan that a person accepted."""
    return _PLAN_START.match(text, skip_blank(text, 0)) is not None


def mark_agent_words(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items; what an agent wrote in a person's role gets the origin harness, an accepted plan its approval.

    So does what a person said on a branch that they went back from: it is no word that stands.
    """
    inputs: dict[str, _CallInputs] = {}  # by session; sub-agents and resumed sessions share their parent's
    current = _CallInputs()
    is_abandoned = False
    plan: str | None = None  # the latest message that is one, by its key without the part: all of its parts are

    for item in items:
        if isinstance(item, ForeignSession):
            is_abandoned = item.abandoned
            shared = inputs.get(item.parent_origin or "")
            current = inputs.setdefault(item.origin, shared or _CallInputs())
            if len(inputs) > _MAX_SESSIONS:
                del inputs[next(iter(inputs))]
        elif isinstance(item, ForeignEvent) and item.type is EventType.TOOL_CALL:
            current.add(item.data)
        elif isinstance(item, ForeignEvent) and item.type is EventType.USER_MESSAGE and _is_persons(item):
            text, message = str(item.data.get("text") or ""), item.key.rpartition("/")[0]
            is_plan = is_accepted_plan(text)
            plan = message if is_plan else plan
            if is_abandoned or message == plan or current.contain(text):
                yield replace(item, data={**item.data, "origin": "harness"})
                if is_plan and not is_abandoned:
                    key = f"{item.key}/accepted"
                    # It names no call, which the session that made the plan has.
                    approval = {name: item.data[name] for name in ("occurred_at",) if name in item.data}
                    approval["approves"] = "plan"
                    yield replace(item, key=key, type=EventType.APPROVAL_GRANTED, data=approval)
                continue
        yield item


def _is_persons(item: ForeignEvent) -> bool:
    return bool(item.data.get("origin", "user") == "user")


class _CallInputs:
    """What an agent gave to its calls, as far as it is kept."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._chars = 0
        self._lines: str | None = None  # the texts, one a line, once they were searched

    def add(self, call: Mapping[str, Any]) -> None:
        """Keep the texts of a call's arguments."""
        if call.get("tool") in _ASKING_TOOLS:
            return
        arguments = call.get("arguments")
        if isinstance(arguments, str) and arguments[:1] in ("{", "["):
            with suppress(ValueError):
                arguments = parse_json(arguments)
        pending = [arguments]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                self._texts.append(" ".join(value.split()))
                self._chars += len(self._texts[-1])
            elif isinstance(value, Mapping):
                pending.extend(value.values())
            elif isinstance(value, list):
                pending.extend(value)
        self._lines = None
        while self._chars > _MAX_INPUT_CHARS:
            self._chars -= len(self._texts.popleft())

    def contain(self, message: str) -> bool:
        """Tell whether a message stands in an input; one may also be a slash command with the message behind it."""
        text = " ".join(message.split())
        if not text:
            return False
        if self._lines is None:
            self._lines = "\n".join(("", *self._texts, ""))
        if len(text.encode("utf-8", "replace")) >= _MIN_EXCERPT_BYTES:
            return text in self._lines
        return f"\n{text}\n" in self._lines or re.search(rf"\n/[^ \n]* {re.escape(text)}\n", self._lines) is not None
