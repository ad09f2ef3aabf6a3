"""People who say numbered things and a model that answers them by number, so that what is answered can be counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.testing import ScriptedReply

Wish = Literal["talk", "act", "ask"]
_SAID = re.compile(r"\b(m\d+) (talk|act|ask)\b")
_ANSWERED = re.compile(r"\bm\d+\b")


def answers(asked: dict[str, Any]) -> ScriptedReply:
    """Answer all that was said since the last answer; before, act or ask to be allowed to, as the last of it wishes."""
    messages = asked["messages"]
    ends = (n for n, one in enumerate(messages) if one["role"] == "assistant" and not one.get("tool_calls"))
    since = messages[max(ends, default=-1) + 1 :]
    said = [found for one in since if one["role"] == "user" for found in _SAID.findall(one["content"])]
    acted = any(one["role"] == "tool" for one in since)
    wish = said[-1][1] if said else "talk"
    if wish == "act" and not acted:
        return ScriptedReply.calling(("look", {"what": "left"}), ("send_mail", {"to": "ines"}), text="I see to it now.")
    if wish == "ask" and not acted:
        return ScriptedReply.calling(("deploy", {"where": "north"}))
    return ScriptedReply(
        text=f"To {' and '.join(number for number, _ in said) or 'nothing'}: it is all as well as it can be."
    )


def said_in(log: Sequence[Event]) -> list[str]:
    """Return the numbers of what people said, in order."""
    return [str(one.data["text"]).split()[0] for one in log if one.type == EventType.USER_MESSAGE]


def answered_in(log: Sequence[Event]) -> Counter[str]:
    """Count in how many whole answers each number was answered."""
    whole = (one for one in log if one.type == EventType.ASSISTANT_RESPONSE and one.data.get("finish") != "interrupted")
    return Counter(number for one in whole for number in set(_ANSWERED.findall(str(one.data["text"]))))
