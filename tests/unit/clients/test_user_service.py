"""The service of a person's session is described as launchd reads it, and is started and stopped by its file."""

from __future__ import annotations

import plistlib
from pathlib import Path

from consolidator.formats.agent_folders import VARIABLES
from consolidator.hooks.program import _VARIABLES
from consolidator.service.clients.user_service import (
    LABEL,
    render_service,
    service_path,
    start_commands,
    stop_commands,
)

PYTHON = "/Users/ann/my <venv> & more/bin/python"
DATA = Path("/Users/ann/Library/Application Support/consolidator")
HOME = Path("/Users/ann")


def test_launchds_agent_runs_serve_with_its_home() -> None:
    agent = plistlib.loads(render_service(PYTHON, DATA, {}, "darwin").encode())
    assert agent["ProgramArguments"] == [PYTHON, "-I", "-m", "consolidator", "serve", "--watch"]
    assert agent["EnvironmentVariables"] == {"CONSOLIDATOR_HOME": str(DATA)}
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}  # again after a crash, not after `stop`


def test_launchd_finds_the_agent_under_its_label_and_is_told_of_its_file() -> None:
    path = service_path(HOME, {"XDG_CONFIG_HOME": "/elsewhere"}, "darwin")
    assert path == HOME / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    assert plistlib.loads(render_service(PYTHON, DATA, {}, "darwin").encode())["Label"] == path.stem
    commands = [*start_commands(path, "darwin"), *stop_commands(path, "darwin")]
    assert commands == [["launchctl", "load", "-w", str(path)], ["launchctl", "unload", "-w", str(path)]]


def test_the_service_looks_for_logs_where_this_environments_agents_leave_them() -> None:
    environment = {"CODEX_HOME": "/data/codex 1", "CLAUDE_CONFIG_DIR": "", "SECRET": "x"}
    agent = plistlib.loads(render_service(PYTHON, DATA, environment, "darwin").encode())
    assert agent["EnvironmentVariables"] == {"CONSOLIDATOR_HOME": str(DATA), "CODEX_HOME": "/data/codex 1"}
    assert '\nEnvironment="CODEX_HOME=/data/codex 1"\n' in render_service(PYTHON, DATA, environment, "linux")
    assert set(VARIABLES) <= set(_VARIABLES)  # the hook service, too
