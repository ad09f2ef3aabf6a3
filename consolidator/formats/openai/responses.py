"""Read requests and replies of OpenAI's Responses API as chat messages, so that an exchange of either is one thing.

Pure. A request brings all items of its conversation, or names the response or the conversation that it continues; that
stands as an answer without words before its items. What the model's server runs by itself (searches, code) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from consolidator.formats.common.content import extract_text
from consolidator.formats.common.drafts import object_of, objects_of
from consolidator.formats.openai.response_items import CALLS, build_call, build_result

Message = dict[str, Any]  # in the form of chat completions


def continued(response_id: str) -> Message:
    """Return what stands for all that a response or a conversation of an id holds."""
    return {"role": "assistant", "content": "", "tool_call_id": f"continued:{response_id}"}


def continued_id(body: Mapping[str, Any]) -> str | None:
    """Return the id of the response or of the conversation that a request continues."""
    conversation = body.get("conversation")
    name = body.get("previous_response_id") or object_of(conversation).get("id") or conversation
    return name if isinstance(name, str) and name else None


def read_request(body: Mapping[str, Any]) -> list[Message]:
    """Return a request's messages; none where it has no input."""
    content, messages = body.get("input"), list[Message]()
    items = [{"role": "user", "content": content}] if isinstance(content, str) and content else objects_of(content)
    if not items:
        return []
    if body.get("instructions"):
        messages.append({"role": "system", "content": extract_text(body["instructions"])})
    if (response_id := continued_id(body)) is not None:
        messages.append(continued(response_id))
    return [*messages, *_read_items(items)]


def read_answer(items: Iterable[Mapping[str, Any]]) -> Message:
    """Return the answer that the items of a response are: its words and its calls."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in items:
        if _kind(item) in CALLS:
            call = build_call(item, _kind(item))
            calls.append({"id": call["call_id"], "function": {"name": call["tool"], "arguments": call["arguments"]}})
        elif _kind(item) == "message":
            texts.append(extract_text(item.get("content")))
    return {"role": "assistant", "content": "\n".join(texts), "tool_calls": calls}


def _read_items(items: Iterable[dict[str, Any]]) -> Iterator[Message]:
    answer: list[dict[str, Any]] = []
    for item in items:
        kind = _kind(item)
        if kind in CALLS or (kind == "message" and item.get("role") == "assistant"):
            answer.append(item)
            continue
        is_result = kind.endswith("_output") and bool(item.get("call_id"))
        if not is_result and kind != "message":
            continue  # reasoning, what the server ran, and lists of tools
        if answer:
            yield read_answer(answer)
            answer = []
        if is_result:
            _, data = build_result(item, str(item["call_id"]), None)
            is_error = data["status"] != "ok"
            yield {"role": "tool", "tool_call_id": data["call_id"], "content": data["content"], "is_error": is_error}
        else:
            yield {"role": item.get("role"), "content": item.get("content")}
    if answer:
        yield read_answer(answer)


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "message")
