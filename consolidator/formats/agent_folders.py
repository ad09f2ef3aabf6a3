"""Where coding agents keep their settings and logs on this machine: the one place that says so. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder of an agent: below the home, or below what one of the variables names; and what holds logs in it."""

    folder: str
    logs: tuple[str, ...]
    variables: tuple[
        tuple[str, str], ...
    ] = ()  # each with what stands below what it names; the first that is set counts

    def find(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the folder."""
        configured = ((environment.get(name), below) for name, below in self.variables)
        return next((Path(value) / below for value, below in configured if value), home / self.folder)


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


def _extension(name: str) -> tuple[_Root, ...]:
    """Return the roots of an extension of VS Code and its forks."""
    below = [f"{editor}/User/globalStorage/{name}" for editor in _EDITORS]
    roots = [_Root(f".config/{path}", ("tasks",), (("XDG_CONFIG_HOME", path), ("APPDATA", path))) for path in below]
    roots += [_Root(f"Library/Application Support/{path}", ("tasks",)) for path in below]
    return (*roots, _Root(f".vscode-server/data/User/globalStorage/{name}", ("tasks",)))


# By agent, which is the name of its logs' format, too; an agent's settings are in its first root.
_AGENTS: dict[str, tuple[_Root, ...]] = {
    "claude-code": (_Root(".claude", ("projects",), (("CLAUDE_CONFIG_DIR", ""),)),),
    "codex": (_Root(".codex", ("sessions", "archived_sessions"), (("CODEX_HOME", ""),)),),
    "cursor": (_Root(".cursor", ("projects",), (("CURSOR_CONFIG_DIR", ""),)),),
    "pi": (
        _Root(".pi/agent", ("sessions",), (("PI_CODING_AGENT_DIR", ""),)),
        _Root(".openclaw", ("agents",), (("OPENCLAW_STATE_DIR", ""),)),
    ),
    "gemini": (_Root(".gemini", ("tmp",), (("GEMINI_CLI_HOME", ".gemini"),)),),
    "qwen": (
        _Root(".qwen", ("projects",), (("QWEN_HOME", ""),)),
        _Root(".qwen", ("projects",), (("QWEN_RUNTIME_DIR", ""),)),
    ),
    "opencode": (
        _Root(".config/opencode", (), (("OPENCODE_CONFIG_DIR", ""), ("XDG_CONFIG_HOME", "opencode"))),
        _Root(".local/share/opencode", ("opencode.db", "storage/session"), (("XDG_DATA_HOME", "opencode"),)),
    ),
    "cline": (
        _Root(".cline/data", ("sessions", "tasks"), (("CLINE_DATA_DIR", ""), ("CLINE_DIR", "data"))),
        *_extension("saoudrizwan.claude-dev"),
        *_extension("rooveterinaryinc.roo-cline"),
    ),
    "copilot": (_Root(".copilot", ("session-state",), (("COPILOT_HOME", ""),)),),
    "goose": (
        _Root(".local/share/goose", ("sessions",), (("GOOSE_PATH_ROOT", "data"), ("XDG_DATA_HOME", "goose"))),
        _Root("Library/Application Support/Block/goose", ("sessions",)),
    ),
    "kimi": (_Root(".kimi-code", ("sessions",), (("KIMI_CODE_HOME", ""),)),),
    "openhands": (
        _Root(".openhands", ("conversations",), (("OPENHANDS_PERSISTENCE_DIR", ""),)),
        _Root(".openhands/conversations", ("",), (("OPENHANDS_CONVERSATIONS_DIR", ""),)),
    ),
    "aider": (_Root(".aider.chat.history.md", ("",), (("AIDER_CHAT_HISTORY_FILE", ""),)),),
}
VARIABLES = tuple(dict.fromkeys(name for roots in _AGENTS.values() for root in roots for name, _ in root.variables))


def agent_folder(agent: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of an agent's settings: what its variable names, else the usual one below the home."""
    return _AGENTS[agent][0].find(home, environment)


def log_folders(agent: str, home: Path, environment: Mapping[str, str], project: Path | None = None) -> list[Path]:
    """Return the folders of an agent's logs, existing or not; none for a format whose logs have no usual place.

    With a project only its logs, where the agent keeps them apart.
    """
    folders = list(dict.fromkeys(_list_logs(agent, home, environment)))
    if agent == "claude-code" and project is not None:
        return [folder / re.sub(r"[^A-Za-z0-9]", "-", str(project)) for folder in folders]
    return folders


def _list_logs(agent: str, home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    for root in _AGENTS.get(agent, ()):
        folder = root.find(home, environment)
        yield from (folder / name for name in root.logs)
