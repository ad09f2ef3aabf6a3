"""Read OpenAI's Responses API: requests and replies as chat messages, and items of a session as event drafts.

Pure. A request brings all items of its conversation, or names the response or the conversation that it continues; that
stands as an answer without words before its items. What the model's server runs by itself (searches, code) is left out.
Of the items that the Agents SDK keeps, a message, a call, a result and reasoning become their events; a hosted tool's
item is call and result in one. What has no counterpart (a list of tools, an opaque compaction) is a decision that only
keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from consolidator.formats.common.content import extract_text
from consolidator.formats.common.drafts import Draft, is_failure, object_of, objects_of, result
from consolidator.formats.common.fields import fit_payload
from consolidator.formats.common.json_parsing import parse_arguments
from consolidator.formats.openai.conversation import draft_words, is_failed_result
from consolidator.models.payload import EventType

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


Origin = Literal["user", "harness"]
_REJECTED = "Tool execution was not approved."
_SDK_FAILURE = "An error occurred while running the tool."
_FAILED_STATES = ("failed", "incomplete")
_NAMED_CALLS = ("function_call", "custom_tool_call")
_LOCAL_CALLS = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call")
CALLS = (*_NAMED_CALLS, *_LOCAL_CALLS)  # that the model's client runs
# Calls that the provider runs itself: the item holds what came of it, too.
_HOSTED_CALLS = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
_ARGUMENT_KEYS = ("arguments", "input", "action", "actions", "operation", "code", "queries")
_RESULT_KEYS = ("output", "outputs", "results", "tools")
_MEDIA_KEYS = ("image_url", "file_data", "data", "result")


def draft_item(item: Mapping[str, Any], tools: dict[str, str], origin: Origin = "user") -> list[Draft]:
    """Return the events of an item, at least one. `tools` maps the ids of open calls to their tools, and is kept so.

    `origin` says whose words the messages of role user are: a person's, or a program's.
    """
    return [(event_type, fit_payload(event_type, data)) for event_type, data in _draft(item, tools, origin)]


def _draft(item: Mapping[str, Any], tools: dict[str, str], origin: Origin) -> Iterator[Draft]:
    kind, role = str(item.get("type") or "message"), item.get("role")
    if kind == "message" and role == "user":
        words = list(draft_words(item, origin=origin))
        yield from words or [(EventType.USER_MESSAGE, {"text": "", "origin": "harness"})]  # the last one stands for it
    elif kind == "message" and role == "assistant":
        message = {"text": extract_text(item.get("content")), "message_id": item.get("id")}
        yield EventType.ASSISTANT_RESPONSE, message
    elif kind == "message" and role in ("system", "developer"):
        text = extract_text(item.get("content"))
        yield EventType.POLICY_DECISION, {"decision": "instructions_added", "text": text, "role": role}
    elif kind == "reasoning":
        texts = [extract_text(item.get(key)) for key in ("summary", "content") if item.get(key)]
        yield EventType.THINKING_START, {"text": "\n".join(texts), "message_id": item.get("id")}
    elif kind in CALLS:
        call = build_call(item, kind)
        tools[call["call_id"]] = call["tool"]
        yield EventType.TOOL_CALL, call
    elif kind in _HOSTED_CALLS:
        call = build_call(item, kind)
        yield EventType.TOOL_CALL, call
        yield build_result(item, call["call_id"], call["tool"])
    elif kind.endswith("_output") and item.get("call_id"):
        call_id = str(item["call_id"])
        yield build_result(item, call_id, tools.pop(call_id, None))
    else:
        yield EventType.POLICY_DECISION, {"decision": "item_recorded", "item_type": kind}


def build_call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a call; arguments in JSON are parsed."""
    arguments = parse_arguments(item, _ARGUMENT_KEYS)
    if kind == "shell_call" and isinstance(arguments, Mapping) and isinstance(arguments.get("commands"), list):
        arguments = {"command": "\n".join(extract_text(command) for command in arguments["commands"])}
    named = kind in _NAMED_CALLS or kind == "mcp_call"
    tool = str(item.get("name") or "") if named else kind.removesuffix("_call")
    return {"call_id": str(item.get("call_id") or item.get("id") or ""), "tool": tool, "arguments": arguments}


def build_result(item: Mapping[str, Any], call_id: str, tool: str | None) -> Draft:
    """Return a result. It failed if the item says so, else if its text is clearly an error."""
    output = next((item[key] for key in _RESULT_KEYS if item.get(key) is not None), None)
    error = extract_text(item.get("error"))
    text = error or _extract_output(output)
    parts = [part.get("outcome") for part in output if isinstance(part, Mapping)] if isinstance(output, list) else []
    outcomes = [outcome for outcome in parts if isinstance(outcome, Mapping)]
    reason = (
        "rejected"
        if text.strip() == _REJECTED
        else "timeout"
        if any(each.get("type") == "timeout" for each in outcomes)
        else None
    )
    has_failed = (
        item.get("status") in _FAILED_STATES
        or bool(error)
        or any(each.get("exit_code") not in (None, 0) for each in outcomes)
    )
    failed = (
        has_failed or reason is not None or text.startswith(_SDK_FAILURE) or is_failed_result(text) or is_failure(text)
    )
    return result(call_id, tool, text, failed=failed, reason=reason)


def _extract_output(output: Any) -> str:
    """Return an output's text; pictures and files leave a mark."""
    if isinstance(output, list):
        return "\n".join(_extract_output(part) for part in output)
    if not isinstance(output, Mapping):
        return extract_text(output)
    if "stdout" in output or "stderr" in output:
        return "\n".join(text for key in ("stdout", "stderr") if (text := extract_text(output.get(key))))
    if isinstance(output.get("text"), str):
        return str(output["text"])
    if any(isinstance(output.get(key), str) for key in _MEDIA_KEYS):
        return f"[{output.get('type', 'file')}]"
    return json.dumps(output, ensure_ascii=False)
