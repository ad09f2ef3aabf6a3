"""What checks find is told with what mends it."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.commands import MAX_RULES
from consolidator.memory.lessons.telling import answer_failure
from tests.unit.lessons.traced import (
    UNFORMATTED,
    CallLog,
    learn,
    lint_then_fix,
    of_kind,
)


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


def test_a_check_that_finds_what_others_do_not_is_told() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/cart.ts").run("pnpm run test", "ok").fail("pnpm run typecheck", "cart.ts(3,1): wrong type")
        log.edit("src/cart.ts").run("pnpm run typecheck", "ok")

    assert (
        "`pnpm run test` does not catch what `pnpm run typecheck` finds"
        in of_kind(learn(2, write), "finds_more")[0].line
    )


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


@pytest.mark.parametrize(("sessions", "is_told"), [(10, True), (11, False)])
def test_rules_are_told_where_a_check_finds_them_in_three_of_ten_sessions(sessions: int, is_told: bool) -> None:
    def write(log: CallLog) -> None:
        if log.name in ("s0", "s1", "s2"):
            log.fail("make lint", "cart.go:3:4: Error return value is not checked (errcheck)")
        log.run("make lint", "")

    assert bool(of_kind(learn(sessions, write), "first_run_fails")) == is_told


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
