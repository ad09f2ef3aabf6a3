"""What a client's file says of our hooks: added, recognised, and taken out. Pure: texts in, texts out.

Claude Code and Codex keep groups of hooks under an event, Cursor and Copilot the hooks themselves, Kimi TOML tables;
OpenCode runs a program in its own language, which is a file of ours.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import tomlkit

import consolidator
from consolidator.errors import UsageError
from consolidator.service.clients import json_text
from consolidator.service.clients.registry import Client, Hook
from consolidator.service.clients.servers_text import parse_toml

_PROGRAM, _WARNING = "program.py", "warn.py"  # of all hooks but those before a call, and of these
_PLUGIN = Path(consolidator.__file__).parent / "hooks" / "opencode.js"
_OURS = tuple(os.path.join(os.sep, "consolidator", "hooks", name) for name in (_PROGRAM, _WARNING))  # how paths end


def add_hooks(client: Client, text: str, python: str, folder: Path, data_home: Path) -> str:
    """Return a file with our hooks, each once; an earlier version's give way to them."""
    if client.hooks_form == "program":
        if text and not _is_our_program(text):
            raise UsageError("another program has this name")
        command = [python, "-I", "-S", str(folder / _PROGRAM), str(data_home)]
        return _PLUGIN.read_text(encoding="utf-8").replace('"COMMAND"', json.dumps(command))
    ours = {hook.event: _entry(client, hook, python, folder, data_home) for hook in client.hooks}
    if client.hooks_form == "tables":
        return _add_tables(text, [{"event": event, **entry} for event, entry in ours.items()])
    current = _list_ours(client, json_text.parse(text))
    if {event: [entry for _, entry in entries] for event, entries in current.items()} == {
        hook.event: [{**ours[hook.event], "matcher": hook.matcher}] for hook in client.hooks
    }:
        return text
    text = remove_hooks(client, text)
    for hook in client.hooks:
        entry: dict[str, Any] = {"hooks": [ours[hook.event]]} if client.hooks_form == "groups" else ours[hook.event]
        if hook.matcher is not None:
            entry = {"matcher": hook.matcher, **entry}
        text = json_text.append(text, ("hooks", hook.event), entry)
    return text


def remove_hooks(client: Client, text: str) -> str:
    """Return a file without our hooks; what of others stands beside them stays."""
    if client.hooks_form == "program":
        return "" if _is_our_program(text) else text
    if client.hooks_form == "tables":
        return _remove_tables(text)
    for event, entries in _list_ours(client, json_text.parse(text)).items():
        for path, _ in reversed(entries):
            text = json_text.remove(text, path)
            if client.hooks_form == "groups":
                text = json_text.remove_empty(text, path[:-1], path[:-2])
        text = json_text.remove_empty(text, ("hooks", event), ("hooks", event))
        text = json_text.remove_empty(text, ("hooks",), ("hooks",))
    return text


def has_hooks(client: Client, text: str) -> bool:
    """Tell whether a file holds a hook of ours for every event."""
    if client.hooks_form == "program":
        return _is_our_program(text)
    if client.hooks_form == "tables":
        ours: Collection[str] = [str(table.get("event")) for table in _list_tables(text)]
    else:
        ours = _list_ours(client, json_text.parse(text))
    return all(hook.event in ours for hook in client.hooks)


def hook_command(hook: Hook, python: str, folder: Path, home: str, client: str) -> list[str]:
    """Return the words of the command that a client runs at an event; `folder` is that of our programs."""
    program = folder / (_WARNING if hook.moment == "before_call" else _PROGRAM)
    return [python, "-I", "-S", str(program), home, hook.event, client]


def _entry(client: Client, hook: Hook, python: str, folder: Path, data_home: Path) -> dict[str, Any]:
    command = shlex.join(hook_command(hook, python, folder, str(data_home), client.name))
    kind = {"type": "command"} if client.hooks_form == "groups" else {}
    return {**kind, "command": command, "timeout": client.timeout}


def _list_ours(client: Client, settings: Any) -> dict[str, list[tuple[tuple[json_text.Key, ...], Any]]]:
    """Return our hooks by event: where each stands, and what it says, also of the tools that it is for."""
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    ours: dict[str, list[tuple[tuple[json_text.Key, ...], Any]]] = {}
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        for path, entry, matcher in _walk(client, event, entries):
            if isinstance(entry, dict) and _is_ours(entry.get("command")):
                ours.setdefault(event, []).append((path, {**entry, "matcher": matcher}))
    return ours


def _walk(client: Client, event: str, entries: Any) -> Iterator[tuple[tuple[json_text.Key, ...], Any, Any]]:
    """Yield where each hook of an event stands, the hook, and its matcher: its own, or its group's."""
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        matcher = entry.get("matcher") if isinstance(entry, dict) else None
        if client.hooks_form == "list":
            yield ("hooks", event, number), entry, matcher
            continue
        group = entry.get("hooks") if isinstance(entry, dict) else None
        for position, hook in enumerate(group if isinstance(group, list) else []):
            yield ("hooks", event, number, "hooks", position), hook, matcher


def _is_our_program(text: str) -> bool:
    return text.startswith(_PLUGIN.read_text(encoding="utf-8").partition("\n")[0])


def _is_ours(command: Any) -> bool:
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return any(word.endswith(_OURS) for word in words)


def _add_tables(text: str, entries: Sequence[dict[str, Any]]) -> str:
    """Return a TOML file with our hooks as tables below `[[hooks]]`."""
    if _list_tables(text) == list(entries):
        return text
    text = _remove_tables(text)
    blocks = [tomlkit.dumps({"hooks": [entry]}) for entry in entries]
    return text + ("\n" if text else "") + "\n".join(blocks)


def _remove_tables(text: str) -> str:
    if not _list_tables(text):
        return text
    document = parse_toml(text)
    hooks: Any = document["hooks"]
    for number in reversed(range(len(hooks))):
        if _is_ours(hooks[number].get("command")):
            del hooks[number]
    if not hooks:
        del document["hooks"]
    rest = tomlkit.dumps(document)
    return rest[:-1] if rest.endswith("\n\n") or rest == "\n" else rest  # the line that was put before ours


def _list_tables(text: str) -> list[dict[str, Any]]:
    """Return our hooks among the tables of a TOML file."""
    hooks = parse_toml(text).unwrap().get("hooks", [])
    if not isinstance(hooks, list) or not all(isinstance(table, dict) for table in hooks):
        raise UsageError("hooks are no TOML tables there")
    return [table for table in hooks if _is_ours(table.get("command"))]
