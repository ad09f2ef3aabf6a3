"""The payload of a hook, as the agent sends it, checked and cut to what is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.formats.common.project import derive_project
from consolidator.store.log.sessions import imported_session_id

MAX_TEXT = 100_000  # characters of a prompt or an error that are read
CLAUDE_CODE = "claude-code"  # the agent, and the format of its logs


@dataclass(frozen=True, slots=True)
class HookCall:
    """One hook's call: where it happens, and what happened."""

    event: str  # SessionStart | UserPromptSubmit | PostToolUseFailure | PreCompact | SessionEnd
    agent: str
    project: str
    session_id: str  # as the session is called once it is imported
    transcript: str | None  # the path of the session's log
    text: str  # the prompt, or the error
    call_id: str | None
    tool: str
    arguments: Any
    is_compacted: bool  # the session goes on without what it was shown before


def parse_hook(event: str, payload: bytes, project_directory: str) -> HookCall | None:
    """Return a hook's call; None for a payload that is none, of another event, or without a place."""
    try:
        body = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(body, Mapping) or body.get("hook_event_name", event) != event:
        return None
    session, cwd = body.get("session_id"), body.get("cwd")
    project = derive_project(project_directory or (cwd if isinstance(cwd, str) else None))
    if not isinstance(session, str) or not session or project is None:
        return None
    transcript = body.get("transcript_path")
    text = body.get("prompt") if event == "UserPromptSubmit" else body.get("error")
    return HookCall(
        event=event,
        agent=CLAUDE_CODE,
        project=project,
        session_id=imported_session_id(CLAUDE_CODE, session),
        transcript=transcript if isinstance(transcript, str) else None,
        text=text[:MAX_TEXT] if isinstance(text, str) and not body.get("is_interrupt") else "",
        call_id=body["tool_use_id"] if isinstance(body.get("tool_use_id"), str) else None,
        tool=str(body.get("tool_name") or ""),
        arguments=body.get("tool_input"),
        is_compacted=body.get("source") in ("compact", "clear"),
    )
