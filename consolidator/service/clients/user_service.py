"""The optional service of a person's session that runs `serve --watch`: a systemd unit, or a launchd agent."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from consolidator.formats.agent_folders import VARIABLES
from consolidator.service.clients import changes
from consolidator.service.clients.changes import FileChange
from consolidator.settings import Settings

NAME = "consolidator"
LABEL = "dev.consolidator.serve"
COMMAND_SECONDS = 30
_COMMAND = ("-I", "-m", "consolidator", "serve", "--watch")


def service_path(home: Path, environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the file that describes the service."""
    if platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    folder = environment.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else home / ".config"
    return base / "systemd" / "user" / f"{NAME}.service"


def render_service(python: str, data_home: Path, environment: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return what the file says; the service looks for logs where the agents of this environment leave them."""
    variables = {"CONSOLIDATOR_HOME": str(data_home)}
    variables |= {name: environment[name] for name in VARIABLES if environment.get(name)}
    if platform == "darwin":
        agent = {
            "Label": LABEL,
            "ProgramArguments": [python, *_COMMAND],
            "EnvironmentVariables": variables,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ProcessType": "Background",
        }
        return plistlib.dumps(agent).decode()
    command = " ".join(_quote(word) for word in (python, *_COMMAND))
    assignments = "\n".join(f"Environment={_quote(f'{name}={value}')}" for name, value in variables.items())
    return f"""[Unit]
Description=consolidator: memory for agents, its nights and its HTTP

[Service]
ExecStart={command}
{assignments}
Restart=on-failure
RestartSec=30
Nice=10

[Install]
WantedBy=default.target
"""


def plan_service(settings: Settings) -> FileChange:
    """Return the change that writes the service's file."""
    path = service_path(Path.home(), os.environ)
    return FileChange(
        path, changes.read_text(path), render_service(sys.executable, settings.home.absolute(), os.environ)
    )


def plan_removal() -> FileChange:
    """Return the change that removes the service's file."""
    path = service_path(Path.home(), os.environ)
    return FileChange(path, changes.read_text(path), None)


def start_commands(path: Path, platform: str = sys.platform) -> list[list[str]]:
    """Return the commands that start the service now and at every login."""
    if platform == "darwin":
        return [["launchctl", "load", "-w", str(path)]]
    return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", NAME]]


def stop_commands(path: Path, platform: str = sys.platform) -> list[list[str]]:
    """Return the commands that stop the service for good, before its file goes."""
    if platform == "darwin":
        return [["launchctl", "unload", "-w", str(path)]]
    return [["systemctl", "--user", "disable", "--now", NAME]]


def run_commands(commands: list[list[str]]) -> list[str]:
    """Run commands; return those that a person has to run, as they could not be run here."""
    left = []
    for command in commands:
        try:
            if shutil.which(command[0]) is None:
                raise FileNotFoundError(command[0])
            subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)
        except (OSError, subprocess.SubprocessError):
            left.append(" ".join(command))
    return left


def _quote(word: str) -> str:
    """Return a word as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
