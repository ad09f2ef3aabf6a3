"""Numbered messages, and a model that answers by number, so that a test can count which messages were answered."""

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


def create_reply(request: dict[str, Any]) -> ScriptedReply:
    """Answer all messages since the last answer; first call tools, if the last message asks for it."""
    messages = request["messages"]
    ends = (n for n, message in enumerate(messages) if message["role"] == "assistant" and not message.get("tool_calls"))
    since = messages[max(ends, default=-1) + 1 :]
    wishes = [match for message in since if message["role"] == "user" for match in _SAID.findall(message["content"])]
    acted = any(message["role"] == "tool" for message in since)
    wish = wishes[-1][1] if wishes else "talk"
    if wish == "act" and not acted:
        return ScriptedReply.calling(("look", {"what": "left"}), ("send_mail", {"to": "ines"}), text="I see to it now.")
    if wish == "ask" and not acted:
        return ScriptedReply.calling(("deploy", {"where": "north"}))
    return ScriptedReply(
        text=f"To {' and '.join(number for number, _ in wishes) or 'nothing'}: it is all as well as it can be."
    )


def message_numbers(log: Sequence[Event]) -> list[str]:
    """Return the numbers of the users' messages, in order."""
    return [str(event.data["text"]).split()[0] for event in log if event.type == EventType.USER_MESSAGE]


def count_answers(log: Sequence[Event]) -> Counter[str]:
    """Return, for each number, how many complete answers name it."""
    whole = (
        event
        for event in log
        if event.type == EventType.ASSISTANT_RESPONSE and event.data.get("finish") != "interrupted"
    )
    return Counter(number for event in whole for number in set(_ANSWERED.findall(str(event.data["text"]))))
