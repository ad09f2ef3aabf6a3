"""The payloads of hooks, as the clients document them, say where a session is and what failed in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consolidator.service.hooks.payload import HookCall, parse_hook
from consolidator.store.sessions.sessions import imported_session_id

UNIFIED = "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {}\nOriginal token count: 9\nOutput:\n{}"
ERROR = "fatal: The current branch x has no upstream branch.\n"


def codex(response: Any, **fields: Any) -> HookCall | None:
    """Codex's PostToolUse after a shell command."""
    body = {
        "session_id": "0199",
        "turn_id": "1",
        "transcript_path": "/h/.codex/sessions/rollout-0199.jsonl",
        "cwd": "/work/shop",
        "hook_event_name": "PostToolUse",
        "model": "m",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": "git push"},
        "tool_response": response,
        "tool_use_id": "call_1",
        **fields,
    }
    return parse_hook("codex", "PostToolUse", json.dumps(body).encode(), "")


def cursor(event: str, **fields: Any) -> HookCall | None:
    """One of Cursor's hooks."""
    body = {
        "conversation_id": "c1",
        "generation_id": "g1",
        "model": "m",
        "hook_event_name": event,
        "cursor_version": "2.9.0",
        "workspace_roots": ["/work/shop"],
        "user_email": None,
        "transcript_path": "/h/.cursor/projects/work-shop/agent-transcripts/c1/c1.jsonl",
        **fields,
    }
    return parse_hook("cursor", event, json.dumps(body).encode(), "/elsewhere")


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (UNIFIED.format(128, ERROR), ERROR),
        (UNIFIED.format(0, "everything up-to-date"), ""),
        (UNIFIED.format(0, "error: as printed by cat build.log"), ""),
        (f"Exit code: 1\nWall time: 0 seconds\nOutput:\n{ERROR}", ERROR),
        (json.dumps({"output": ERROR, "metadata": {"exit_code": 128, "duration_seconds": 0.1}}), ERROR),
        (ERROR, ERROR),
        ("everything up-to-date", ""),
        ("exec command rejected by user", ""),
        ("", ""),
        (None, ""),
        ({"unforeseen": [1]}, ""),
    ],
)
def test_codex_tells_what_failed_in_the_output_of_every_call(response: Any, error: str) -> None:
    call = codex(response)
    assert call is not None
    assert (call.moment, call.agent, call.project) == ("failure", "codex", "/work/shop")
    assert call.session_id == imported_session_id("codex", "0199")
    assert (call.text, call.call_id) == (error, "call_1")


@pytest.mark.parametrize(
    ("event", "fields", "error"),
    [
        ("postToolUseFailure", {"error_message": ERROR, "failure_type": "error", "is_interrupt": False}, ERROR),
        ("postToolUseFailure", {"error_message": ERROR, "failure_type": "error", "is_interrupt": True}, ""),
        ("postToolUseFailure", {"error_message": "denied", "failure_type": "permission_denied"}, ""),
        ("postToolUse", {"tool_output": json.dumps({"output": ERROR, "exitCode": 1})}, ERROR),
        ("postToolUse", {"tool_output": json.dumps({"output": ERROR, "exitCode": 0})}, ""),
        ("postToolUse", {"tool_output": "not JSON"}, ""),
    ],
)
def test_cursor_tells_what_failed(event: str, fields: dict[str, Any], error: str) -> None:
    call = cursor(event, tool_name="Shell", tool_input={"command": "git push"}, tool_use_id="t1", **fields)
    assert call is not None
    assert (call.moment, call.project, call.text) == ("failure", "/work/shop", error)
    assert call.session_id == imported_session_id("cursor", "c1")


def test_a_session_of_cursors_that_runs_claude_codes_hooks_is_none_of_claude_codes() -> None:
    body = {"session_id": "s", "cwd": "/work/shop", "hook_event_name": "SessionStart", "cursor_version": "2.9.0"}
    assert parse_hook("claude-code", "SessionStart", json.dumps(body).encode(), "/work/shop") is None


@pytest.mark.parametrize(("client", "event"), [("codex", "Stop"), ("cursor", "stop"), ("nobody", "SessionStart")])
def test_what_no_hook_of_ours_is_for_is_no_call(client: str, event: str) -> None:
    assert parse_hook(client, event, b'{"session_id": "s", "cwd": "/work"}', "") is None
