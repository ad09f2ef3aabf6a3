"""The payload of a hook, as the agent sends it, checked and cut to what is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.formats.common.project import derive_project
from consolidator.service.clients.client import HookMoment
from consolidator.service.clients.registry import CLIENTS
from consolidator.store.sessions.sessions import imported_session_id

MAX_TEXT = 100_000  # characters of a prompt or an error that are read


@dataclass(frozen=True, slots=True)
class HookCall:
    """One hook's call: where it happens, and what happened."""

    event: str  # as the agent calls it
    moment: HookMoment
    agent: str  # the client's name, which is that of its logs' format, too
    project: str
    directory: str | None  # where the agent works just then
    session_id: str  # as the session is called once it is imported
    transcript: str | None  # the path of the session's log
    text: str  # the prompt, or the error
    call_id: str | None
    tool: str
    arguments: Any


def parse_hook(client_name: str, event: str, payload: bytes, project_directory: str) -> HookCall | None:
    """Return a hook's call; None for a payload that is none, of another event, or without a place."""
    client = CLIENTS.get(client_name)
    hook = None if client is None else client.hook(event)
    if client is None or hook is None:
        return None
    try:
        body = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(body, Mapping) or body.get("hook_event_name", event) != event:
        return None
    names = [body.get(field) for field in client.session_fields]
    session = next((name for name in names if isinstance(name, str) and name), None)
    project = derive_project(client.read_directory(body, project_directory))
    if session is None or project is None:
        return None
    transcript = body.get("transcript_path")
    text = body.get("prompt") if hook.moment == "prompt" else None
    if hook.moment == "failure":
        text = client.read_error(body)
    return HookCall(
        event=event,
        moment=hook.moment,
        agent=client.name,
        project=project,
        directory=body["cwd"] if isinstance(body.get("cwd"), str) else None,
        session_id=imported_session_id(client.name, session),
        transcript=transcript if isinstance(transcript, str) else None,
        text=text[:MAX_TEXT] if isinstance(text, str) else "",
        call_id=body["tool_use_id"] if isinstance(body.get("tool_use_id"), str) else None,
        tool=str(body.get("tool_name") or ""),
        arguments=body.get("tool_input"),
    )
