"""The plugin for Claude Code and Codex: laid into an empty home by hand, and its hooks run with what agents send."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from consolidator.service.clients.registry import CLIENTS
from tests.acceptance.claude_home import NO_UPSTREAM, ClaudeCode, end_service, push_session
from tests.acceptance.codex_home import UNIFIED_OUTPUT, Codex, codex_push_session
from tests.support import PATIENCE, run_cli

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins/consolidator"
CLAUDE, CODEX = "claude-code", "codex"
VARIABLES = {CLAUDE: "CLAUDE_PLUGIN_ROOT", CODEX: "PLUGIN_ROOT"}
FILES = {CLAUDE: "hooks.json", CODEX: "codex.json"}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture
def lay_down(environment: Mapping[str, str], tmp_path: Path) -> Iterator[Callable[[str], tuple[dict[str, str], Path]]]:
    """Lay the bundle where an agent's marketplace keeps it; return the environment of its hooks, and their file."""

    def lay_down(agent: str) -> tuple[dict[str, str], Path]:
        folder = tmp_path / ("." + agent.removesuffix("-code")) / "plugins/cache/consolidator/consolidator/0.1.0"
        shutil.copytree(PLUGIN, folder)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        Path(environment["CONSOLIDATOR_HOME"]).mkdir(mode=0o700)
        return {**environment, "PATH": programs, VARIABLES[agent]: str(folder)}, folder / "hooks" / FILES[agent]

    yield lay_down
    end_service(environment)


def learn(environment: Mapping[str, str], agent: str) -> None:
    """Import what the agent has kept, and learn from it once."""
    run_cli("import", environment=environment)
    run_cli("run", "consolidation", environment=environment)


def test_in_claude_code_the_right_memory_comes_at_the_right_moment(lay_down: Any, tmp_path: Path) -> None:
    for number, branch in enumerate(("price-list", "shopping-cart"), 1):
        push_session(f"earlier-{number}", branch, number).write(tmp_path)
    environment, hooks = lay_down(CLAUDE)
    learn(environment, CLAUDE)
    claude = ClaudeCode(environment, tmp_path, settings=hooks)
    brief = claude.run_until_answered("SessionStart", source="startup", model="m")
    assert "tabs for indentation" in brief
    failed = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "toolu_1"}
    fix = claude.run_until_answered("PostToolUseFailure", **failed, error=NO_UPSTREAM.format("new-logo"))
    assert "run `git push --set-upstream origin new-logo`" in fix
    assert claude.run("PreToolUse", tool_name="Bash", tool_input={"command": "git status"}) == ""
    assert claude.run("UserPromptSubmit", prompt="what is the weather in Paris?") == ""
    for event in ("PreCompact", "SessionEnd"):
        assert claude.run(event) == ""


def test_in_codex_the_right_memory_comes_at_the_right_moment(lay_down: Any, tmp_path: Path) -> None:
    for number, branch in enumerate(("price-list", "shopping-cart"), 1):
        codex_push_session(f"earlier-{number}", branch, number).write(tmp_path)
    environment, hooks = lay_down(CODEX)
    learn(environment, CODEX)
    codex = Codex(environment, tmp_path, settings=hooks)
    assert "tabs for indentation" in codex.run_until_answered("SessionStart", source="startup")
    call = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "call_1"}
    error = NO_UPSTREAM.format("new-logo").partition("\n")[2]
    fix = codex.run_until_answered("PostToolUse", **call, tool_response=UNIFIED_OUTPUT.format(128, error))
    assert "run `git push --set-upstream origin new-logo`" in fix
    assert codex.run("PostToolUse", **call, tool_response=UNIFIED_OUTPUT.format(0, error)) == ""


def run_hook(environment: Mapping[str, str], event: str) -> str:
    """Return what a hook of the bundle prints, whatever is installed."""
    done = subprocess.run(
        ["sh", PLUGIN / "hooks/hook.sh", event, CLAUDE],
        input="{}", env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_only_a_sessions_start_says_what_is_missing(environment: Mapping[str, str], tmp_path: Path) -> None:
    empty = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert "pipx install 'consolidator[mcp]'" in json.loads(run_hook(empty, "SessionStart"))["systemMessage"]
    assert run_hook(empty, "UserPromptSubmit") == ""
    installed = {**empty, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    assert run_hook(installed, "PreToolUse") == ""
    home = tmp_path / ".local/share/consolidator"
    if sys.platform == "linux":
        assert not home.exists()
        message = json.loads(run_hook(installed, "SessionStart"))["systemMessage"]
        assert "consolidator import" in message
        assert str(home) in message
        assert home.stat().st_mode & 0o777 == 0o700


def test_a_launcher_with_a_long_path_and_a_home_with_a_space_are_understood(tmp_path: Path) -> None:
    """The second form of a launcher is what pip writes where the first line would be too long."""
    programs, home = tmp_path / "bin", tmp_path / "a home"
    programs.mkdir()
    home.mkdir()
    python = programs / "my python3"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    launcher = programs / "consolidator"
    launcher.write_text(f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n")
    launcher.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin", "CONSOLIDATOR_HOME": str(home)}
    assert run_hook(environment, "PreToolUse") == f"-E -P -m consolidator.hooks.warn {home} PreToolUse {CLAUDE}\n"


def test_beside_the_hooks_of_install_the_bundle_is_silent(environment: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    run_cli("install", CLAUDE, "--yes", "--no-history", environment=environment)
    assert run_hook({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, "SessionStart") == ""


@pytest.mark.parametrize("agent", [CLAUDE, CODEX])
def test_the_bundle_has_the_hooks_that_install_would_write(agent: str) -> None:
    groups = {
        (event, group.get("matcher"), hook["command"], hook["timeout"])
        for event, entries in read_json(PLUGIN / "hooks" / FILES[agent])["hooks"].items()
        for group in entries
        for hook in group["hooks"]
    }
    client, script = CLIENTS[agent], f'"${{{VARIABLES[agent]}}}"/hooks/hook.sh'
    assert groups == {
        (hook.event, hook.matcher, f"{script} {hook.event} {agent}", client.timeout) for hook in client.hooks
    }


def test_the_manifests_name_this_version_and_files_that_are_there() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for manifest in (PLUGIN / ".claude-plugin/plugin.json", PLUGIN / ".codex-plugin/plugin.json"):
        described = read_json(manifest)
        assert (described["name"], described["version"]) == ("consolidator", version)
        for name in ("skills", "mcpServers", "hooks"):
            assert name not in described or (PLUGIN / described[name]).exists()
    (claude,) = read_json(ROOT / ".claude-plugin/marketplace.json")["plugins"]
    (codex,) = read_json(ROOT / ".agents/plugins/marketplace.json")["plugins"]
    assert ROOT / claude["source"] == ROOT / codex["source"]["path"] == PLUGIN
    assert read_json(PLUGIN / ".mcp.json")["mcpServers"]["consolidator"]["args"] == ["mcp"]


def test_the_skill_and_the_commands_say_what_they_are_for() -> None:
    texts = [*PLUGIN.glob("skills/*/SKILL.md"), *PLUGIN.glob("commands/*.md")]
    assert len(texts) == 4
    for path in texts:
        head = yaml.safe_load(path.read_text().split("---")[1])
        assert 20 < len(head["description"]) < 300, path
        assert path.name != "SKILL.md" or head["name"] == path.parent.name
