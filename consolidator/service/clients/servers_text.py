"""What a client's JSON or TOML file says of our MCP server: added, recognised, and taken out. Pure.

A server is ours by its arguments; one of our name that a person registered otherwise is left alone. Where an agent has
no hooks, a line in a file of guidance that it reads asks it to use the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from consolidator.errors import UsageError
from consolidator.service.clients import json_text

SERVER_NAME = "consolidator"
SERVER_ARGUMENTS = ["-I", "-m", "consolidator", "mcp"]
INSTALL_MCP = "`pip install 'consolidator[mcp]'`"


def is_mcp_installed() -> bool:
    """Tell whether the packages of the extra `mcp` are there, without importing them."""
    return find_spec("mcp") is not None


@dataclass(frozen=True, slots=True)
class JsonServers:
    """Servers of a JSON file, where that holds several projects under the project's path."""

    by_project: bool = False
    below: str = "mcpServers"
    more: tuple[tuple[str, Any], ...] = ()  # what each server says beside how it is started
    in_one: bool = False  # the command and its arguments are one list

    def add(self, text: str, server: Mapping[str, Any], project: Path | None) -> str:
        """Return the file with our server."""
        path = self._path(project)
        entry = dict(server)
        if self.in_one:
            entry = {"command": [server["command"], *server["args"]], "environment": server["env"]}
        planned = {**dict(self.more), **entry}
        current = json_text.find(text, path)
        if current is not None and (current.value == planned or not _is_ours(current.value)):
            return text
        return json_text.put(text, path, planned)

    def remove(self, text: str, project: Path | None) -> str:
        """Return the file without our server."""
        path = self._path(project)
        current = json_text.find(text, path)
        if current is None or not _is_ours(current.value):
            return text
        text = json_text.remove(text, path)
        in_project = self.by_project and project is not None  # Claude Code itself writes empty servers there
        return text if in_project else json_text.remove_empty(text, path[:-1], path[:-1])

    def has(self, text: str, project: Path | None) -> bool:
        """Tell whether a server of our name is registered."""
        return json_text.find(text, self._path(project)) is not None

    def _path(self, project: Path | None) -> tuple[str, ...]:
        above = ("projects", str(project)) if self.by_project and project is not None else ()
        return (*above, self.below, SERVER_NAME)


@dataclass(frozen=True, slots=True)
class TomlServers:
    """Servers below `mcp_servers` of a TOML file; comments, order and layout of the rest stay."""

    def add(self, text: str, server: Mapping[str, Any], project: Path | None) -> str:
        """Return the file with our server."""
        document = parse_toml(text)
        planned = {name: value for name, value in server.items() if value}
        servers = document.get("mcp_servers")
        if servers is None:
            servers = document["mcp_servers"] = tomlkit.table(is_super_table=True)
        if not isinstance(servers, MutableMapping):
            raise UsageError("mcp_servers is no TOML table there")
        current = _plain(servers.get(SERVER_NAME))
        if current is not None and (current == planned or not _is_ours(current)):
            return text
        table = tomlkit.inline_table() if isinstance(servers, InlineTable) else tomlkit.table()
        for name, value in planned.items():
            table[name] = value
        servers[SERVER_NAME] = table
        return tomlkit.dumps(document)

    def remove(self, text: str, project: Path | None) -> str:
        """Return the file without our server."""
        document = parse_toml(text)
        servers = document.get("mcp_servers")
        if not isinstance(servers, MutableMapping) or not _is_ours(_plain(servers.get(SERVER_NAME))):
            return text
        del servers[SERVER_NAME]
        if not servers and getattr(servers, "is_super_table", bool)():
            del document["mcp_servers"]
        rest = tomlkit.dumps(document)
        return rest.rstrip("\n") + "\n" if rest.endswith("\n\n") else rest  # the line that was put before ours

    def has(self, text: str, project: Path | None) -> bool:
        """Tell whether a server of our name is registered."""
        servers = parse_toml(text).get("mcp_servers")
        return isinstance(servers, MutableMapping) and SERVER_NAME in servers


def parse_toml(text: str) -> tomlkit.TOMLDocument:
    """Return a TOML text as what keeps its comments and layout."""
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"this is no TOML: {error}") from error


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _is_ours(server: Any) -> bool:
    if not isinstance(server, dict):
        return False
    command = server.get("command")
    return SERVER_ARGUMENTS in (server.get("args"), command[1:] if isinstance(command, list) else None)


_GUIDANCE = (
    "Before a task, and after a command that failed, ask the MCP server `consolidator` what earlier sessions learned: "
    "the tools `recall` and `lookup_error`. <!-- by `consolidator install` -->"
)
_GUIDANCE_LINE = re.compile(
    rf"(?:\r?\n|\A){re.escape(_GUIDANCE)}(?:\r?\n|\Z)"
)  # an editor may have changed how lines end


def add_guidance(text: str) -> str:
    """Return a file with our line at its end."""
    return text if _GUIDANCE in text.splitlines() else text + ("\n" if text.strip() else "") + _GUIDANCE + "\n"


def remove_guidance(text: str) -> str:
    """Return a file without our line, and without the empty line that was put before it."""
    match = _GUIDANCE_LINE.search(text)
    if match is None:
        return text
    before, after = text[: match.start()], text[match.end() :]
    return before + ("\n" if before and after and not before.endswith("\n") else "") + after
