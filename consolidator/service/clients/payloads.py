"""What the payloads of the clients' hooks say of a call that failed and of where it happens, as each documents it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from consolidator.formats.codex.items import build_result
from consolidator.formats.common.json_parsing import parse_json
from consolidator.memory.recall.query import looks_like_error


def read_claude_code_error(payload: Mapping[str, Any]) -> str:
    """Return the error of PostToolUseFailure; "" for a call that a person interrupted."""
    error = payload.get("error")
    return error if isinstance(error, str) and not payload.get("is_interrupt") else ""


def read_codex_error(payload: Mapping[str, Any]) -> str:
    """Return the output of a call in PostToolUse, which comes after every call, if it failed.

    It is read as the output in a rollout is. Where it does not tell the exit code, an output that looks like an error
    is taken for one: only the fix of exactly this error is shown then.
    """
    result = build_result({"output": payload.get("tool_response")}, str(payload.get("tool_name")))
    content = str(result["content"])
    is_failure = result["status"] == "error" or (result["exit_code"] is None and looks_like_error(content))
    return content if is_failure and result["reason"] not in ("rejected", "aborted") else ""


def read_cursor_error(payload: Mapping[str, Any]) -> str:
    """Return the error of postToolUseFailure, or the output of postToolUse whose exit code says that it failed."""
    if payload.get("is_interrupt") or payload.get("failure_type") == "permission_denied":
        return ""
    error = payload.get("error_message")
    if isinstance(error, str) and error:
        return error
    output = payload.get("tool_output")
    if isinstance(output, str):
        with suppress(ValueError):
            output = parse_json(output)
    if not isinstance(output, Mapping) or output.get("exitCode") in (None, 0):
        return ""
    return str(output.get("output") or "")


def read_working_directory(payload: Mapping[str, Any], _: str) -> str | None:
    """Return the session's working directory."""
    cwd = payload.get("cwd")
    return cwd if isinstance(cwd, str) else None


def read_claude_code_directory(payload: Mapping[str, Any], project: str) -> str | None:
    """Return the project's directory, which Claude Code's hooks are told in their environment.

    Cursor runs the hooks in Claude Code's settings, too: its sessions are none of Claude Code's.
    """
    return None if "cursor_version" in payload else project or read_working_directory(payload, project)


def read_cursor_directory(payload: Mapping[str, Any], project: str) -> str | None:
    """Return the first root of the workspace, else what the environment or a call says."""
    roots = payload.get("workspace_roots")
    if isinstance(roots, list) and roots and isinstance(roots[0], str):
        return roots[0]
    return project or read_working_directory(payload, project)


def render_specific_output(event: str, text: str) -> dict[str, Any]:
    """Return an answer as Claude Code and Codex read it."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def render_context(_: str, text: str) -> dict[str, Any]:
    """Return an answer as Cursor reads it."""
    return {"additional_context": text}
