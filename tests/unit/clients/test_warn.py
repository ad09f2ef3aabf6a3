"""The hook before calls warns of what stands where a command begins, and of nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from consolidator.hooks import warn
from consolidator.jobs.merging import warning_file
from consolidator.memory.calls.shell_words import split_commands
from consolidator.memory.lessons.before_call import concerns, correct
from consolidator.memory.lessons.lesson import Lesson
from tests.unit.formats.test_project import make_worktree

SHOP = "/work/shop"
WRAPPER = {"kind": "wrapper", "wrapper": "rtk", "program": "bun"}
PROGRAM = {"kind": "program", "program": "gmake"}
FLAG = {"kind": "flag", "operation": "cat", "option": "-A"}
SKILL = {"kind": "skill", "skill": "commit"}
ARGUMENT = {"kind": "argument", "tool": "SendMessage", "argument": "summary"}
WHOLE = {"kind": "whole", "tool": "Read", "file": "docs/ux.md", "argument": "offset or limit"}


def is_warned(match: dict[str, str], command: str | list[str], cwd: str = SHOP, tool: str = "Bash") -> bool:
    return concerns(match, SHOP, {"tool_name": tool, "tool_input": {"command": command}, "cwd": cwd})


@pytest.mark.parametrize(
    "command",
    [
        "rtk bun run test",
        "cd frontend && rtk bun run test 2>&1 | tail -20",
        "CI=1 rtk bun test",
        "git status; rtk proxy bun run lint",
        "if true; then rtk bun test; fi",
        "timeout 60 rtk bun test\nls",
        "(rtk bun test)",
        "echo start && rtk bun test # see",
        "rtk \\\n  bun test",
    ],
)
def test_a_wrapper_that_cannot_run_a_program_is_warned_of_wherever_a_command_begins(command: str) -> None:
    assert is_warned(WRAPPER, command)
    assert is_warned(WRAPPER, command, cwd=f"{SHOP}/src")
    assert is_warned(WRAPPER, command, cwd=f"{SHOP}-worktrees/x")
    assert is_warned(WRAPPER, command, cwd=f"{SHOP}__worktrees/x")


def test_a_call_below_a_folder_of_windows_is_warned_of() -> None:
    body: dict[str, object] = {"tool_name": "Bash", "tool_input": {"command": "gmake all"}}
    for cwd, is_below in ((r"C:\Users\ann\shop", True), (r"C:\Users\ann", True), (r"C:\Users\anna\shop", False)):
        assert concerns(PROGRAM, r"C:\Users\ann", {**body, "cwd": cwd}) == is_below


def test_a_missing_program_is_not_warned_of_in_a_line_that_may_bring_it_or_has_another_way() -> None:
    assert is_warned(PROGRAM, "gmake all")
    assert is_warned(PROGRAM, "gmake all || echo failed")
    assert not is_warned(PROGRAM, "gmake all 2>/dev/null || make all")
    for before in ("source ~/.profile", ". tools/env.sh", 'eval "$(tools env)"', "brew install gmake", "export PATH=a"):
        assert not is_warned(PROGRAM, f"{before} && gmake all")


@pytest.mark.parametrize(
    "command",
    [
        "bun run test",
        "rtk cargo test",
        "echo rtk bun test",
        "echo 'never run rtk bun'",
        'git commit -m "stop: rtk bun test fails; rtk bun lint, too"',
        "git commit -m 'x\nrtk bun test\n'",
        "cat <<EOF\nrtk bun test\nEOF",
        "cat > notes.md <<'EOF'\nfirst\nrtk bun test\nEOF\nls",
        "grep -rn rtk bun.lock",
        "# rtk bun test",
        "ls # then rtk bun test",
        "a=(rtk bun)",
        "rtkbun bun",
        "which rtk; bun test",
        "echo rtk\\; rtk\\ bun",
        "echo 'it''s; rtk bun test",
        "rtk 'bun' test",
    ],
)
def test_words_in_quotes_documents_comments_and_arguments_are_no_call(command: str) -> None:
    assert not is_warned(WRAPPER, command)


@pytest.mark.parametrize(
    ("match", "tool", "given", "is_meant"),
    [
        (ARGUMENT, "SendMessage", {"message": "a summary"}, True),
        (ARGUMENT, "SendMessage", {"message": "a", "summary": "b"}, False),
        (ARGUMENT, "SendMail", {"message": "a"}, False),
        (WHOLE, "Read", {"file_path": f"{SHOP}/docs/ux.md"}, True),
        (WHOLE, "Read", {"file_path": f"{SHOP}/docs/ux.md", "offset": 1}, False),
        (WHOLE, "Read", {"file_path": f"{SHOP}/web/docs/ux.md"}, False),
        (WHOLE, "Write", {"file_path": f"{SHOP}/docs/ux.md"}, False),
    ],
)
def test_a_tools_call_is_warned_of_by_what_it_leaves_out(
    match: dict[str, str], tool: str, given: dict[str, object], is_meant: bool
) -> None:
    assert concerns(match, SHOP, {"tool_name": tool, "tool_input": given, "cwd": SHOP}) == is_meant


def test_only_the_project_and_the_tool_of_a_warning_are_meant() -> None:
    assert not is_warned(WRAPPER, "rtk bun test", cwd="/work/shopping")
    assert not is_warned(WRAPPER, "rtk bun test", cwd="/work")
    assert not is_warned(WRAPPER, "rtk bun test", tool="Write")
    nothing: list[Any] = [{}, {"tool_name": "Bash", "tool_input": "rtk bun", "cwd": SHOP}, {"cwd": 3}]
    assert not any(concerns(WRAPPER, SHOP, body) for body in nothing)
    assert not is_warned({"kind": "argument", "program": "rtk"}, "rtk bun test")  # of a kind that is not known here
    listed: dict[str, Any] = {
        "tool_name": "shell",
        "tool_input": {"command": ["bash", "-lc", "rtk bun test"]},
        "cwd": SHOP,
    }
    assert concerns(WRAPPER, SHOP, listed)
    assert is_warned(PROGRAM, ["gmake", "all"])
    assert not is_warned(PROGRAM, ["echo", "gmake"])


@pytest.mark.parametrize("tool", ["PowerShell", "mcp__acp__Bash"])
def test_every_shell_of_an_agent_is_warned(tool: str) -> None:
    assert is_warned(PROGRAM, "ls; gmake all", tool=tool)


@pytest.mark.parametrize("shell", ["bash -lc", "/bin/zsh -c", "pwsh.exe -NoLogo -Command"])
def test_what_a_shell_is_given_to_run_is_a_call(shell: str) -> None:
    assert is_warned(PROGRAM, f"{shell} 'ls; gmake all'")
    assert not is_warned(PROGRAM, f"{shell} 'echo gmake all'")
    assert not is_warned(PROGRAM, f"echo {shell} 'gmake all'")
    assert is_warned(PROGRAM, f"cd a && sudo -u app env -i {shell} 'gmake all' | tail -3")


def test_a_script_that_another_shell_reads_is_no_pattern_of_zsh() -> None:
    pattern = {"kind": "pattern"}
    assert is_warned(pattern, "grep -r --include=*.py x src")
    assert not is_warned(pattern, 'bash -c "grep -r --include=*.py x src"')


def test_programs_flags_and_skills() -> None:
    assert is_warned(PROGRAM, "ls && gmake all")
    assert is_warned(PROGRAM, "gmake test")
    assert not is_warned(PROGRAM, "which gmake")
    assert not is_warned(PROGRAM, "command -v gmake")
    runner = {"kind": "program", "program": "rtk"}
    for command, never_worked in (("rtk gain", True), ("rtk git status", False), ("rtk proxy git log", False)):
        assert is_warned(runner, command) == never_worked
    assert is_warned(FLAG, "git diff | cat -A")
    assert is_warned(FLAG, "cat -n -A x")
    assert not is_warned(FLAG, "cat -- -A")
    assert not is_warned(FLAG, "grep -A 3 x; cat y")
    assert concerns(SKILL, SHOP, {"tool_name": "Skill", "tool_input": {"skill": "commit"}, "cwd": SHOP})
    assert not concerns(SKILL, SHOP, {"tool_name": "Skill", "tool_input": {"skill": "commits"}, "cwd": SHOP})
    assert not is_warned(SKILL, "commit")


@pytest.mark.parametrize(
    ("command", "corrected"),
    [
        ("rtk bun run test", "bun run test"),
        ("cd web && CI=1 rtk bun run test 2>&1 | tail -5", "cd web && CI=1 bun run test 2>&1 | tail -5"),
        ("rtk proxy bun test; rtk  bun lint", "bun test; bun lint"),
        ("(rtk bun test)", "(bun test)"),
        ("rtk bun test <<EOF\nrtk bun\nEOF", "bun test <<EOF\nrtk bun\nEOF"),
        ("rtk git status && rtk bun test", "rtk git status && bun test"),
    ],
)
def test_a_call_is_corrected_by_leaving_out_the_wrapper(command: str, corrected: str) -> None:
    assert correct(WRAPPER, command) == corrected


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'use rtk bun now' && rtk bun test",  # in one place it is no call
        "rtk \\\nbun test; git commit -m 'rtk bun fails'",  # the call is not read as one, its quotation would be
        'rtk \\\n bun test; echo "$(rtk bun lint)"',
        "rtk -- -- bun test <<EOF\nrtk bun\nEOF",
        'echo "$(echo "; rtk bun test; ")"',  # a shell reads one text here, in which nothing is a call
        'echo "`echo "; rtk bun test; "`"',
        'echo "${x:-"; rtk bun test; "}"',
        "echo $'a\\'; rtk bun test; echo \\'' '''",
        "echo rtk bun test",
        "rtk bunx test",
        "rtk 'bun' test",
        "rtk bun 'unclosed",
        "rtk $(rm -rf /tmp/x) bun test",
        ["bash", "-lc", "rtk bun test"],
        None,
    ],
)
def test_what_is_not_sure_is_not_corrected(command: object) -> None:
    assert correct(WRAPPER, command) is None
    assert correct({**WRAPPER, "wrapper": "uv run"}, "uv run bun test") is None  # which brings the program
    assert correct(PROGRAM, command) is None


def test_a_line_is_split_outside_of_quotes() -> None:
    assert split_commands(r"a 'b; c' && d\ e | f 2>&1; g &> h & i") == [
        ["a", '"b; c"'],
        ['"d e"'],
        ["f", "2>&1"],
        ["g", "&>", "h"],
        ["i"],
    ]
    assert split_commands("echo 'unfinished") == []


def warn_of(home: Path, command: str = "rtk bun test", cwd: str = SHOP) -> str:
    payload = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}, "cwd": cwd})
    arguments = [sys.executable, "-I", "-S", warn.__file__, str(home), "PreToolUse", "claude-code"]
    answer = subprocess.run(arguments, input=payload, capture_output=True, text=True, timeout=20, check=True)
    return answer.stdout


def test_a_worktree_is_warned_as_its_repository_is(tmp_path: Path) -> None:
    shop, fix, sent = make_worktree(tmp_path)
    lesson = Lesson("always_fails", "k", "`rtk bun …` always fails.", 9.0, 3, match=WRAPPER, warns=True)
    (tmp_path / warn.DIRECTORY).mkdir(mode=0o700)
    file = tmp_path / warn.DIRECTORY / warn.WARNINGS
    file.touch(mode=0o600)
    file.write_text(warning_file.render_warnings([("l_1", str(shop), lesson)]))
    answers = [warn_of(tmp_path, cwd=str(folder)) for folder in (shop, fix, sent)]
    assert ["always fails" in answer for answer in answers] == [True, True, False]


@pytest.mark.parametrize(("agents", "is_warned"), [(("claude-code", "pi"), True), (("codex",), False)])
def test_a_rule_of_a_shell_is_told_to_the_clients_that_have_it(
    tmp_path: Path, agents: tuple[str, ...], is_warned: bool
) -> None:
    match = {"shell": "shell: no matches found", "kind": "pattern"}
    lesson = Lesson("harness", "k", "The shell is zsh: quote it.", 9.0, 3, match=match, warns=True, agents=agents)
    (tmp_path / warn.DIRECTORY).mkdir(mode=0o700)
    file = tmp_path / warn.DIRECTORY / warn.WARNINGS
    file.touch(mode=0o600)
    file.write_text(warning_file.render_warnings([("l_1", SHOP, lesson)]))
    assert ("zsh" in warn_of(tmp_path, "grep -r --include=*.py x src")) == is_warned


@pytest.mark.parametrize("text", ["torn", "foreign", "huge", "link", "pipe"])
def test_a_file_that_is_not_the_nights_warns_of_nothing(tmp_path: Path, text: str) -> None:
    lesson = Lesson("always_fails", "k", "`rtk bun …` always fails.", 9.0, 3, match=WRAPPER, warns=True)
    whole = warning_file.render_warnings([("l_1", SHOP, lesson), ("l_2", "/\udcff", lesson)]).encode("utf-8", "replace")
    directory = tmp_path / warn.DIRECTORY
    directory.mkdir(mode=0o700)
    file, elsewhere = directory / warn.WARNINGS, tmp_path / "elsewhere"
    file.touch(mode=0o600)
    file.write_bytes(whole)
    os.mkfifo(directory / warn.WARNED)  # nobody reads it, and nothing waits for that
    assert "rtk bun" in warn_of(tmp_path)
    file.unlink()
    if text == "pipe":
        os.mkfifo(file, mode=0o600)
    else:
        elsewhere.touch(mode=0o600)
        elsewhere.write_bytes(
            {
                "torn": whole[: whole.index(b"[l_1]")],
                "foreign": b"#!/bin/sh\nls",
                "huge": whole + b"x" * warn.MAX_FILE,
                "link": whole,
            }[text]
        )
        file.symlink_to(elsewhere) if text == "link" else elsewhere.rename(file)
    assert warn_of(tmp_path) == ""
