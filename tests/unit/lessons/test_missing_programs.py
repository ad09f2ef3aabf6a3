"""A program that is not there is told with the one that took its place."""

from __future__ import annotations

import json

import pytest

from consolidator.jobs.merging.warning_file import render_warnings
from consolidator.memory.lessons.always_failing import MAX_RARE
from consolidator.memory.lessons.before_call import concerns, correct
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.telling import answer_failure, warn_before
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


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


def test_a_missing_program_is_told_with_what_took_its_place_after_one_session() -> None:
    def write(log: CallLog) -> None:
        log.fail("cd box && python -c 'import a; print(1)'", "(eval):1: command not found: python")
        log.run("cd box && .venv/bin/python3 -c 'import b; print(2)'", "2")
        log.fail("grubl a.txt", "bash: grubl: command not found").run("cat a.txt", "x").run("other b.txt", "x")

    lessons = of_kind(learn(1, write), "always_fails")
    assert [(lesson.key, lesson.instead, lesson.warns, lesson.starts) for lesson in lessons] == [
        ("program grubl", None, True, False),  # what has no cure yet is told where it is called
        ("program python", ".venv/bin/python3", True, True),
    ]


def test_what_shows_the_same_file_takes_the_place_of_a_missing_program() -> None:
    missing = "sed : The term 'sed' is not recognized as the name of a cmdlet, function, or operable program."
    run = ["pwsh.exe", "-NoLogo", "-Command"]

    def write(log: CallLog) -> None:
        log.call("shell", {"command": [*run, "sed -n '1,90p' web/cart.ts"]}, missing, ok=False)
        log.call("shell", {"command": [*run, "Get-Content -Path web/cart.ts -TotalCount 90"]}, "x")
        log.fail("nl web/cart.ts", "bash: nl: command not found").run("ls web/cart.ts", "x").run("cat a.txt", "x")
        log.fail("grubl web/cart.ts", "bash: grubl: command not found").run("cat web/cart.ts", "x")

    lessons = of_kind(learn(1, write), "always_fails")
    (lesson,) = [each for each in lessons if each.instead is not None]
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
    [lesson] = of_kind(learn(1, lambda log: log.fail(failed, missing).run(worked, "1")), "always_fails")
    assert (lesson.instead is not None) == lesson.starts == is_told


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


def test_a_program_that_is_not_there_never_worked_whatever_the_rest_of_its_line_did() -> None:
    def write(log: CallLog) -> None:
        log.run("gh pr view | jqq .title", "bash: line 1: jqq: command not found")
        log.run("jqq .a x; jqq .b y", "bash: line 1: jqq: command not found\nbash: line 1: jqq: command not found")
        log.run("make list && jqq .a x; true", "done\n" * 2000 + "bash: line 1: jqq: command not found")

    (lesson,) = of_kind(learn(2, write), "always_fails")
    assert (lesson.key, lesson.successes, lesson.warns) == ("program jqq", 0, True)


def test_a_runner_that_names_a_package_is_no_cure() -> None:
    def write(log: CallLog) -> None:
        log.run("pytest tests", "ModuleNotFoundError: No module named 'shop'", ok=False)
        log.run("uvx --from evilpkg pytest tests", "1 passed")

    assert not [lesson for lesson in learn(2, write) if lesson.key.startswith("runner")]


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


def test_the_nearest_folder_of_a_call_is_the_first_of_the_warnings() -> None:
    [lesson] = of_kind(learn(1, lambda log: log.fail("jq . a", "bash: jq: command not found")), "always_fails")
    places = ("/home/ada", HOME, f"{HOME}/web", "/srv")
    lines = render_warnings([("l_1", place, lesson) for place in places]).splitlines()
    assert [line for line in lines if line[0] == "P"] == [f"P{HOME}/web", f"P{HOME}", "P/home/ada", "P/srv"]


def test_a_module_is_named_where_the_path_of_its_python_is_not() -> None:
    lessons = learn(2, lambda log: log.fail("python3 -m black .", f"{HOME}/.venv/bin/python3: No module named black"))
    [lesson] = of_kind(lessons, "always_fails")
    assert lesson.line == "`python3 -m black …` always fails (2 of 2: …: No module named black)."


def test_of_programs_that_a_session_lacked_those_that_failed_last_are_kept() -> None:
    log = CallLog("s1")
    for number in range(MAX_RARE + 20):
        log.fail(f"tool{number} run", f"bash: tool{number}: command not found")
    keys = {lesson.key for lesson in of_kind(learn_lessons([log.trace()]), "always_fails")}
    assert keys == {f"program tool{number}" for number in range(20, MAX_RARE + 20)}


def test_a_preview_warns_of_no_missing_program_where_the_hook_does_not() -> None:
    lessons = learn(1, lambda log: log.fail("gmake all", "bash: gmake: command not found"))
    assert warn_before(lessons, "Bash", {"command": "ls; gmake all"}) is not None
    assert warn_before(lessons, "Bash", {"command": "conda activate shop && gmake all"}) is None
