"""What one project's sessions show of the machine: told in its other projects, unless it worked there."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import ELSEWHERE, KEYS, home_folder, told_elsewhere
from consolidator.memory.lessons.telling import warn_before
from consolidator.memory.lessons.worked_calls import learn_worked_calls
from tests.unit.lessons.traced import HOME, CallLog

NOT_FOUND = "bash: line 1: {}: command not found"


@pytest.mark.parametrize(
    ("failed", "error", "then", "told"),
    [
        (
            "jq . a.json",
            NOT_FOUND.format("jq"),
            "ls",
            "`jq` always fails on this machine (3 of 3: bash: line 1: jq: command not found).",
        ),
        ("python -c 'a'", NOT_FOUND.format("python"), "python3 -c 'b'", "; `python3` then worked."),
        (
            "cat -A a",
            "cat: illegal option -- A",
            "cat -v a",
            "`cat -A` always fails on this machine (3 of 3: cat: illegal option); `cat -v` then worked.",
        ),
        (
            "rtk bun test",
            "error: unrecognized subcommand 'bun'",
            "bun test",
            "`rtk bun …` always fails on this machine",
        ),
    ],
)
def test_what_never_worked_of_the_machine_has_a_line_for_other_projects(
    failed: str, error: str, then: str, told: str
) -> None:
    logs = [CallLog(name).fail(failed, error).run(then, "done") for name in ("s1", "s2", "s3")]
    [lesson] = [each for each in learn_lessons([log.trace() for log in logs]) if each.kind == "always_fails"]
    assert told in told_elsewhere(lesson).line


def test_a_wrapper_is_warned_of_elsewhere_as_of_the_machine() -> None:
    logs = [CallLog(name).fail("rtk bun test", "error: unrecognized subcommand 'bun'") for name in ("s1", "s2", "s3")]
    [lesson] = [each for each in learn_lessons([log.trace() for log in logs]) if each.kind == "always_fails"]
    told = warn_before([told_elsewhere(lesson)], "Bash", {"command": "rtk bun run lint"})
    assert told is not None
    assert told.text == "`rtk bun …` always fails on this machine (3 of 3): run `bun run lint`."


@pytest.mark.parametrize(
    ("failed", "instead", "then"),
    [
        ("python -c 'a'", ".venv/bin/python3", ".venv/bin/python3 -c 'a'"),
        ("python a.py", "python3 a.py", "python3 a.py"),
        ("python -c 'a'", f"{HOME}/.venv/bin/python3", f"{HOME}/.venv/bin/python3 -c 'a'"),
        ("python -c 'a'", "poetry run python", "poetry run python -c 'a'"),
    ],
)
def test_what_worked_in_place_of_a_program_is_told_elsewhere_only_where_it_is_of_no_project(
    failed: str, instead: str, then: str
) -> None:
    logs = [CallLog(name).fail(failed, NOT_FOUND.format("python")).run(then, "1") for name in ("s1", "s2")]
    [lesson] = [each for each in learn_lessons([log.trace() for log in logs]) if each.kind == "always_fails"]
    assert lesson.instead == instead
    elsewhere = told_elsewhere(lesson)
    assert elsewhere.instead is None
    assert instead not in elsewhere.line


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        ("make all --fast", "make: unrecognized option '--fast'"),  # of what the project's file says
        ("npm run build -- --fast", "error: unknown option '--fast'"),
        ("pytest -q", NOT_FOUND.format("pytest")),  # which its environment brings
        ("bd dolt push", "fatal: Could not read from remote repository."),
        ("uv run pytest -q", "error: Failed to spawn: `pytest`\n  Caused by: No such file or directory"),
        ("bundle exec rspec", "bundler: command not found: rspec"),
        ("python3 -m black .", "/usr/bin/python3: No module named black"),
        ("./gradlew test", "/bin/sh: 1: ./gradlew: not found"),
        (f"{HOME}/bin/gen a", f"bash: {HOME}/bin/gen: command not found"),
        ("$PY a", "bash: : command not found"),
    ],
)
def test_what_is_of_one_project_is_told_in_no_other(failed: str, error: str) -> None:
    logs = [CallLog(name).fail(failed, error) for name in ("s1", "s2", "s3", "s4")]
    lessons = learn_lessons([log.trace() for log in logs])
    assert [each.key for each in lessons if ELSEWHERE in each.match] == []


@pytest.mark.parametrize(("failed", "then"), [("pytest --fast", "pytest -x"), ("deploy.sh --fast", "deploy.sh")])
def test_an_option_is_of_the_machine_only_where_a_program_is_of_no_project(failed: str, then: str) -> None:
    logs = [CallLog(name).fail(failed, "error: unknown option '--fast'").run(then, "done") for name in ("s1", "s2")]
    [lesson] = [each for each in learn_lessons([log.trace() for log in logs]) if each.kind == "always_fails"]
    assert ELSEWHERE not in lesson.match


def test_what_worked_of_the_machine_is_known_also_behind_a_pipe() -> None:
    log = CallLog("s1").run("cat -v a.json | jq . | head -3", "{}").run("rtk git status", "clean").run("npm test", "ok")
    [lesson] = [each for each in learn_worked_calls(History.of([log.trace()])) if each.key == KEYS]
    assert {"program jq", "program cat", "flag cat -v", "wrapper rtk git"} <= set(lesson.match["keys"])
    assert not any("npm test" in key for key in lesson.match["keys"])
    [lesson] = [each for each in learn_worked_calls(History.of([log.trace()]), {"program jq"}) if each.key == KEYS]
    assert "program jq" not in lesson.match["keys"]  # what mostly fails here


@pytest.mark.parametrize(
    ("project", "home"),
    [
        ("/home/ann/work/shop", "/home/ann"),
        ("/Users/ann", "/Users/ann"),
        ("C:\\Users\\ann\\shop", "C:\\Users\\ann"),
        ("/mnt/c/Users/ann/shop", "/mnt/c/Users/ann"),
        ("D:/shop", "D:"),
        ("/work/shop", "/work"),
        ("shop", ""),
    ],
)
def test_the_projects_of_a_machine_lie_in_one_folder(project: str, home: str) -> None:
    assert home_folder(project) == home


@pytest.mark.parametrize(
    ("folder", "count", "is_told"), [("/work/action", 1, False), ("/work/action", 2, True), (HOME, 1, True)]
)
def test_a_build_in_another_repository_is_told_after_two_sessions(folder: str, count: int, is_told: bool) -> None:
    call = f"cd {folder} && pnpm run bundle"
    logs = [CallLog(f"s{number}").run(call, "built in 2 s").run(call, "built in 3 s") for number in range(count)]
    lessons = learn_lessons([log.trace() for log in logs])
    assert any("pnpm run bundle" in lesson.line for lesson in lessons) == is_told
