"""Where coding agents keep their settings and logs on this machine: agent_folders.json alone says so. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


def _read_root(row: dict[str, Any]) -> Iterator[_Root]:
    """Yield the root of a row; for an extension of VS Code those in each of its forks."""
    if "extension" not in row:
        yield _Root(row["folder"], tuple(row["logs"]), tuple(row.get("variables", {}).items()))
        return
    for editor in _EDITORS:
        path = f"{editor}/User/globalStorage/{row['extension']}"
        yield _Root(f".config/{path}", ("tasks",), (("XDG_CONFIG_HOME", path), ("APPDATA", path)))
        yield _Root(f"Library/Application Support/{path}", ("tasks",))
    yield _Root(f".vscode-server/data/User/globalStorage/{row['extension']}", ("tasks",))


# By agent, which is the name of its logs' format, too; an agent's settings are in its first root.
_AGENTS: dict[str, list[_Root]] = {
    agent: [root for row in rows for root in _read_root(row)]
    for agent, rows in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")).items()
}
VARIABLES = tuple(dict.fromkeys(name for roots in _AGENTS.values() for root in roots for name, _ in root.variables))


def agent_folder(agent: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of an agent's settings: what its variable names, else the usual one below the home."""
    return _AGENTS[agent][0].find(home, environment)


def log_folders(agent: str, home: Path, environment: Mapping[str, str], project: Path | None = None) -> list[Path]:
    """Return the folders of an agent's logs, existing or not; none for a format whose logs have no usual place.

    With a project only its logs, where the agent keeps them apart.
    """
    roots = [(root.find(home, environment), root.logs) for root in _AGENTS.get(agent, ())]
    folders = list(dict.fromkeys(folder / name for folder, names in roots for name in names))
    if agent == "claude-code" and project is not None:
        return [folder / re.sub(r"[^A-Za-z0-9]", "-", str(project)) for folder in folders]
    return folders
