"""How commits are made is told: their form, their checks, and the repository."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consolidator.memory.lessons.telling import answer_failure
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        (
            [
                "git add a && git commit -m \"$(cat <<'EOF'\nfeat(web): x\nEOF\n)\"",
                "git commit -am 'fix(api): mend it'",
            ],
            "`type(scope): …`, mostly `feat`, `fix` (6 of 6)",
        ),
        (
            ["git checkout -b fix/cart", "git commit -m 'docs: say so' && git push"],
            "`type: …`, mostly `docs` (3 of 3; mostly pushed at once)",
        ),
        (["git commit -F - <<'EOF'\nSHOP-12 Add the cart\nEOF"], "`SHOP-…` (3 of 3)"),
        (["git commit -m 'Add it: at last'"], "a plain subject without `type:` (3 of 3)"),
        (["git commit -m 'feat: add it'", "git commit -m 'Mend the cart'"], None),
        (["git commit -F /tmp/message && gh pr create -t 'feat: add it'"], None),
        (["git commit --amend --no-edit"], None),
        (["git commit -m '[cart] Add it'", "git commit -m '[shop/till] Mend it'"], "`[tag] …` (6 of 6)"),
        (["git -C ../site commit -m 'Add the page'", "cd /opt/site && git commit -m 'Add the page'"], None),
        (
            [f"git -C {HOME} commit -m 'Add the cart'"],
            "a plain subject without `type:` (3 of 3)",
        ),
        (
            ["git commit -m 'take-every-key: now and here'"],
            "a plain subject without `type:` (3 of 3)",
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


@pytest.mark.parametrize(("pushing", "told"), [(0, ")"), (3, ")"), (4, "; mostly pushed")])
def test_that_commits_are_pushed_is_told_of_four_sessions_in_five(pushing: int, told: str) -> None:
    def write(log: CallLog) -> None:
        log.run("git commit -m 'Add the cart'").run("git push" if int(log.name[1:]) < pushing else "git log")

    lessons = [lesson for lesson in of_kind(learn(5, write), "constant") if lesson.key == "commits"]
    assert [f"(5 of 5{told}" in lesson.line for lesson in lessons] == [True]


def test_what_a_commit_runs_is_read_from_its_output() -> None:
    def write(log: CallLog) -> None:
        log.run("pnpm run test", "$ vitest run src\nok")
        log.run(
            "git add a && git commit -m x", "$ vitest run src\nok\nmypy.....................Passed\n[main 1a2b3c4] x"
        )

    line = of_kind(learn(3, write), "commit_check")[0].line
    assert line.startswith("The commit hook runs `pnpm run test`, `mypy` (0 of 3 refused)")


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


def test_a_commit_that_fails_without_a_word_is_answered_with_what_its_hook_runs() -> None:
    def write(log: CallLog) -> None:
        log.run("bun run test", "$ bun test src/\n 3 pass").run("git commit -m a", "$ bun test src/\n[main 1] a")

    lessons, call = learn(3, write), {"command": "git add a.ts && git commit -m b"}
    told = answer_failure(lessons, "Bash", call, "Exit code 1")
    assert told is not None
    assert told.text.startswith("The commit hook runs `bun run test`")
    assert answer_failure(lessons, "Bash", call, "Exit code 1\nerror: cart.test.ts failed") is None


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
