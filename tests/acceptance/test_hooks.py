"""Memory in Claude Code: installed into its settings, then its hooks are run as it runs them, in a temporary home."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from consolidator.hooks import program, warn
from consolidator.hooks.client import is_running
from consolidator.jobs.merging import warning_file
from consolidator.llm import MARKER
from consolidator.memory.lessons.lesson import Lesson
from tests.acceptance.claude_home import (
    NO_UPSTREAM,
    PROJECT,
    ClaudeCode,
    ClaudeSession,
    end_service,
    push_session,
    wait_for,
)
from tests.support import PATIENCE, run_cli

SETTINGS = '{\n  // by hand\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}\n}\n'
FAILED_PUSH = {
    "tool_name": "Bash",
    "tool_input": {"command": "git push", "description": "Push"},
    "tool_use_id": "toolu_1",
    "error": NO_UPSTREAM.format("new-logo"),
    "is_interrupt": False,
}


@pytest.fixture
def claude(environment: Mapping[str, str], tmp_path: Path) -> Iterator[ClaudeCode]:
    """A home with two earlier sessions, in which memory is installed."""
    for number, branch in enumerate(("price-list", "shopping-cart"), 1):
        push_session(f"earlier-{number}", branch, number).write(tmp_path)
    ClaudeSession("elsewhere", "/work/bank", 3).say("From now on, never deploy to the vault on Fridays.").write(
        tmp_path
    )
    (tmp_path / ".claude" / "settings.json").write_text("{}\n")
    run_cli("install", "claude-code", "--yes", environment=environment)
    end_service(environment)  # as after a start of the machine
    yield ClaudeCode(environment, tmp_path)
    end_service(environment)


def read_status(claude: ClaudeCode) -> dict[str, Any]:
    """What `status` says."""
    status: dict[str, Any] = json.loads(run_cli("status", "--json", environment=claude.environment).stdout)
    return status


def test_the_right_memory_comes_at_the_right_moment_and_nothing_else(claude: ClaudeCode) -> None:
    started = claude.run("SessionStart", source="startup", model="m")
    assert started == ""  # this starts the service, and does not wait for it

    brief = claude.run_until_answered("SessionStart", source="startup", model="m")
    assert "tabs for indentation" in brief
    assert "git push --set-upstream origin" in brief
    assert "Fridays" not in brief  # of another project
    assert brief.startswith("<recalled-memory>")
    assert "[fact:" in brief
    assert "[solution:" in brief
    assert len(brief) < 3000  # a thousand tokens

    fix = claude.run_until_answered("PostToolUseFailure", **FAILED_PUSH)
    assert "run `git push --set-upstream origin new-logo`" in fix
    assert len(fix) < 450
    for other in ("Exit code 1\nfatal: not a git repository", "Exit code 127\nsh: git: command not found"):
        assert claude.run("PostToolUseFailure", **{**FAILED_PUSH, "error": other}) == ""
    assert claude.run("PostToolUseFailure", **{**FAILED_PUSH, "is_interrupt": True}) == ""

    assert claude.run("UserPromptSubmit", prompt="what is the weather in Paris?") == ""
    run_cli("remember", "We use pnpm for packages", "--project", PROJECT, environment=claude.environment)
    about_prompt = claude.run_until_answered("UserPromptSubmit", prompt="install the packages with pnpm please")
    assert "We use pnpm for packages" in about_prompt
    assert about_prompt.count("[fact:") == 1
    for source in ("compact", "resume"):  # the context begins anew: what it held is told again
        told_again = claude.run_until_answered("SessionStart", source=source, model="m")
        assert {line for line in brief.splitlines() if "[" in line} <= set(told_again.splitlines())
        assert "pnpm" in told_again
    other_project = ClaudeCode(claude.environment, claude.home, "else", "/work/museum")
    assert "Fridays" not in other_project.run("SessionStart", source="startup")

    # The agent does what it was told, and its session is imported as it ends.
    session = ClaudeSession("now", day=4).say("Push the logo.")
    session.call("toolu_1", "git push", str(FAILED_PUSH["error"]), failed=True)
    session.call("toolu_2", "git push --set-upstream origin new-logo").write(claude.home)
    assert claude.run("SessionEnd", reason="prompt_input_exit") == ""
    sums = wait_for(lambda: read_status(claude)["injections"]["failure"].get("worked") and read_status(claude))
    assert sums["service"]
    assert sums["injections"]["failure"]["times"] == 1
    assert sums["injections"]["failure"]["tokens"] <= 150
    assert sums["injections"]["session_start"]["times"] >= 1


def test_a_plain_question_is_answered_by_the_service_as_by_the_command(claude: ClaudeCode, tmp_path: Path) -> None:
    asked = ["recall", "how", "do we indent?"]
    by_command = run_cli(*asked, environment=claude.environment, cwd=tmp_path).stdout
    claude.run_until_answered("SessionStart", source="startup", model="m")
    check = "import sys; from consolidator.cli import main; main(); assert 'typer' not in sys.modules"
    command = [sys.executable, "-c", check, *asked]
    environment = dict(claude.environment)
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(by_command.splitlines())  # what was recalled ranks higher
    other = {**environment, "CONSOLIDATOR_MIN_SUPPORT": "9"}  # not what the service runs with: the command answers
    assert "tabs" in run_cli(*asked, environment=other, cwd=tmp_path).stdout
    config = claude.home / ".config/consolidator/config.toml"  # nor is this
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("min_support = 9\n")
    changed = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert "tabs" in changed.stdout


def test_a_command_runs_beside_the_service_as_it_does_alone(claude: ClaudeCode, tmp_path: Path) -> None:
    claude.run_until_answered("SessionStart", source="startup", model="m")
    runs = "import sys; {} main(); assert ('typer' in sys.modules) is {}"
    beside = runs.format("from consolidator.cli import main;", False)
    alone = runs.format("from consolidator.cli.app import main;", True)
    place = {**claude.environment, "COLUMNS": "70", "TZ": "Asia/Tokyo"}
    asked = (
        "facts", "facts --json --all", "status", "status --json", "commands", "brief --json", "learned",
        "explain nothing", "facts --limit 0", "lessons --nonsense", f"friction --project {tmp_path}",
    )  # fmt: skip
    for words in asked:
        command = [sys.executable, "-c", beside, *words.split()]
        ours = subprocess.run(command, env=place, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        command[2] = alone
        theirs = subprocess.run(command, env=place, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr), words
    stated = [sys.executable, "-c", beside, "remember", "We deploy on Tuesdays", "--everywhere"]
    assert subprocess.run(stated, env=place, cwd=tmp_path, timeout=PATIENCE, check=False).returncode == 2  # no option
    closed = f"{sys.executable} -c '{beside}' facts <&- | head -1"  # without an input, and its reader leaves
    head = subprocess.run(closed, shell=True, env=place, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert (head.stdout.count("\n"), head.stderr) == (1, "")


def test_a_session_whose_start_nobody_answered_is_briefed_at_its_first_prompt(claude: ClaudeCode) -> None:
    assert claude.run("SessionStart", source="startup", model="m") == ""  # the service is only starting
    other = ClaudeCode(claude.environment, claude.home, "other")
    other.run_until_answered("SessionStart", source="startup", model="m")

    brief = claude.run_until_answered("UserPromptSubmit", prompt="hello, push it")
    assert "tabs for indentation" in brief
    assert "git push --set-upstream origin" in brief
    assert claude.run("UserPromptSubmit", prompt="hello again, and push it") == ""  # once
    assert other.run("UserPromptSubmit", prompt="hello, push it") == ""


def test_a_session_is_imported_as_it_ends_where_no_service_runs_and_before_compaction(claude: ClaudeCode) -> None:
    def list_sessions() -> str:
        return run_cli("session", "list", "--json", environment=claude.environment).stdout

    ClaudeSession("now", day=4).say("Remember the heron.").write(claude.home)
    assert claude.run("SessionEnd", reason="other") == ""  # this starts the service, which imports it
    assert wait_for(lambda: "claude-code:now" in list_sessions())
    compacted = ClaudeCode(claude.environment, claude.home, "long")
    ClaudeSession("long", day=4).say("Remember the egret.").write(claude.home)
    assert compacted.run("PreCompact", trigger="auto", custom_instructions="") == ""  # and this asks it
    assert wait_for(lambda: "claude-code:long" in list_sessions())


def test_the_first_session_after_installing_is_told_already(claude: ClaudeCode) -> None:
    home = Path(claude.environment["CONSOLIDATOR_HOME"])
    assert not is_running(home)
    run_cli("install", "claude-code", "--yes", environment=claude.environment)
    assert is_running(home)
    assert "git push --set-upstream origin" in claude.run_until_answered("SessionStart", source="startup")


def test_the_private_socket_is_its_owners_alone(claude: ClaudeCode) -> None:
    claude.run_until_answered("SessionStart", source="resume")
    asked = ClaudeCode({**claude.environment, MARKER: "1"}, claude.home, "asked")  # by a night, as its model
    assert asked.run("SessionStart", source="resume") == ""
    directory = Path(claude.environment["CONSOLIDATOR_HOME"]) / program.DIRECTORY
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / program.SOCKET).stat().st_mode & 0o777 == 0o600
    directory.chmod(0o755)  # somebody else might have put a socket there
    assert claude.run("SessionStart", source="resume") == ""


def test_a_call_that_never_worked_is_warned_of_before_it_runs(
    claude: ClaudeCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(claude.environment["CONSOLIDATOR_HOME"]) / warn.DIRECTORY
    run = {"tool_name": "Bash", "tool_input": {"command": "cd src && rtk bun run test | tail -5"}, "tool_use_id": "t9"}
    assert claude.run("PreToolUse", **run) == ""  # nothing is known, not even a directory; and no service is started
    assert not is_running(Path(claude.environment["CONSOLIDATOR_HOME"]))

    line = "`rtk bun …` always fails (40 of 40); without `rtk` it works: `bun run test`."
    match = {"kind": "wrapper", "wrapper": "rtk", "program": "bun"}
    lesson = Lesson("always_fails", "wrapper rtk bun", line, 9.0, 28, match=match, warns=True)
    monkeypatch.setattr(warning_file, "warning_words", lambda lesson: ("rtk", "bun"))
    directory.mkdir(mode=0o700, exist_ok=True)
    file = directory / warn.WARNINGS
    file.touch(mode=0o600)
    file.write_text(warning_file.render_warnings([("l_1", PROJECT, lesson)]))
    asked = ClaudeCode({**claude.environment, MARKER: "1"}, claude.home, "asked")  # by a night, as its model
    assert asked.run("PreToolUse", **run) == ""
    warned = claude.run("PreToolUse", **run)
    assert warned.splitlines()[-2] == f"- {line} [l_1]"
    assert warned.startswith("<recalled-memory>")
    assert "updatedInput" not in claude.answer
    file.write_text(warning_file.render_warnings([("l_1", PROJECT, lesson)], {"l_1"}))  # a person said yes
    assert claude.run("PreToolUse", **run) == warned
    assert claude.answer["permissionDecision"] == "ask"  # never "allow": what needs the person's leave still does
    assert claude.answer["updatedInput"] == {"command": "cd src && bun run test | tail -5"}
    quoted = {**run, "tool_input": {"command": "git commit -m 'no rtk bun'"}}
    assert claude.run("PreToolUse", **quoted) == ""
    elsewhere = ClaudeCode(claude.environment, claude.home, "else", "/work/museum")
    assert elsewhere.run("PreToolUse", **run) == ""
    file.chmod(0o644)  # somebody else might have written it
    assert claude.run("PreToolUse", **run) == ""

    claude.run_until_answered("SessionStart", source="resume")  # the service counts what was said
    times = wait_for(lambda: read_status(claude)["injections"].get("before_call"))
    assert (times["times"], times["sessions"]) == (2, 1)
    assert file.stat().st_mode & 0o777 == 0o600  # it left what it knows, which is nothing
    file.chmod(0o600)
    assert claude.run("PreToolUse", **run) == ""


def test_a_person_has_calls_corrected_and_takes_it_back_and_the_night_counts_both(claude: ClaudeCode) -> None:
    place = {**claude.environment, "CONSOLIDATOR_QUIET_MINUTES": "0"}

    def learn() -> dict[str, Any]:
        run_cli("import", environment=place)
        run_cli("run", "consolidation", environment=place)
        rows = json.loads(run_cli("lessons", "--project", PROJECT, "--json", environment=place).stdout)
        return next(row for row in rows if row["kind"] == "always_fails")

    def call(call_id: str) -> dict[str, Any]:
        line = {"command": "CI=1 wrap pnpm run test 2>&1 | tail -5", "description": "Test"}
        told = claude.run("PreToolUse", tool_name="Bash", tool_input=line, tool_use_id=call_id)
        assert "`wrap pnpm …` always fails" in told
        return claude.answer

    for number in range(3):
        session = ClaudeSession(f"w{number}", day=4).say("Run the tests.")
        session.call(f"w{number}-1", "wrap pnpm run test", "error: unrecognized subcommand 'pnpm'", failed=True)
        session.call(f"w{number}-2", "pnpm run test", "12 passed").write(claude.home)
    (Path(place["CONSOLIDATOR_HOME"]) / warn.DIRECTORY).mkdir(mode=0o700, exist_ok=True)
    lesson = learn()
    assert "updatedInput" not in call("t1")
    run_cli("lessons", "--correct", lesson["id"][:8], environment=place)
    corrected = call("t2")
    assert corrected["permissionDecision"] == "ask"
    assert corrected["updatedInput"] == {"command": "CI=1 pnpm run test 2>&1 | tail -5", "description": "Test"}
    run_cli("lessons", "--uncorrect", lesson["id"][:8], environment=place)
    assert call("t3").keys().isdisjoint({"updatedInput", "permissionDecision"})

    session = ClaudeSession("now", day=5).say("Run the tests.")
    session.call("t2", "CI=1 wrap pnpm run test 2>&1 | tail -5", "12 passed").write(claude.home)  # as it was typed
    run_cli("lessons", "--unpin", lesson["id"], environment=place)  # counts what the hook said since
    worth = (after := learn())["body"]["worth"]
    assert (worth["prevented"], worth["wrong"], worth["corrected"]) == (1, 0, 1)
    assert [after["body"][name] for name in ("failures", "successes")] == [3, 0]
    run_cli("forget", lesson["id"], environment=place)
    line = {"command": "wrap pnpm run test"}
    assert claude.run("PreToolUse", tool_name="Bash", tool_input=line, tool_use_id="t4") == ""


def run_program(
    environment: Mapping[str, str], *arguments: str, payload: bytes, path: str = program.__file__
) -> subprocess.CompletedProcess[bytes]:
    """Run a hook program."""
    command = [sys.executable, "-I", "-S", path, *arguments]
    return subprocess.run(command, input=payload, env=dict(environment), capture_output=True, check=False)


@pytest.mark.parametrize("payload", [b"", b"nonsense", b"[]", b'{"hook_event_name": "Stop"}', b"\xff" * (5 << 20)])
def test_whatever_a_hook_is_given_it_ends_well_and_says_nothing(
    environment: Mapping[str, str], tmp_path: Path, payload: bytes
) -> None:
    directory = tmp_path / "somewhere" / warn.DIRECTORY
    directory.mkdir(mode=0o700, parents=True)
    (directory / warn.WARNINGS).touch(mode=0o600)
    (directory / warn.WARNINGS).write_bytes(warn.HEADER + b"\nP\nWnonsense\t\t{\nP[]\nW\t\t3\n")
    for path in (program.__file__, warn.__file__):
        for arguments in ([str(tmp_path / "nowhere"), "SessionStart"], [], ["a", "b", "c"]):
            done = run_program(environment, *arguments, payload=payload, path=path)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = run_program(
        environment, str(tmp_path / "somewhere"), "PreToolUse", "codex", payload=payload, path=warn.__file__
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_service_that_does_not_answer_is_not_waited_for(environment: Mapping[str, str], tmp_path: Path) -> None:
    directory = tmp_path / program.DIRECTORY
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        back = Path.cwd()
        os.chdir(directory)
        silent.bind(program.SOCKET)
        os.chdir(back)
        silent.listen(1)
        done = run_program(environment, str(tmp_path), "SessionStart", payload=b"{}")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_install_is_shown_asked_for_and_undone(environment: Mapping[str, str], tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    refused = run_cli("install", "claude-code", environment=environment, code=2)
    assert "SessionStart" in refused.stdout
    assert "--yes" in refused.stderr
    assert settings.read_text() == SETTINGS

    run_cli("install", "claude-code", "--yes", "--no-history", environment=environment)
    again = run_cli("install", "claude-code", "--yes", "--no-history", environment=environment)
    assert "already" in again.stdout
    assert "// by hand" in settings.read_text()
    servers = json.loads((tmp_path / ".claude.json").read_text())
    assert servers["mcpServers"]["consolidator"]["env"] == {"CONSOLIDATOR_HOME": environment["CONSOLIDATOR_HOME"]}

    run_cli("uninstall", "claude-code", "--yes", environment=environment)
    assert settings.read_text() == SETTINGS
    assert not (tmp_path / ".claude.json").exists()
    nothing = run_cli("uninstall", "claude-code", "--yes", environment=environment)
    assert "nothing of ours" in nothing.stdout


def test_what_was_changed_since_stays_when_our_part_goes(environment: Mapping[str, str], tmp_path: Path) -> None:
    run_cli("install", "claude-code", "--yes", "--no-history", environment=environment)
    servers = tmp_path / ".claude.json"
    servers.write_text(servers.read_text().replace("{", '{\n  "numStartups": 7,', 1))
    run_cli("uninstall", "claude-code", "--yes", environment=environment)
    assert json.loads(servers.read_text()) == {"numStartups": 7}


def test_settings_that_are_no_json_are_left_alone(environment: Mapping[str, str], tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"hooks": ')
    failed = run_cli("install", "claude-code", "--yes", environment=environment, code=2)
    assert str(settings) in failed.stderr.replace("\n", "")
    assert settings.read_text() == '{"hooks": '
    assert "FAIL" in run_cli("doctor", environment=environment, code=2).stdout


def test_a_command_that_cannot_be_loaded_beside_the_service_leaves_its_pipe_to_end(tmp_path: Path) -> None:
    code = "import os; from consolidator.hooks import standby; listening = standby.listen('x'); "
    code += "print(flush=True); standby._serve(listening, os.pipe()[0])"
    with (
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as served,
        ExitStack() as end,
    ):
        end.callback(served.kill)
        assert served.stdout is not None
        served.stdout.readline()
        order = {"words": ["nonsense"], "code": [program.__file__, os.stat(program.__file__).st_mtime_ns]}
        body = json.dumps(order).encode()
        reading, writing = os.pipe()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "x"))
            socket.send_fds(client, [b"%d\n" % len(body)], [0, writing, writing])
            client.sendall(body)
            os.close(writing)
            client.settimeout(PATIENCE)
            assert client.recv(1) == b""
        assert select.select([reading], [], [], PATIENCE)[0] == [reading]
        assert os.read(reading, 1) == b""
        os.close(reading)
