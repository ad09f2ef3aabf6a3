"""What Claude Code's settings say of us: its hooks, and the MCP server. Pure: texts in, texts out.

Hooks stand in `settings.json`, servers in `.claude.json`, both in the folder that CLAUDE_CONFIG_DIR names, else in the
home. For one project they stand in its `settings.local.json`, which is not shared, and under the project's path.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.service.clients import json_text

SERVER_NAME = "consolidator"
SERVER_ARGUMENTS = ["-I", "-m", "consolidator", "mcp"]  # by which a server is known as ours
# Event -> what it is for; a matcher "" or none is for every tool and source.
EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUseFailure", "PreCompact", "SessionEnd")
TIMEOUT_SECONDS = 2  # after which Claude Code ends a hook; ours ends itself long before
_PROGRAM = os.path.join("consolidator", "hooks", "program.py")  # the end of the path by which a hook is known as ours


def settings_path(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    """Return the file that hooks are written to."""
    if project is not None:
        return project / ".claude" / "settings.local.json"
    configured = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(configured) if configured else home / ".claude") / "settings.json"


def logs_path(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    """Return where the logs of sessions are: of all projects, or of one."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    logs = (Path(configured) if configured else home / ".claude") / "projects"
    return logs if project is None else logs / re.sub(r"[^A-Za-z0-9]", "-", str(project))


def servers_path(home: Path, environment: Mapping[str, str]) -> Path:
    """Return the file that MCP servers are written to."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(configured) if configured else home) / ".claude.json"


def add_hooks(text: str, python: str, program: Path, data_home: Path) -> str:
    """Return settings with our hooks, each once; an earlier version's give way to them."""
    wanted = {event: _hook(python, program, data_home, event) for event in EVENTS}
    settings = json_text.parse(text).to_json()
    current = {event: [hook for _, _, hook in _ours(settings, event)] for event in EVENTS}
    if all(current[event] == [hook] for event, hook in wanted.items()):
        return text
    text = remove_hooks(text)
    for event, hook in wanted.items():
        text = json_text.append(text, ("hooks", event), {"hooks": [hook]})
    return text


def remove_hooks(text: str) -> str:
    """Return settings without our hooks; what of others stands beside them stays."""
    hooks = json_text.find(text, ("hooks",))
    events = [str(name) for name, _, _ in hooks.children] if hooks is not None and hooks.kind == "object" else []
    for event in events:
        ours = list(_ours(json_text.parse(text).to_json(), event))
        for group, position, _ in reversed(ours):
            text = json_text.remove(text, ("hooks", event, group, "hooks", position))
            text = _remove_empty(text, ("hooks", event, group, "hooks"), ("hooks", event, group))
        if ours:
            text = _remove_empty(text, ("hooks", event), ("hooks", event))
            text = _remove_empty(text, ("hooks",), ("hooks",))
    return text


def has_hooks(text: str) -> bool:
    """Tell whether settings hold a hook of ours for every event."""
    settings = json_text.parse(text).to_json()
    return all(any(True for _ in _ours(settings, event)) for event in EVENTS)


def add_server(text: str, python: str, environment: Mapping[str, str], project: Path | None) -> str:
    """Return the servers with ours; one of its name that a person registered otherwise stays as it is."""
    path = _server_path(project)
    wanted = {"type": "stdio", "command": python, "args": SERVER_ARGUMENTS, "env": dict(environment)}
    current = json_text.find(text, path)
    if current is not None and (current.to_json() == wanted or not _is_our_server(current)):
        return text
    return json_text.put(text, path, wanted)


def remove_server(text: str, project: Path | None) -> str:
    """Return the servers without ours."""
    path = _server_path(project)
    current = json_text.find(text, path)
    if current is None or not _is_our_server(current):
        return text
    text = json_text.remove(text, path)
    return _remove_empty(text, path[:-1], path[:-1]) if project is None else text


def _is_our_server(server: json_text.Node) -> bool:
    entry = server.to_json()
    return isinstance(entry, dict) and entry.get("args") == SERVER_ARGUMENTS


def has_server(text: str, project: Path | None) -> bool:
    """Tell whether our server is registered."""
    return json_text.find(text, _server_path(project)) is not None


def _server_path(project: Path | None) -> tuple[str, ...]:
    return (*(() if project is None else ("projects", str(project))), "mcpServers", SERVER_NAME)


def _hook(python: str, program: Path, data_home: Path, event: str) -> dict[str, Any]:
    command = shlex.join([python, "-I", "-S", str(program), str(data_home), event])
    return {"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}


def _ours(settings: Any, event: str) -> Iterator[tuple[int, int, Any]]:
    """Yield our hooks of an event: the position of their group, their own in it, and what they say."""
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    groups = hooks.get(event) if isinstance(hooks, dict) else None
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        entries = group.get("hooks") if isinstance(group, dict) else None
        for position, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, dict) and _is_ours(entry.get("command")):
                yield number, position, entry


def _is_ours(command: Any) -> bool:
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return any(word.endswith(os.sep + _PROGRAM) for word in words)


def _remove_empty(text: str, path: tuple[json_text.Key, ...], whole: tuple[json_text.Key, ...]) -> str:
    """Remove `whole` where what stands at `path` is empty and holds no comment."""
    node = json_text.find(text, path)
    is_empty = node is not None and not node.children and not text[node.start + 1 : node.end - 1].strip()
    return json_text.remove(text, whole) if is_empty else text
