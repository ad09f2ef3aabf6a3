"""How a project's commands are run is told by purpose, with counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.telling import answer_failure
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    learn_in_turn,
    of_kind,
)


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


def test_a_command_that_only_a_pipe_follows_is_told_of_one_session_too() -> None:
    def write(log: CallLog) -> None:
        for _ in range(3):
            log.run("mix test 2>&1 | tail -5", "12 tests, 0 failures")

    (lesson,) = of_kind(learn(1, write), "command")
    assert "mix test" in lesson.line


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


def test_a_call_whose_secret_is_not_shown_is_not_told_without_it() -> None:
    lessons = learn(4, lambda log: log.run("docker exec -e KEY=[redacted:token] web ./seed now", "ok", cwd=HOME))
    assert of_kind(lessons, "command") == []


def test_an_option_whose_value_was_redacted_is_no_part_of_a_told_call() -> None:
    def write(log: CallLog) -> None:
        log.run("docker exec -e API_TOKEN=[redacted:token] web ./seed --all", "ok")

    assert all("-e" not in lesson.line for lesson in of_kind(learn(4, write), "command"))


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


def test_a_call_is_told_with_the_sessions_that_made_just_this_one() -> None:
    calls = iter(["bd sync --all", "bd sync --all", "bd sync --all", "bd sync --flush", "bd sync --status"])
    (lesson,) = of_kind(learn(5, lambda log: log.run(next(calls), "done")), "command")
    assert lesson.line == "Often run here, too: `bd sync --all` (3 sessions)."


def test_of_two_builds_the_one_that_worked_more_often_is_told_first() -> None:
    def write(log: CallLog) -> None:
        log.run("docker-compose build api", "ok").fail("docker-compose build api", "ERROR: failed to solve")
        log.run("npm run build", "ok")

    (build,) = (each for each in learn(2, write) if each.purpose == "build")
    assert build.instead == "npm run build"


@pytest.mark.parametrize(("last", "is_told"), [("s3", True), ("s2", False)])
def test_a_practice_that_six_of_ten_sessions_came_after_is_told_at_no_start(last: str, is_told: bool) -> None:
    def write(log: CallLog) -> None:
        log.run("pnpm run test", "ok")
        if log.name <= last:
            log.run("pnpm run build", "ok").fail("jqx . cart.json", "zsh:1: command not found: jqx")

    starts = {lesson.key: lesson.starts for lesson in learn_in_turn(10, write)}
    assert starts == {"test": True, "build": is_told, "program jqx": True}  # what failed may not, since it was told
