"""Our part of Claude Code's settings is added once, and taken out without touching what others wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consolidator.service.clients import claude_code

PROGRAM = Path("/site/consolidator/hooks/program.py")
HOME = Path("/data home/c")
OTHERS = """{
  // by hand
  "hooks": {
    "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo hi"}]}],
    "Stop": []
  },
  "permissions": {"allow": ["Bash(git:*)"]}
}
"""


def add(text: str, program: Path = PROGRAM) -> str:
    """Settings with our hooks."""
    return claude_code.add_hooks(text, "/venv/bin/python", program, HOME)


@pytest.mark.parametrize("text", ["{}\n", OTHERS, '{"model": "opus"}', '{"hooks": {"SessionEnd": [{"hooks": []}]}}'])
def test_hooks_are_added_once_and_removed_without_a_trace(text: str) -> None:
    installed = add(text)
    assert claude_code.has_hooks(installed)
    assert not claude_code.has_hooks(text)
    assert add(installed) == installed
    assert claude_code.remove_hooks(installed) == text


def test_a_hook_is_a_command_that_the_shell_reads_as_one_program() -> None:
    settings = json.loads(add("{}\n"))
    commands = {event: groups[-1]["hooks"][0]["command"] for event, groups in settings["hooks"].items()}
    assert set(commands) == set(claude_code.EVENTS)
    assert commands["SessionEnd"] == f"/venv/bin/python -I -S {PROGRAM} '{HOME}' SessionEnd"


def test_the_hooks_of_another_version_give_way() -> None:
    moved = add(add(OTHERS, Path("/old/consolidator/hooks/program.py")))
    assert moved == add(OTHERS)


def test_what_stands_in_one_group_with_ours_stays() -> None:
    settings = json.loads(add("{}\n"))
    other = {"type": "command", "command": "echo also me"}
    settings["hooks"]["SessionEnd"][0]["hooks"].append(other)
    removed = json.loads(claude_code.remove_hooks(json.dumps(settings)))
    assert removed == {"hooks": {"SessionEnd": [{"hooks": [other]}]}}


@pytest.mark.parametrize("project", [None, Path("/work/shop")])
def test_the_server_is_added_once_and_removed_without_a_trace(project: Path | None) -> None:
    text = '{"numStartups": 3, "projects": {"/work/shop": {"mcpServers": {"x": {}}, "allowedTools": []}}}'
    installed = claude_code.add_server(text, "/venv/bin/python", {}, project)
    assert claude_code.has_server(installed, project)
    assert claude_code.add_server(installed, "/venv/bin/python", {}, project) == installed
    assert claude_code.remove_server(installed, project) == text


def test_a_server_that_a_person_registered_is_left_alone() -> None:
    text = '{"mcpServers": {"consolidator": {"command": "consolidator", "args": ["mcp", "--agent", "x"]}}}'
    assert claude_code.add_server(text, "/venv/bin/python", {}, None) == text
    assert claude_code.remove_server(text, None) == text


def test_settings_of_a_configured_folder_and_of_a_project_are_found() -> None:
    home, project = Path("/home/ada"), Path("/work/shop")
    assert claude_code.settings_path(home, {}, None) == home / ".claude/settings.json"
    assert claude_code.settings_path(home, {"CLAUDE_CONFIG_DIR": "/etc/cc"}, None) == Path("/etc/cc/settings.json")
    assert claude_code.settings_path(home, {}, project) == project / ".claude/settings.local.json"
    assert claude_code.servers_path(home, {"CLAUDE_CONFIG_DIR": "/etc/cc"}) == Path("/etc/cc/.claude.json")
    assert claude_code.logs_path(home, {}, project) == home / ".claude/projects/-work-shop"
