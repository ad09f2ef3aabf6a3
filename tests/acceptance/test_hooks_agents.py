"""One memory of a project from the logs of many agents, told to another by its real hook programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.claude_home import NO_UPSTREAM, ClaudeCode, end_service, wait_for
from tests.support import PATIENCE, run_here
from tests.unit.formats.agent_logs import AgentLog, Copilot, Cursor, Gemini, GeminiObject, Goose, Kimi, OpenCode, Qwen

ERROR = NO_UPSTREAM.partition("\n")[2]
FAILED = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "call_1"}


def pushed(log: AgentLog, branch: str) -> list[object]:
    """Return records in which a push failed, and was mended."""
    failed = log.call("git push", ERROR.format(branch).rstrip(), True)
    return [
        *log.prompt("Push the branch."),
        *failed,
        *log.call(f"git push --set-upstream origin {branch}", "ok", False),
    ]


@pytest.fixture
def later(environment: Mapping[str, str]) -> Mapping[str, str]:
    """An environment whose clock is behind the logs'."""
    return {**environment, "CONSOLIDATOR_CLOCK": "2026-08-02T12:00:00+00:00"}


@pytest.fixture
def home(later: Mapping[str, str], tmp_path: Path) -> Iterator[Path]:
    """A home in which six agents left their logs: five of one project, one of another."""
    gemini, opencode, qwen, goose, copilot, kimi = Gemini(), OpenCode(), Qwen(), Goose(), Copilot(), Kimi()
    gemini.write(tmp_path / ".gemini", [*gemini.header(), *pushed(gemini, "price-list")])
    opencode.write(tmp_path / ".local/share/opencode", pushed(opencode, "shopping-cart"))
    copilot.write(tmp_path / ".copilot", [*copilot.header(), *pushed(copilot, "basket")])
    qwen.write(tmp_path / ".qwen", qwen.prompt("From now on, always use tabs for indentation."))
    words = goose.prompt("We use PostgreSQL for storage.")
    goose.write(tmp_path / ".local/share/goose", [*goose.header(), *words])
    path = kimi.write(tmp_path / ".kimi-code", [*kimi.header(), *kimi.prompt("From now on, never deploy on Fridays.")])
    (path.parents[2] / "state.json").write_text(json.dumps({"workDir": "/work/bank"}))
    yield tmp_path
    end_service(later)


def test_a_fix_from_one_agent_is_told_to_another(home: Path, later: Mapping[str, str]) -> None:
    (home / ".claude").mkdir()
    run_here("install", "claude-code", "--yes", environment=later)
    end_service(later)
    report = json.loads(run_here("import", "--json", environment=later).stdout)
    assert (report["files"], report["problem_count"]) == (6, 0)
    run_here("run", "consolidation", environment=later)

    shop = ClaudeCode(later, home)
    brief = shop.run_until_answered("SessionStart", source="startup")
    assert "tabs for indentation" in brief
    assert "We use PostgreSQL for storage." in brief
    assert "Fridays" not in brief
    fix = shop.run_until_answered("PostToolUseFailure", **FAILED, error=NO_UPSTREAM.format("new-logo"))
    assert "run `git push --set-upstream origin new-logo`" in fix

    bank = ClaudeCode(later, home, session="bank", project="/work/bank")
    brief = bank.run_until_answered("SessionStart", source="startup")
    assert "Never deploy on Fridays." in brief
    assert "tabs for indentation" not in brief


OTHERS = '{\n  "theme": "dark",\n  "hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "true"}]}]}\n}\n'


def test_a_chat_that_is_one_object_is_imported_as_its_agent_ends(home: Path, later: Mapping[str, str]) -> None:
    (file := home / ".gemini" / "settings.json").write_text("{}")
    run_here("install", "gemini", "--yes", environment=later)
    log = GeminiObject()
    header = {**log.header()[0], "sessionId": "s-ended"}
    ended = log.write(home / ".gemini", [header, *log.prompt("From now on, never push on Mondays.")])
    client = ClaudeCode(later, home, settings=file)
    assert client.run("SessionEnd", reason="exit", transcript_path=str(ended)) == ""
    wait_for_session(later, "Mondays")


@pytest.mark.parametrize(("agent", "call"), [("gemini", "AfterTool"), ("qwen", "PostToolUse")])
def test_agents_with_hooks_of_google_are_told_it_too(
    home: Path, later: Mapping[str, str], agent: str, call: str
) -> None:
    file = home / f".{agent}" / "settings.json"
    file.write_text(OTHERS)
    run_here("import", environment=later)
    run_here("install", agent, "--yes", environment=later)
    assert "already" in run_here("install", agent, "--yes", "--no-history", environment=later).stdout
    client = ClaudeCode(later, home, settings=file)
    assert "tabs for indentation" in client.run_until_answered("SessionStart", source="startup")
    failed = {"tool_name": "run_shell_command", "tool_input": {"command": "git push"}}
    told = f"Command: git push\nDirectory: (root)\nOutput: {ERROR.format('new-logo')}\nError: (none)\nExit Code: {{}}"
    fix = client.run_until_answered(call, **failed, tool_response={"llmContent": told.format(128)})
    assert "run `git push --set-upstream origin new-logo`" in fix
    assert client.run(call, **failed, tool_response={"llmContent": told.format(0)}) == ""
    assert "every project" in run_here("status", environment=later).stdout
    run_here("uninstall", agent, "--yes", environment=later)
    assert file.read_text() == OTHERS


def wait_for_session(environment: Mapping[str, str], text: str) -> None:
    """Wait until the log has a session that is about something, and the command line lists it."""
    query = (
        "select from consolidator.session s left join consolidator.event e on e.session_id = s.id "
        "where strpos(s::text, %(text)s) > 0 or strpos(e.data::text, %(text)s) > 0"
    )
    with psycopg.connect(environment["CONSOLIDATOR_DATABASE_URL"], autocommit=True) as conn:
        wait_for(lambda: conn.execute(query, {"text": text}).rowcount)
    assert wait_for(lambda: text in run_here("session", "list", environment=environment).stdout)


def run_hook(command: str, environment: Mapping[str, str], **payload: Any) -> subprocess.CompletedProcess[str]:
    """Run a hook as its agent does, until it says something."""
    body = json.dumps({"session_id": "later", "cwd": "/work/shop", **payload})

    def run() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(
            ["sh", "-c", command],
            input=body,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.stderr == ""
        return done if done.stdout else None

    answered = wait_for(run)
    assert isinstance(answered, subprocess.CompletedProcess)
    return answered


def test_copilot_is_told_it_too(home: Path, later: Mapping[str, str]) -> None:
    run_here("import", environment=later)
    run_here("install", "copilot", "--yes", environment=later)
    file = home / ".copilot/hooks/consolidator.json"
    settings = json.loads(file.read_text())
    assert settings["version"] == 1
    hooks = {event: entry["command"] for event, (entry,) in settings["hooks"].items()}
    start = run_hook(hooks["SessionStart"], later, hook_event_name="SessionStart", source="new")
    assert "tabs for indentation" in json.loads(start.stdout)["additionalContext"]
    failed = {"tool_name": "Bash", "tool_input": {"command": "git push"}}
    text = f"{ERROR.format('new-logo')}<exited with exit code 128>"
    result = {"result_type": "success", "text_result_for_llm": text}
    after = run_hook(hooks["PostToolUse"], later, hook_event_name="PostToolUse", **failed, tool_result=result)
    assert "`git push --set-upstream origin new-logo`" in json.loads(after.stdout)["additionalContext"]
    error = {"session_id": "another", "error": ERROR.format("new-logo")}
    beside = run_hook(
        hooks["PostToolUseFailure"], later, **{"hook_event_name": "PostToolUseFailure", **failed, **error}
    )
    assert beside.returncode == 2
    assert beside.stdout.startswith("<recalled-memory>")
    assert json.loads((home / ".copilot/mcp-config.json").read_text())["mcpServers"]["consolidator"]["type"] == "local"
    run_here("uninstall", "copilot", "--yes", environment=later)
    assert not file.exists()


def test_kimi_is_told_it_at_its_first_prompt(home: Path, later: Mapping[str, str]) -> None:
    (file := home / ".kimi-code/config.toml").write_text(own := 'model = "k" # the good one\n')
    run_here("import", environment=later)
    run_here("install", "kimi", "--yes", environment=later)
    hook, _ = tomllib.loads(file.read_text())["hooks"]
    prompt = [{"type": "text", "text": "Which indentation do we use?"}]
    answer = run_hook(hook["command"], later, hook_event_name="UserPromptSubmit", prompt=prompt).stdout
    assert answer.startswith("<recalled-memory>")
    assert "tabs for indentation" in answer
    run_here("uninstall", "kimi", "--yes", environment=later)
    assert file.read_text() == own


@pytest.mark.parametrize("agent", ["copilot", "kimi", "cursor"])
def test_a_session_is_imported_as_it_ends_where_its_agent_keeps_it(
    home: Path, later: Mapping[str, str], agent: str
) -> None:
    run_here("install", agent, "--yes", "--no-history", environment=later)
    assert run_here("session", "list", "--json", environment=later).stdout.strip() == "[]"
    body: dict[str, Any] = {"session_id": f"s-{agent}", "cwd": "/work/shop", "hook_event_name": "SessionEnd"}
    if agent == "kimi":
        hooks = {hook["event"]: hook for hook in tomllib.loads((home / ".kimi-code/config.toml").read_text())["hooks"]}
        command = hooks["SessionEnd"]["command"]
    elif agent == "cursor":
        log = Cursor()
        log.write(home / ".cursor", log.prompt("Show the list."))
        settings = json.loads((home / ".cursor/hooks.json").read_text())
        command = settings["hooks"]["sessionEnd"][0]["command"]
        body |= {"hook_event_name": "sessionEnd", "transcript_path": None, "workspace_roots": ["/work/shop"]}
    else:
        settings = json.loads((home / ".copilot/hooks/consolidator.json").read_text())
        command = settings["hooks"]["SessionEnd"][0]["command"]
    subprocess.run(["sh", "-c", command], input=json.dumps(body), env=later, text=True, timeout=PATIENCE, check=True)
    wait_for_session(later, agent)


DRIVER = """
import { Consolidator } from "./plugin.mjs"
const hooks = await Consolidator({ directory: "/work/shop" })
const told = []
for (const sessionID of ["s", "s", "s", undefined]) {
  const output = { system: ["own"] }
  await hooks["experimental.chat.system.transform"]({ sessionID }, output)
  told.push(output.system)
}
if (process.argv[2]) await hooks.event({ event: { type: process.argv[2], properties: { sessionID: "s" } } })
console.log(JSON.stringify(told))
"""


def run_plugin(file: Path, environment: Mapping[str, str], event: str = "") -> list[list[str]]:
    """Load a plugin as OpenCode does; return what it adds to the system prompt of four calls of a model."""
    (file.parent / "plugin.mjs").write_text(file.read_text())
    (driver := file.parent / "driver.mjs").write_text(DRIVER)
    done = subprocess.run(
        [str(shutil.which("node")), str(driver), event],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [system[1:] for system in json.loads(done.stdout)]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_opencodes_plugin_tells_each_call_of_a_session_the_same_and_imports_it(
    home: Path, later: Mapping[str, str]
) -> None:
    run_here("install", "opencode", "--yes", "--no-history", environment=later)
    file = home / ".config/opencode/plugins/consolidator.js"
    assert "already" in run_here("install", "opencode", "--yes", "--no-history", environment=later).stdout
    assert run_plugin(file, later, "session.updated")[3] == []
    assert wait_for(lambda: run_plugin(file, later, "session.idle"))
    wait_for_session(later, "opencode")
    run_here("import", environment=later)
    run_here("run", "consolidation", environment=later)

    def told() -> list[list[str]] | None:
        calls = run_plugin(file, later)
        return calls if calls[2] else None

    calls = wait_for(told)
    assert isinstance(calls, list)
    assert calls[2][0].startswith("<recalled-memory>")
    assert "tabs for indentation" in calls[2][0]
    assert calls[3] == []  # without a session, as for a title
    run_here("uninstall", "opencode", "--yes", environment=later)
    assert not file.exists()


def test_opencode_is_given_the_server_and_a_line_of_guidance(home: Path, later: Mapping[str, str]) -> None:
    (folder := home / ".config/opencode").mkdir(parents=True)
    (guidance := folder / "AGENTS.md").write_text("Use tabs.\n")
    (folder / "opencode.jsonc").write_text(own := '{\n  // mine\n  "theme": "dark"\n}\n')
    run_here("install", "opencode", "--yes", environment=later)
    assert '"consolidator"' in (folder / "opencode.jsonc").read_text()
    assert "the tools `recall` and `lookup_error`" in guidance.read_text()
    run_here("uninstall", "opencode", "--yes", environment=later)
    assert (guidance.read_text(), (folder / "opencode.jsonc").read_text()) == ("Use tabs.\n", own)
