"""Renders a conversation as the messages of an API: OpenAI's or Anthropic's format. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from consolidator.context.conversation import RenderedTurn, RequestedCall, Turn
from consolidator.llm.protocol import Message

MessageFormat = Literal["openai", "anthropic"]
_VALID_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]+")


def render_messages(
    turns: Sequence[Turn],
    message_format: MessageFormat,
    *,
    before: str = "",
    after: str = "",
    rendered: RenderedTurns | None = None,
) -> list[dict[str, Any]]:
    """Return turns as messages; `before` and `after` are user messages at the beginning and the end.

    Roles alternate, a user message comes first, every call is followed by its result, and call ids are unique.
    `rendered` has what was rendered of the session last, and is continued.
    """
    messages = (rendered or RenderedTurns()).render(turns, message_format)
    if messages and messages[0]["role"] == "assistant":
        before = before or "[harness: what was said before this is left out]"
    if before:
        first = RenderedTurns().render([Turn(0, "user", before)], message_format)
        for message in messages[:1]:
            _append_message(first, message)
        messages[:1] = first
    if after:
        for message in RenderedTurns().render([Turn(0, "user", after)], message_format):
            _append_message(messages, message)
    return messages


class RenderedTurns:
    """The messages of turns, continued by the turns that follow the same beginning."""

    def __init__(self) -> None:
        self._turns: list[RenderedTurn] = []
        self._messages: list[dict[str, Any]] = []
        self._call_ids = _CallIds()

    def render(self, turns: Sequence[Turn], message_format: MessageFormat) -> list[dict[str, Any]]:
        """Return turns as messages; what begins like the turns that were rendered last is not rendered again."""
        known = len(self._turns)
        is_known = [turn.messages for turn in turns[:known]] == self._turns
        if not is_known or (known and self._turns[0][0] != message_format):
            known, self._turns, self._messages, self._call_ids = 0, [], [], _CallIds()
        render = _render_openai if message_format == "openai" else _render_anthropic
        for turn in turns[known:]:
            ids = tuple(map(self._call_ids.assign, turn.calls))
            if turn.messages is None or turn.messages[:2] != (message_format, ids):  # else as in another context
                turn.messages = (message_format, ids, list(map(Message, render(turn, ids))))
            self._turns.append(turn.messages)
            for message in turn.messages[2][:1]:  # the others never have the role of the one before, or are results
                _append_message(self._messages, message)
            self._messages += turn.messages[2][1:]
        return list(self._messages)


def _append_message(messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Append a message, or merge it with the last one of its role: not every server accepts two in a row."""
    last = messages[-1] if messages else {}
    if message["role"] == "tool" or last.get("role") != message["role"] or last.get("tool_calls"):
        messages.append(message)
    elif isinstance(last["content"], str) and isinstance(message["content"], str) and not message.get("tool_calls"):
        messages[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
    elif isinstance(last["content"], list):
        messages[-1] = {**last, "content": [*last["content"], *message["content"]]}
    else:
        content = "\n\n".join(part for part in (last["content"], message["content"]) if part)
        messages[-1] = {**last, "content": content, "tool_calls": message["tool_calls"]}


class _CallIds:
    """Assigns each call of a context a unique id that every server accepts; real logs reuse ids."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def assign(self, call: RequestedCall) -> str:
        call_id = call.call_id
        if call_id in self._used or not _VALID_CALL_ID.fullmatch(call_id):
            call_id = f"call_{call.seq}"
        while call_id in self._used:
            call_id += "_"
        self._used.add(call_id)
        return call_id


def _render_openai(turn: Turn, call_ids: Sequence[str]) -> list[dict[str, Any]]:
    text = _replace_surrogates(turn.text)
    if turn.role == "user":
        return [{"role": "user", "content": text}]
    if not turn.calls:
        return [{"role": "assistant", "content": text}]
    identified = list(zip(call_ids, turn.calls, strict=True))
    calls = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": sanitize_tool_name(call.tool), "arguments": _replace_surrogates(call.arguments)},
        }
        for call_id, call in identified
    ]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": _replace_surrogates(call.result or "")}
        for call_id, call in identified
    ]
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}, *results]


def _render_anthropic(turn: Turn, call_ids: Sequence[str]) -> list[dict[str, Any]]:
    text = _replace_surrogates(turn.text)
    text_blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    if turn.role == "user":
        return [{"role": "user", "content": text_blocks}] if text_blocks else []
    identified = list(zip(call_ids, turn.calls, strict=True))
    calls = [
        {
            "type": "tool_use",
            "id": call_id,
            "name": sanitize_tool_name(call.tool),
            "input": json.loads(_replace_surrogates(json.dumps(json.loads(call.arguments), ensure_ascii=False))),
        }
        for call_id, call in identified
    ]
    results = [_render_anthropic_result(call_id, call) for call_id, call in identified]
    answer = [{"role": "assistant", "content": text_blocks + calls}]
    return [*answer, {"role": "user", "content": results}] if results else answer


def _render_anthropic_result(call_id: str, call: RequestedCall) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": _replace_surrogates(call.result or "")}
    return block if call.ok else {**block, "is_error": True}


def sanitize_tool_name(name: str) -> str:
    """Return a tool's name with the characters and length that servers accept."""
    return _INVALID_NAME_CHARS.sub("_", name)[:64] or "tool"


def convert_tool_definitions(tools: Sequence[Mapping[str, Any]], message_format: MessageFormat) -> list[dict[str, Any]]:
    """Return OpenAI's definitions of function tools in a format."""
    if message_format == "openai":
        return [dict(tool) for tool in tools]
    functions = [tool.get("function", tool) for tool in tools]
    return [
        {
            "name": function["name"],
            "description": function.get("description", ""),
            "input_schema": function.get("parameters", {}),
        }
        for function in functions
    ]


def _replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can encode: logs cut in the middle of an emoji hold lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
