"""Memory in Codex: installed into its settings, then its hooks are run as it runs them, in a temporary home."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from consolidator.hooks.client import is_running
from tests.acceptance.claude_home import NO_UPSTREAM, ClaudeCode, end_service, wait_for
from tests.acceptance.codex_home import UNIFIED_OUTPUT, Codex, CodexSession, codex_push_session
from tests.support import run_cli

CONFIG = '# mine\nmodel = "m" # the good one\n\n[mcp_servers.other]\ncommand = "other"\n'
HOOKS = '{\n  "hooks": {\n    "Stop": [{"hooks": [{"type": "command", "command": "true"}]}]\n  }\n}\n'


@pytest.fixture
def codex(environment: Mapping[str, str], tmp_path: Path) -> Iterator[Codex]:
    """A home with two earlier sessions, in which memory is installed beside other settings."""
    for number, branch in enumerate(("price-list", "shopping-cart"), 1):
        codex_push_session(f"earlier-{number}", branch, number).write(tmp_path)
    (tmp_path / ".codex" / "config.toml").write_text(CONFIG)
    (tmp_path / ".codex" / "hooks.json").write_text(HOOKS)
    shown = run_cli("install", "codex", "--yes", environment=environment).stdout
    assert "+[mcp_servers.consolidator]" in shown
    assert "trusted" in shown
    end_service(environment)  # as after a start of the machine
    yield Codex(environment, tmp_path)
    end_service(environment)


def test_the_right_memory_comes_at_the_right_moment(codex: Codex) -> None:
    assert codex.run("SessionStart", source="startup") == ""  # this starts the service, and does not wait for it
    brief = codex.run_until_answered("SessionStart", source="resume")
    assert "tabs for indentation" in brief
    assert "git push --set-upstream origin" in brief

    call = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "call_1"}
    error = NO_UPSTREAM.format("new-logo").partition("\n")[2]
    fix = codex.run_until_answered("PostToolUse", **call, tool_response=UNIFIED_OUTPUT.format(128, error))
    assert "run `git push --set-upstream origin new-logo`" in fix
    assert codex.run("PostToolUse", **call, tool_response=UNIFIED_OUTPUT.format(0, error)) == ""  # it did not fail
    assert codex.run("PostToolUse", **call, tool_response="fatal: not a git repository") == ""
    assert codex.run("UserPromptSubmit", prompt="what is the weather in Paris?") == ""

    session = CodexSession("now", day=4).say("Push the logo.").call("call_1", "git push", 128, error)
    session.call("call_2", "git push --set-upstream origin new-logo").write(codex.home)
    assert codex.run("SessionEnd", reason="exit") == ""

    def worked() -> bool:
        status = json.loads(run_cli("status", "--json", environment=codex.environment).stdout)
        assert status["installed"]["codex"]["everywhere"]["hooks"]
        return bool(status["injections"]["failure"].get("worked"))

    assert wait_for(worked)


def test_what_codex_learned_in_a_folder_is_told_to_claude_code_there(codex: Codex) -> None:
    codex_push_session("earlier-3", "basket", 3).write(codex.home)
    run_cli("install", "claude-code", "--yes", environment=codex.environment)
    claude = ClaudeCode(codex.environment, codex.home)
    brief = claude.run_until_answered("SessionStart", source="startup")
    assert "tabs for indentation" in brief
    assert "git push --set-upstream origin" in brief
    failed = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "call_1"}
    fix = claude.run_until_answered("PostToolUseFailure", **failed, error=NO_UPSTREAM.format("new-logo"))
    assert "run `git push --set-upstream origin new-logo`" in fix


def test_uninstall_leaves_codex_as_it_was(codex: Codex) -> None:
    folder = codex.home / ".codex"
    assert tomllib.loads((folder / "config.toml").read_text())["mcp_servers"]["consolidator"]["env"]
    assert "already" in run_cli("install", "codex", "--yes", "--no-history", environment=codex.environment).stdout
    run_cli("uninstall", "codex", "--yes", environment=codex.environment)
    assert (folder / "config.toml").read_text() == CONFIG
    assert (folder / "hooks.json").read_text() == HOOKS


def list_scheduled_jobs(environment: Mapping[str, str]) -> set[str]:
    """The jobs that were done because they were due."""
    runs = json.loads(run_cli("runs", "--json", environment=environment).stdout)
    return {run["job"] for run in runs if run["trigger"] == "schedule" and run["status"] == "done"}


def test_without_serve_what_was_said_today_is_known_tomorrow(environment: Mapping[str, str], tmp_path: Path) -> None:
    environment = {**environment, "CONSOLIDATOR_HOOK_IDLE_MINUTES": "0.05"}
    codex_push_session("earlier", "price-list", 1).write(tmp_path)
    run_cli("install", "codex", "--yes", "--no-history", environment=environment)
    codex, home = Codex(environment, tmp_path), Path(environment["CONSOLIDATOR_HOME"])
    try:
        codex.run("SessionStart", source="startup")  # starts the service; once it is quiet it does the due nights
        wait_for(lambda: {"import", "consolidation", "retention"} <= list_scheduled_jobs(environment))
        assert "tabs" in codex.run_until_answered("SessionStart", source="startup")

        CodexSession("today", day=4).say("From now on, always write the changelog in German.").write(tmp_path)
        ended = Codex(environment, tmp_path, "today")
        assert ended.run("SessionEnd", reason="exit") == ""  # imported, and learned from before the service ends
        wait_for(lambda: not is_running(home))
        assert "German" in codex.run_until_answered("SessionStart", source="startup")
    finally:
        end_service(environment)
