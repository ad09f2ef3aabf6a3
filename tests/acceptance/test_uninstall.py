"""What is installed, served and kept in a home is gone after `uninstall` and `erase --all`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from consolidator.hooks.client import is_running
from consolidator.service.clients.rules_file import plan_rules, write_rules
from consolidator.settings import Settings
from tests.acceptance.claude_home import PROJECT, ClaudeCode, push_session, wait_for
from tests.acceptance.codex_home import codex_push_session
from tests.acceptance.terminal import Terminal
from tests.conftest import NOON
from tests.nights import start_cli
from tests.support import PATIENCE, free_port, run_cli


@pytest.fixture
def own_home(tmp_path: Path) -> dict[str, str]:
    """The environment of a person who has configured nothing but the home: the database is the embedded one."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "CONSOLIDATOR_HOME": str(tmp_path / "home")}


def list_files(home: Path) -> list[str]:
    """What is in a home, folders that are empty left out."""
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())


@pytest.mark.embedded
def test_nothing_is_left_behind(own_home: Mapping[str, str], tmp_path: Path) -> None:
    environment = own_home
    claude_log = push_session("earlier", "price-list", 1).write(tmp_path)
    codex_log = codex_push_session("earlier", "price-list", 1).write(tmp_path)
    project = tmp_path / "shop"
    project.mkdir()
    before = list_files(tmp_path)
    run_cli("install", "claude-code", "--yes", environment=environment)
    run_cli("install", "codex", "--yes", "--no-history", environment=environment)
    run_cli("install", "cursor", "--project", "--yes", "--no-history", environment=environment, cwd=project)
    run_cli("install", "--service", "--yes", environment=environment)
    ClaudeCode(environment, tmp_path).run_until_answered("SessionStart", source="startup")
    home = Path(environment["CONSOLIDATOR_HOME"])
    config = tmp_path / ".config" / "consolidator" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("workers = 2\n")
    write_rules(plan_rules(project / "AGENTS.md", ["Use tabs."]), Settings(home=home), NOON)
    assert is_running(home)
    data = Path(json.loads((home / "postgres" / "cluster.json").read_text())["data"] or home / "postgres" / "data")
    assert data.exists()

    refused = run_cli("uninstall", environment=environment, code=2)
    assert "-[mcp_servers.consolidator]" in refused.stdout
    uninstalled = run_cli("uninstall", "--yes", environment=environment)
    shown, told = uninstalled.stdout, uninstalled.stderr
    assert str(project / ".cursor" / "hooks.json") in shown
    assert "-ExecStart" in shown
    assert f"rules --write {project}" in told.replace("\n", " ")
    wait_for(lambda: not is_running(home))
    write_rules(plan_rules(project / "AGENTS.md", []), Settings(home=home), NOON)
    assert "nothing of ours" in run_cli("uninstall", "--yes", environment=environment).stdout

    assert data.exists()
    run_cli("install", "--service", "--yes", environment=environment)
    asked = run_cli("erase", "--all", environment=environment, code=2)
    assert {str(data), str(config)} <= set(asked.stderr.replace(",", " ").split())
    assert "`consolidator uninstall --service`" in asked.stderr
    assert data.exists()
    run_cli("uninstall", "--service", "--yes", environment=environment)
    run_cli("erase", "--all", "--yes", environment=environment)
    assert not data.parent.exists()
    assert not home.exists()
    assert list_files(tmp_path) == before
    assert claude_log.exists()
    assert codex_log.exists()


def is_healthy(port: int) -> bool:
    """Whether a service answers on a port, with its database."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(json.load(answer)["database"] == "ok")
    except OSError:
        return False


@pytest.mark.skipif(sys.platform == "darwin", reason="launchd's agent is another file")
def test_the_services_unit_runs_serve_as_it_stands(environment: Mapping[str, str], tmp_path: Path) -> None:
    shown = run_cli("install", "--service", "--yes", environment=environment)
    unit = tmp_path / ".config" / "systemd" / "user" / "consolidator.service"
    written = unit.read_text().splitlines()
    assert all(f"+{line}" in shown.stdout for line in written)
    settings = dict(line.split("=", 1) for line in written if "=" in line)
    command = shlex.split(settings["ExecStart"].replace("%%", "%"))
    name, _, value = shlex.split(settings["Environment"])[0].partition("=")
    with free_port() as port:
        running = {**environment, name: value, "CONSOLIDATOR_HEALTH_PORT": str(port)}
        process = subprocess.Popen(command, env=running, stderr=subprocess.DEVNULL)
        try:
            assert wait_for(lambda: is_healthy(port))
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
    run_cli("uninstall", "--service", "--yes", environment=environment)
    assert not unit.exists()


def test_memory_for_one_project_comes_in_that_project_alone(environment: Mapping[str, str], tmp_path: Path) -> None:
    session = push_session("earlier", "price-list", 1)
    assert session.project == PROJECT
    shop = tmp_path / "shop"
    shop.mkdir()
    session.project = str(shop)
    for line in session.lines:
        line["cwd"] = str(shop)
    session.write(tmp_path)
    run_cli("install", "claude-code", "--project", "--yes", environment=environment, cwd=shop)
    assert not (tmp_path / ".claude" / "settings.json").exists()
    servers = json.loads((tmp_path / ".claude.json").read_text())
    assert list(servers) == ["projects"]
    claude = ClaudeCode(environment, tmp_path, project=str(shop), settings=shop / ".claude" / "settings.local.json")
    assert "tabs" in claude.run_until_answered("SessionStart", source="startup")
    assert "for this project" in run_cli("status", environment=environment, cwd=shop).stdout
    run_cli("uninstall", "claude-code", "--project", "--yes", environment=environment, cwd=shop)
    assert not (shop / ".claude" / "settings.local.json").exists()
    run_cli("uninstall", "--yes", environment=environment)  # ends the hook service, too
    wait_for(lambda: not is_running(Path(environment["CONSOLIDATOR_HOME"])))


@contextmanager
def serve(environment: Mapping[str, str]) -> Iterator[None]:
    """Run the service of an environment until it answers, and stop it at the end."""
    with start_cli("serve", environment=environment) as process:
        assert wait_for(lambda: is_healthy(int(environment["CONSOLIDATOR_HEALTH_PORT"])))
        yield
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_a_taken_port_is_told_at_once_and_nothing_is_served(environment: Mapping[str, str], tmp_path: Path) -> None:
    """Neither `serve` nor `doctor` takes the service of another home for its own."""
    with free_port() as port:
        first = {**environment, "CONSOLIDATOR_HEALTH_PORT": str(port)}
        second = {**first, "CONSOLIDATOR_HOME": str(tmp_path / "second")}
        with serve(first):
            refused = run_cli("serve", environment=second, code=2)
            assert f"error: cannot listen on 127.0.0.1:{port}: Address already in use" in refused.stderr
            assert "CONSOLIDATOR_HEALTH_PORT" in refused.stderr
            assert f"http://127.0.0.1:{port}" not in refused.stdout + refused.stderr
            found = [
                find_check(json.loads(run_cli("doctor", "--json", environment=each, code=2).stdout), "serve")
                for each in (first, second)
            ]
    assert found[0].startswith("running")
    assert found[1].startswith("not running for this home")


def test_what_memory_has_to_say_is_no_failure_of_the_hooks(environment: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    home = Path(environment["CONSOLIDATOR_HOME"])
    run_cli("install", "codex", "--yes", "--no-history", environment=environment)
    run_cli("remember", "I like short answers.", "--agent", "codex", environment=environment)
    run_cli("run", "consolidation", environment=environment)
    codex = ClaudeCode(environment, tmp_path, settings=tmp_path / ".codex" / "hooks.json")
    assert "short answers" in codex.run_until_answered("SessionStart", source="startup")
    shown = run_cli("status", "--json", environment=environment).stdout
    checks = json.loads(run_cli("doctor", "--json", environment=environment).stdout)
    assert find_check(checks, "hook service") == "running"
    assert find_check(checks, "hook program") == "ends with 0 and is silent"
    assert run_cli("status", "--json", environment=environment).stdout == shown  # and a check is not counted
    run_cli("uninstall", "--yes", environment=environment)
    wait_for(lambda: not is_running(home))


def find_check(checks: list[dict[str, Any]], name: str) -> str:
    """What a check of a name has found."""
    return next(str(check["found"]) for check in checks if check["name"] == name)


def test_doctor_says_what_is_missing_and_what_to_do(environment: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    before = json.loads(run_cli("doctor", "--json", environment=environment, code=2).stdout)
    assert {check["name"] for check in before if not check["passed"]} == {"coding agents", "last night"}
    assert all(check["advice"] for check in before if not check["passed"])
    assert "no client is installed" in find_check(before, "hook service")
    run_cli("install", "codex", "--yes", "--no-history", environment=environment)
    run_cli("run", "consolidation", environment=environment)
    after = json.loads(run_cli("doctor", "--json", environment=environment).stdout)
    assert {"codex: hooks", "codex: MCP server", "hook program", "database", "dead letters"} <= {
        check["name"] for check in after
    }
    assert find_check(after, "hook service") == "not running: the next hook starts it"
    assert "no service was asked" in find_check(after, "hook program")
    assert not is_running(Path(environment["CONSOLIDATOR_HOME"]))  # a check starts nothing
    run_cli("uninstall", "--yes", environment=environment)
    assert "no client is installed" in run_cli("status", environment=environment).stdout.replace("\n", " ")


def test_nights_use_an_agent_after_a_persons_yes_alone(environment: Mapping[str, str], tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment = {**environment, "PATH": f"{program.parent}{os.pathsep}{environment['PATH']}"}
    install = ("install", "claude-code", "--yes", "--no-history")
    record = Path(environment["CONSOLIDATOR_HOME"]) / "install" / "model.json"

    def read_model() -> str:
        shown = json.loads(run_cli("status", "--json", environment=environment).stdout)["model"]
        checks = json.loads(run_cli("doctor", "--json", environment=environment, code=None).stdout)
        assert find_check(checks, "model") == shown
        assert shown[:20] in run_cli("config", environment=environment).stdout
        return str(shown)

    run_cli(*install, environment=environment)  # nobody is there to be asked
    assert not record.exists()
    assert read_model().startswith("none: ")
    for answer, typed in (("yes", "y"), ("no", "")):
        with Terminal(*install, environment=environment) as terminal:
            terminal.wait_for("Let the nights use your Claude Code")
            terminal.type_line(typed)
            assert terminal.wait_for_exit() == 0
        assert json.loads(record.read_text())["claude-code"]["is_agreed"] is (answer == "yes")
        with Terminal(*install, environment=environment) as terminal:  # it is asked once
            assert terminal.wait_for_exit() == 0
        run_cli("uninstall", "claude-code", "--yes", environment=environment)
        assert "claude-code" not in json.loads(record.read_text())
    run_cli(*install, "--model", environment=environment)
    assert read_model() == f"claude-code/haiku by {program} (as you allowed at `install`)"
    run_cli(*install, "--no-model", environment=environment)
    assert read_model().startswith("none: ")
    assert (
        "cursor"
        in run_cli("install", "cursor", *install[2:], "--model", environment=environment, code=2).stderr.lower()
    )
