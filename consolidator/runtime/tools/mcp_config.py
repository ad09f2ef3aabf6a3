"""Reads the usual JSON file of MCP servers: {"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consolidator.errors import UsageError
from consolidator.runtime.tools.tool import Tool

MAX_BYTES = 1024 * 1024
MAX_SERVERS = 64
MAX_WORDS = 200  # arguments of a server's command, and names in its environment
_IGNORED = {"disabled", "type", "description", "alwaysAllow", "autoApprove", "timeout"}  # of other programs


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """How a server is started. `env` may hold keys: it goes to the server alone."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None


def read_mcp_config(path: Path) -> list[McpServerConfig]:
    """Return the servers of a file, in its order, without those that are `disabled`.

    Raises UsageError that names the file, the server and the field; never a value, which may be a key.
    """
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the MCP configuration {path} cannot be read: {error.strerror}") from error
    if len(body) > MAX_BYTES:
        raise UsageError(f"the MCP configuration {path} has more than {MAX_BYTES:,} bytes")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"the MCP configuration {path} is no JSON{where}") from error
    servers = parsed.get("mcpServers") if isinstance(parsed, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(f'the MCP configuration {path} has no object "mcpServers"')
    if len(servers) > MAX_SERVERS:
        raise UsageError(
            f"the MCP configuration {path} has {len(servers):,} servers; at most {MAX_SERVERS} are started"
        )
    return [
        _parse_server(path, name, entry)
        for name, entry in servers.items()
        if not (isinstance(entry, dict) and entry.get("disabled") is True)
    ]


def _parse_server(path: Path, name: str, entry: Any) -> McpServerConfig:
    where = f"server {name[:80]!r} of the MCP configuration {path}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is no object")
    if "url" in entry or entry.get("type", "stdio") != "stdio":
        raise UsageError(f"{where} is reached over HTTP: only servers that are started by a command are supported")
    unknown = sorted(set(entry) - _IGNORED - {"command", "args", "env", "cwd"})
    if unknown:
        raise UsageError(f"{where} has a field that is not known: {unknown[0][:80]!r}")
    command, args, env, cwd = entry.get("command"), entry.get("args", []), entry.get("env", {}), entry.get("cwd")
    if not isinstance(command, str) or not command.strip():
        raise UsageError(f'{where} has no "command"')
    if not isinstance(args, list) or len(args) > MAX_WORDS or not all(isinstance(word, str) for word in args):
        raise UsageError(f'{where}: "args" is not a list of at most {MAX_WORDS} strings')
    if not isinstance(env, dict) or len(env) > MAX_WORDS or not all(isinstance(value, str) for value in env.values()):
        raise UsageError(f'{where}: "env" is not an object of at most {MAX_WORDS} strings')
    if cwd is not None and not isinstance(cwd, str):
        raise UsageError(f'{where}: "cwd" is not a string')
    texts = [command, *args, *env, *env.values(), cwd or ""]
    if any("\0" in text for text in texts):
        raise UsageError(f"{where} holds a NUL character, which no program takes")
    return McpServerConfig(name, (command, *args), env, None if cwd is None else Path(cwd).expanduser())


@asynccontextmanager
async def start_mcp_servers(
    commands: Sequence[str], configured: Sequence[McpServerConfig] = ()
) -> AsyncIterator[list[Tool]]:
    """Start MCP servers, yield the tools of all, and stop the servers. Raises UsageError where one does not start."""
    tools: list[Tool] = []
    async with AsyncExitStack() as stack:
        if commands or configured:
            from consolidator.runtime.tools.mcp_tools import mcp_tools

            for command in commands:
                tools += await stack.enter_async_context(mcp_tools(command))
            for server in configured:
                tools += await stack.enter_async_context(mcp_tools(server.command, env=server.env, cwd=server.cwd))
        yield tools
