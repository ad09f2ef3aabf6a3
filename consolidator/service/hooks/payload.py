"""What a hook is sent by the agent, checked and cut to what is used, and what it answers."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from consolidator.database import Database
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.project import derive_project
from consolidator.memory.calls.directory import is_absolute, place_below, plain_path
from consolidator.memory.calls.symbols import read_call
from consolidator.models.audience import OWNER
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.clients.registry import CLIENTS, HookMoment
from consolidator.service.memory.telling.brief import Brief, Situation, brief
from consolidator.service.scope import find_checkout
from consolidator.store.memory import injections
from consolidator.store.sessions.sessions import imported_session_id

MAX_TEXT = 100_000  # characters of a prompt or an error that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall(Situation):
    """One hook's call: what happened, and where; its directory is a whole path, its client that of its logs' format."""

    event: str  # as the agent calls it
    moment: HookMoment
    agent: str  # the client's name
    project: str
    transcript: str | None  # the path of the session's log
    call_id: str | None


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

    texts = {name: value for name, value in body.items() if isinstance(value, str)}
    session = next(filter(None, (texts.get(field) for field in client.session_fields)), None)
    start = client.read_directory(body, project_directory)
    start = plain_path(start) if start else start
    project = derive_project(start)
    if session is None or project is None:
        return None

    text: Any = body.get("prompt") if hook.moment == "prompt" else None
    if isinstance(text, list):  # parts of a prompt
        text = extract_text(text)
    if hook.moment == "failure":
        text = client.read_error(body)

    tool, arguments = read_call(str(body.get("tool_name") or ""), body.get("tool_input"))
    return HookCall(
        event=event,
        moment=hook.moment,
        agent=client.name,
        project=project,
        directory=texts.get("cwd"),
        place=start if start != project else None,  # of a worktree: what was learned is below where a session begins
        session_id=imported_session_id(client.name, session),
        transcript=client.find_log(body, session, Path.home(), os.environ) if hook.moment == "import" else None,
        text=text[:MAX_TEXT] if isinstance(text, str) else "",
        call_id=texts.get("tool_use_id"),
        tool=tool,
        arguments=arguments,
    )


async def answer_hook(
    database: Database, call: HookCall, shown: Collection[str] = (), *, was_briefed: bool = True
) -> Brief | None:
    """Return what to show at a hook; None for nothing. `shown` is what the session has seen (`Brief.shown`).

    A session whose start nobody answered (`was_briefed`), as while the service was starting, is briefed at its first
    prompt. The project is the one that the call's directory is in.
    """
    if call.moment == "import":
        return None
    project, place = await find_checkout(database, PurePath(call.project))
    place = call.place or place or call.project
    below = place_below(call.directory or "/", place)  # "" for the project itself, absolute for a place elsewhere
    situation = replace(call, directory=None if is_absolute(below) else below, place=place, shown=shown)
    moment = "session_start" if call.moment == "prompt" and not was_briefed else call.moment
    return await brief(database, moment, MemoryScope(call.agent, project or call.project, OWNER), situation)


async def load_shown(database: Database, call: HookCall) -> tuple[set[str], bool]:
    """Return what a session was shown by an earlier process, and whether it was briefed at its start."""
    async with database.connection() as conn:
        earlier = await injections.list_of_session(conn, call.session_id)
    shown = {key for row in earlier for key in ([str(row.fix["text"])] if "text" in row.fix else row.cited)}
    return shown, any(row.moment == "session_start" for row in earlier)
