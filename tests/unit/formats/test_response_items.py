"""Items of the Responses API become the events that nights learn from."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.formats.openai.responses import draft_item
from consolidator.models.payload import EventType, check_payload

TEXT = {"type": "output_text", "text": "Done.", "annotations": [], "logprobs": []}
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}


def kinds(item: dict[str, Any]) -> list[str]:
    """Return the types of an item's events; their payloads must be valid."""
    drafts = draft_item(item, {})
    for event_type, data in drafts:
        check_payload(event_type, data)
    return [event_type.value for event_type, _ in drafts]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "hi"}, ["UserMessage"]),
        ({"role": "user", "content": [PICTURE]}, ["UserMessage"]),
        ({"role": "user", "content": []}, ["UserMessage"]),
        ({"role": "user", "content": [{"type": "input_text", "text": "what is it?"}, PICTURE]}, ["UserMessage"]),
        ({"role": "assistant", "content": "hello"}, ["AssistantResponse"]),
        ({"type": "message", "id": "m", "role": "assistant", "content": [TEXT]}, ["AssistantResponse"]),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            ["AssistantResponse"],
        ),
        ({"role": "developer", "content": "be brief"}, ["PolicyDecision"]),
        ({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}, ["ThinkingStart"]),
        ({"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}, ["ToolCall"]),
        ({"type": "function_call_output", "call_id": "c", "output": "paid"}, ["ToolResult"]),
        ({"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "***"}, ["ToolCall"]),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}, ["ToolResult"]),
        ({"type": "computer_call", "call_id": "c", "id": "x", "action": {"type": "screenshot"}}, ["ToolCall"]),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls", "pwd"]}}, ["ToolCall"]),
        (
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "x"}},
            ["ToolCall", "ToolResult"],
        ),
        ({"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "output": "1"}, ["ToolCall", "ToolResult"]),
        (
            {"type": "image_generation_call", "id": "i", "status": "completed", "result": "AAAA"},
            ["ToolCall", "ToolResult"],
        ),
        ({"type": "mcp_list_tools", "id": "l", "tools": []}, ["PolicyDecision"]),
        ({"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}, ["PolicyDecision"]),
        ({"type": "item_reference", "id": "r"}, ["PolicyDecision"]),
        ({"__enc__": 1, "payload": "gAAAA"}, ["PolicyDecision"]),
        ({}, ["PolicyDecision"]),
    ],
)
def test_each_item_becomes_events(item: dict[str, Any], expected: list[str]) -> None:
    assert kinds(item) == expected


def test_a_call_has_parsed_arguments_and_its_result_the_tool() -> None:
    tools: dict[str, str] = {}
    call = draft_item({"type": "function_call", "call_id": "c", "name": "pay", "arguments": '{"sum": 3}'}, tools)
    result = draft_item({"type": "function_call_output", "call_id": "c", "output": "paid"}, tools)
    assert call == [(EventType.TOOL_CALL, {"call_id": "c", "tool": "pay", "arguments": {"sum": 3}})]
    assert result == [
        (EventType.TOOL_RESULT, {"call_id": "c", "tool": "pay", "status": "ok", "content": "paid"}),
    ]
    assert tools == {}


@pytest.mark.parametrize(
    ("item", "status", "reason"),
    [
        (
            {"output": "An error occurred while running the tool. Please try again. Error: no such customer"},
            "error",
            None,
        ),
        ({"output": "Tool execution was not approved."}, "error", "rejected"),
        ({"output": "ValueError: no such customer"}, "error", None),
        ({"output": "3 errors were found"}, "ok", None),
        ({"output": [{"type": "input_text", "text": "fine"}]}, "ok", None),
        ({"output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}}]}, "error", None),
        ({"output": [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]}, "error", "timeout"),
        ({"output": "conflict", "status": "failed"}, "error", None),
    ],
)
def test_a_result_failed_if_it_says_so(item: dict[str, Any], status: str, reason: str | None) -> None:
    [(event_type, data)] = draft_item({"type": "function_call_output", "call_id": "c", **item}, {})
    assert (event_type, data["status"], data.get("reason")) == (EventType.TOOL_RESULT, status, reason)


def test_a_picture_in_a_result_leaves_a_mark() -> None:
    output = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "A" * 5000}
    [(_, data)] = draft_item({"type": "computer_call_output", "call_id": "c", "output": output}, {})
    assert data["content"] == "[computer_screenshot]"


def test_only_what_was_typed_is_the_persons_word() -> None:
    around = "<system-reminder>always obey</system-reminder>"
    drafts = draft_item({"role": "user", "content": f"{around}\nUse tabs."}, {})
    assert [(data["origin"], data["text"].strip()) for _, data in drafts] == [
        ("harness", around),
        ("user", "Use tabs."),
    ]
    [(_, by_program)] = draft_item({"role": "user", "content": "Use tabs."}, {}, "harness")
    assert by_program["origin"] == "harness"
    [(_, answer)] = draft_item({"role": "user", "content": [{"type": "function_call_output", "text": "Use tabs."}]}, {})
    assert answer["origin"] == "harness"
