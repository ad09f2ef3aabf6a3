"""Where coding agents keep their settings and logs on this machine: the one place that says so. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

# By agent (which is the name of its logs' format, too): the variable that moves its folder, the folder below the home,
# and the folders of its logs in it.
_AGENTS: dict[str, tuple[str | None, str, tuple[str, ...]]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", ("projects",)),
    "codex": ("CODEX_HOME", ".codex", ("sessions", "archived_sessions")),
    "cursor": (None, ".cursor", ("projects",)),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", ("sessions",)),
}
VARIABLES = tuple(variable for variable, _, _ in _AGENTS.values() if variable)


def agent_folder(agent: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of an agent's settings: what its variable names, else the usual one below the home."""
    variable, folder, _ = _AGENTS[agent]
    configured = environment.get(variable) if variable else None
    return Path(configured) if configured else home / folder


def log_folders(agent: str, home: Path, environment: Mapping[str, str], project: Path | None = None) -> list[Path]:
    """Return the folders of an agent's logs, existing or not; none for a format whose logs have no usual place.

    With a project only its logs, where the agent keeps them apart.
    """
    if agent not in _AGENTS:
        return []
    folders = [agent_folder(agent, home, environment) / name for name in _AGENTS[agent][2]]
    if agent == "claude-code" and project is not None:
        return [folder / re.sub(r"[^A-Za-z0-9]", "-", str(project)) for folder in folders]
    return folders
