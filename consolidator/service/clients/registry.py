"""The coding agents that memory can be installed into, each with what it documents of its files and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from consolidator.errors import UsageError
from consolidator.formats.agent_folders import agent_folder
from consolidator.service.clients import payloads
from consolidator.service.clients.client import Client, Hook
from consolidator.service.clients.servers_text import JsonServers, TomlServers


def _claude_hooks(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    if project is not None:
        return project / ".claude" / "settings.local.json"
    return agent_folder("claude-code", home, environment) / "settings.json"


def _claude_servers(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    configured = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(configured) if configured else home) / ".claude.json"


def _codex_folder(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    return project / ".codex" if project is not None else agent_folder("codex", home, environment)


CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    hooks=(
        Hook("SessionStart", "session_start"),
        Hook("UserPromptSubmit", "prompt"),
        Hook("PreToolUse", "before_call", matcher="Bash|Skill"),
        Hook("PostToolUseFailure", "failure"),
        Hook("PreCompact", "import"),
        Hook("SessionEnd", "import"),
    ),
    groups_hooks=True,
    hooks_file=_claude_hooks,
    servers_file=_claude_servers,
    servers=JsonServers(by_project=True, typed=True),
    new_hooks_file="{}\n",
    read_error=payloads.read_claude_code_error,
    read_directory=payloads.read_claude_code_directory,
    render=payloads.render_specific_output,
)
CODEX = Client(
    name="codex",
    title="Codex",
    hooks=(
        Hook("SessionStart", "session_start"),
        Hook("UserPromptSubmit", "prompt"),
        Hook("PreToolUse", "before_call", matcher="^Bash$"),
        Hook("PostToolUse", "failure", matcher="^Bash$"),
        Hook("PreCompact", "import"),
        Hook("SessionEnd", "import"),
    ),
    groups_hooks=True,
    hooks_file=lambda *where: _codex_folder(*where) / "hooks.json",
    servers_file=lambda *where: _codex_folder(*where) / "config.toml",
    servers=TomlServers(),
    new_hooks_file="{}\n",
    read_error=payloads.read_codex_error,
    read_directory=payloads.read_working_directory,
    render=payloads.render_specific_output,
    advice="Codex runs new hooks only once you have trusted them: it asks as it starts, and `/hooks` lists them.",
)
CURSOR = Client(
    name="cursor",
    title="Cursor",
    hooks=(
        Hook("sessionStart", "session_start"),
        Hook("postToolUseFailure", "failure"),
        Hook("postToolUse", "failure", matcher="Shell"),
    ),
    groups_hooks=False,
    hooks_file=lambda home, _, project: (project or home) / ".cursor" / "hooks.json",
    servers_file=lambda home, _, project: (project or home) / ".cursor" / "mcp.json",
    servers=JsonServers(),
    new_hooks_file='{\n  "version": 1\n}\n',
    read_error=payloads.read_cursor_error,
    read_directory=payloads.read_cursor_directory,
    render=payloads.render_context,
    session_fields=("session_id", "conversation_id"),
    has_log_format=False,  # its transcripts are not documented, and tell neither times nor what calls answered
)
CLIENTS: dict[str, Client] = {client.name: client for client in (CLAUDE_CODE, CODEX, CURSOR)}


def get_client(name: str) -> Client:
    """Return the client of a name; raise UsageError for one that we do not know."""
    if name not in CLIENTS:
        raise UsageError(f"{name!r} cannot be installed into; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]
