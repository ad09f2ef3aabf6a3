"""Our part of each client's settings is added once, and taken out without touching what others wrote."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from consolidator.errors import UsageError
from consolidator.formats.agent_folders import log_folders
from consolidator.service.clients import servers_text
from consolidator.service.clients.hooks_text import add_hooks, has_hooks, remove_hooks
from consolidator.service.clients.registry import CLAUDE_CODE, CLIENTS, CODEX, COPILOT, CURSOR, KIMI, OPENCODE
from consolidator.service.clients.servers_text import SERVER_ARGUMENTS

PROGRAMS = Path("/site/consolidator/hooks")
HOME = Path("/data home/c")
SERVER = {"command": "/venv/bin/python", "args": SERVER_ARGUMENTS, "env": {}}
SERVER_OF_HOME = {**SERVER, "env": {"CONSOLIDATOR_HOME": "/data home/c"}}
OTHERS = """{
  // by hand
  "hooks": {
    "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo hi"}]}],
    "Stop": []
  },
  "permissions": {"allow": ["Bash(git:*)"]}
}
"""
OTHERS_OF_CURSOR = '{\n  "version": 1,\n  "hooks": {\n    "sessionStart": [{"command": "./hi.sh"}]\n  }\n}\n'
grouped = pytest.mark.parametrize("client", [CLAUDE_CODE, CODEX])


def add(text: str, folder: Path = PROGRAMS, client: Any = CLAUDE_CODE) -> str:
    """Settings with our hooks."""
    return add_hooks(client, text, "/venv/bin/python", folder, HOME)


@grouped
@pytest.mark.parametrize("text", ["{}\n", OTHERS, '{"model": "opus"}', '{"hooks": {"SessionEnd": [{"hooks": []}]}}'])
def test_hooks_are_added_once_and_removed_without_a_trace(client: Any, text: str) -> None:
    installed = add(text, client=client)
    assert has_hooks(client, installed)
    assert not has_hooks(client, text)
    assert add(installed, client=client) == installed
    assert remove_hooks(client, installed) == text


@pytest.mark.parametrize("text", [CURSOR.new_hooks_file, OTHERS_OF_CURSOR])
def test_cursors_hooks_stand_each_for_itself(text: str) -> None:
    installed = add(text, client=CURSOR)
    settings = json.loads(installed)
    assert settings["version"] == 1
    assert settings["hooks"]["postToolUse"][-1]["matcher"] == "Shell"
    assert add(installed, client=CURSOR) == installed
    assert remove_hooks(CURSOR, installed) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\nmodel = 'k' # the good one\n",
        '[[hooks]]\nevent = "Stop" # of a colleague\ncommand = "true"\n',
        '[[hooks]]\nevent = "Stop"\ncommand = "true"\n\n[loop_control]\nmax_steps = 3\n',
    ],
)
def test_hooks_in_a_toml_file_leave_the_rest_as_it_is(text: str) -> None:
    installed = add(text, client=KIMI)
    assert has_hooks(KIMI, installed)
    assert not has_hooks(KIMI, text)
    before, after = tomllib.loads(text), tomllib.loads(installed)
    ours = [hook for hook in after["hooks"] if hook not in before.get("hooks", [])]
    assert [hook["event"] for hook in ours] == ["UserPromptSubmit", "SessionEnd"]
    assert {frozenset(hook) for hook in ours} == {frozenset({"event", "command", "timeout"})}
    assert {**after, "hooks": 0} == {**before, "hooks": 0}
    assert add(installed, client=KIMI) == installed
    assert add(add(text, Path("/old/consolidator/hooks"), KIMI), client=KIMI) == installed
    assert remove_hooks(KIMI, installed) == text


def test_hooks_that_are_a_program_are_a_file_of_ours_and_of_nobody_else() -> None:
    installed = add("", client=OPENCODE)
    assert '["/venv/bin/python", "-I", "-S", "/site/consolidator/hooks/program.py", "/data home/c"]' in installed
    assert has_hooks(OPENCODE, installed)
    assert not has_hooks(OPENCODE, "")
    assert add(add("", Path("/old"), OPENCODE), client=OPENCODE) == installed
    assert remove_hooks(OPENCODE, installed) == ""
    theirs = "export const Other = 1\n"
    assert remove_hooks(OPENCODE, theirs) == theirs
    with pytest.raises(UsageError, match="another program"):
        add(theirs, client=OPENCODE)


@pytest.mark.parametrize("session", ["../../etc", "*", "", "a b"])
def test_a_hook_finds_no_log_by_a_session_that_is_no_name(session: str, tmp_path: Path) -> None:
    log = tmp_path / ".copilot/session-state/s1/events.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    assert COPILOT.find_log({}, "s1", tmp_path, {}) == str(log)
    assert COPILOT.find_log({"transcript_path": "/etc/passwd"}, session, tmp_path, {}) is None


def test_a_transcript_that_a_hook_of_cursor_names_counts_in_its_folder() -> None:
    folder = Path("/home/ann/.cursor/projects")
    for named, path in (
        (folder / "shop/agent-transcripts/c1.jsonl",) * 2,
        ("/etc/passwd", None),
        (folder / "../x", None),
    ):
        assert CURSOR.find_log({"transcript_path": str(named)}, "c1", Path("/home/ann"), {}) == (path and str(path))


def test_a_toml_file_that_takes_no_hook_is_refused() -> None:
    with pytest.raises(UsageError, match="TOML"):
        add("hooks = 3\n", client=KIMI)


def test_a_line_of_guidance_is_added_once_and_removed_without_a_trace() -> None:
    for text in ("", "# Ours\n\nUse tabs.\n"):
        assert servers_text.add_guidance(servers_text.add_guidance(text)).count("`recall`") == 1
        assert servers_text.remove_guidance(servers_text.add_guidance(text)) == text
        assert servers_text.remove_guidance(servers_text.add_guidance(text).replace("\n", "\r\n")) == text.replace(
            "\n", "\r\n"
        )
    assert (
        servers_text.remove_guidance(
            "Use tabs." + servers_text.add_guidance("").replace("Before", "\nBefore", 1) + "More."
        )
        == "Use tabs.\nMore."
    )


def test_a_hook_is_a_command_that_the_shell_reads_as_one_program() -> None:
    settings = json.loads(add("{}\n"))
    commands = {event: groups[-1]["hooks"][0]["command"] for event, groups in settings["hooks"].items()}
    assert set(commands) == {hook.event for hook in CLAUDE_CODE.hooks}
    assert commands["SessionEnd"] == f"/venv/bin/python -I -S {PROGRAMS}/program.py '{HOME}' SessionEnd claude-code"
    assert commands["PreToolUse"] == f"/venv/bin/python -I -S {PROGRAMS}/warn.py '{HOME}' PreToolUse claude-code"


def test_the_hooks_of_another_version_give_way() -> None:
    moved = add(add(OTHERS, Path("/old/consolidator/hooks")))
    assert moved == add(OTHERS)


@pytest.mark.parametrize("client", [CLAUDE_CODE, CODEX, CURSOR])
def test_a_hook_that_is_for_other_tools_than_before_is_installed_anew(client: Any) -> None:
    installed = add(client.new_hooks_file, client=client)
    [matcher] = {hook.matcher for hook in client.hooks} - {None}
    before = installed.replace(json.dumps(matcher), '"Bash|Skill"')
    assert before != installed
    assert add(before, client=client) == installed


@pytest.mark.parametrize(
    "tool", ["Bash", "PowerShell", "Skill", "Read", "mcp__acp__Bash", "mcp__tracker__create_issue"]
)
def test_calls_that_a_lesson_may_warn_of_are_met_before_they_run(tool: str) -> None:
    hook = CLAUDE_CODE.hook("PreToolUse")
    assert hook is not None
    assert hook.matcher is not None
    assert re.search(hook.matcher, tool)
    assert not re.search(hook.matcher, f"{tool.rpartition('__')[2]}Output")


def test_what_stands_in_one_group_with_ours_stays() -> None:
    settings = json.loads(add("{}\n"))
    other = {"type": "command", "command": "echo also me"}
    settings["hooks"]["SessionEnd"][0]["hooks"].append(other)
    removed = json.loads(remove_hooks(CLAUDE_CODE, json.dumps(settings)))
    assert removed == {"hooks": {"SessionEnd": [{"hooks": [other]}]}}


@pytest.mark.parametrize(
    ("client", "below", "server"),
    [
        (COPILOT, "mcpServers", {"type": "local", "tools": ["*"], **SERVER}),
        (
            OPENCODE,
            "mcp",
            {
                "type": "local",
                "enabled": True,
                "command": ["/venv/bin/python", *SERVER_ARGUMENTS],
                "environment": {},
            },
        ),
    ],
)
def test_each_client_is_told_of_the_server_in_its_own_words(client: Any, below: str, server: Any) -> None:
    installed = client.servers.add("{}\n", SERVER, None)
    assert json.loads(installed) == {below: {"consolidator": server}}
    assert client.servers.add(installed, SERVER, None) == installed
    assert client.servers.remove(installed, None) == "{}\n"


@pytest.mark.parametrize("project", [None, Path("/work/shop")])
def test_the_server_is_added_once_and_removed_without_a_trace(project: Path | None) -> None:
    text = '{"numStartups": 3, "projects": {"/work/shop": {"mcpServers": {"x": {}}, "allowedTools": []}}}'
    servers = CLAUDE_CODE.servers
    installed = servers.add(text, SERVER, project)
    assert servers.has(installed, project)
    assert servers.add(installed, SERVER, project) == installed
    assert servers.remove(installed, project) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# mine\nmodel = "o3" # the good one\n',
        '[mcp_servers.x]\ncommand = "x" # of a colleague\n\n[profiles.a]\nmodel = "y"\n',
        "[mcp_servers]\n# none yet\n\n[features]\nhooks = true\n",
        'mcp_servers = {x = {command = "a"}}\n\n[features]\n',
    ],
)
@pytest.mark.parametrize("server", [SERVER, SERVER_OF_HOME])
def test_the_server_in_a_toml_file_leaves_the_rest_as_it_is(text: str, server: dict[str, Any]) -> None:
    servers = CODEX.servers
    installed = servers.add(text, server, None)
    assert servers.has(installed, None)
    assert not servers.has(text, None)
    before, after = tomllib.loads(text), tomllib.loads(installed)
    ours = after["mcp_servers"].pop("consolidator")
    assert ours == {name: value for name, value in server.items() if value}
    assert {**after, "mcp_servers": after["mcp_servers"]} == {**before, "mcp_servers": before.get("mcp_servers", {})}
    assert servers.add(installed, server, None) == installed
    assert servers.remove(installed, None) == text


@pytest.mark.parametrize("text", ["mcp_servers = 3\n", "[mcp_servers\n"])
def test_a_toml_file_that_takes_no_server_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TOML"):
        CODEX.servers.add(text, SERVER, None)


def test_a_server_that_a_person_registered_is_left_alone() -> None:
    text = '{"mcpServers": {"consolidator": {"command": "consolidator", "args": ["mcp", "--agent", "x"]}}}'
    toml = '[mcp_servers.consolidator]\ncommand = "consolidator"\nargs = ["mcp", "--agent", "x"]\n'
    for client, own in ((CLAUDE_CODE, text), (CURSOR, text), (CODEX, toml)):
        assert client.servers.add(own, SERVER, None) == own
        assert client.servers.remove(own, None) == own


def test_settings_of_a_configured_folder_and_of_a_project_are_found() -> None:
    home, project = Path("/home/ada"), Path("/work/shop")
    configured = {"CLAUDE_CONFIG_DIR": "/etc/cc", "CODEX_HOME": "/etc/codex"}
    assert CLAUDE_CODE.hooks_file(home, {}, None) == home / ".claude/settings.json"
    assert CLAUDE_CODE.hooks_file(home, configured, None) == Path("/etc/cc/settings.json")
    assert CLAUDE_CODE.hooks_file(home, {}, project) == project / ".claude/settings.local.json"
    assert CLAUDE_CODE.servers_file(home, configured, None) == Path("/etc/cc/.claude.json")
    assert log_folders("claude-code", home, {}, project) == [home / ".claude/projects/-work-shop"]
    assert log_folders("claude-code", home, configured) == [Path("/etc/cc/projects")]
    assert CODEX.hooks_file(home, configured, None) == Path("/etc/codex/hooks.json")
    assert CODEX.servers_file(home, configured, project) == project / ".codex/config.toml"
    assert log_folders("codex", home, {}, project) == [home / ".codex/sessions", home / ".codex/archived_sessions"]
    assert log_folders("codex", home, configured)[0] == Path("/etc/codex/sessions")
    assert log_folders("pi", home, configured) == [home / ".pi/agent/sessions", home / ".openclaw/agents"]
    moved = {"GEMINI_CLI_HOME": "/g", "XDG_DATA_HOME": "/d", "CLINE_DIR": "/c"}
    assert log_folders("gemini", home, moved) == [Path("/g/.gemini/tmp")]
    assert log_folders("opencode", home, moved)[0] == Path("/d/opencode/opencode.db")
    assert log_folders("cline", home, moved)[0] == Path("/c/data/sessions")
    assert log_folders("openai-messages", home, configured) == []
    assert CURSOR.hooks_file(home, {}, None) == home / ".cursor/hooks.json"
    assert CURSOR.servers_file(home, {}, project) == project / ".cursor/mcp.json"
    assert set(CLIENTS) == {"claude-code", "codex", "cursor", "gemini", "qwen", "copilot", "kimi", "opencode"}
    moved = {"COPILOT_HOME": "/c", "KIMI_CODE_HOME": "/k", "XDG_CONFIG_HOME": "/x"}
    assert COPILOT.hooks_file(home, moved, None) == Path("/c/hooks/consolidator.json")
    assert COPILOT.servers_file(home, {}, None) == home / ".copilot/mcp-config.json"
    assert KIMI.hooks_file(home, moved, None) == Path("/k/config.toml")
    assert OPENCODE.servers_file(home, moved, None) == Path("/x/opencode/opencode.json")
