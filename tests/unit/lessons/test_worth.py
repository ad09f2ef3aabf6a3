"""What a lesson is worth is counted by sessions, told and untold, and decides whether it is told on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.measuring import measure_lessons, without_corrected
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.lessons.worth import Chances, Worth, probability_less, wilson_interval
from consolidator.models.injection import Correction, TellingRow
from tests.unit.lessons.traced import START, CallLog

NO_WRAPPER = "error: unrecognized subcommand 'pnpm'"
SIMULATIONS = 1000


def use_wrapper(log: CallLog) -> CallLog:
    return log.fail("wrap pnpm run test 2>&1 | tail -5", NO_WRAPPER).run("pnpm run test", "12 passed")


def heed(log: CallLog) -> CallLog:
    return log.run("pnpm run test", "12 passed").run("pnpm run test", "12 passed")


def sessions(name: str, count: int, write: Callable[[CallLog], object]) -> list[Trace]:
    logs = [CallLog(f"{name}{number}") for number in range(count)]
    for log in logs:
        write(log)
    return [log.trace() for log in logs]


def measure(traces: Sequence[Trace], told: Iterable[str], seconds: int = 0, call_id: str | None = None) -> Lesson:
    """Return the wrapper's lesson; each session in `told` was told it some seconds after it began."""
    lessons = learn_lessons(traces)
    ids = [f"l_{number}" for number in range(len(lessons))]
    at = next(number for number, lesson in enumerate(lessons) if lesson.match.get("kind") == "wrapper")
    tellings = [TellingRow(name, ids[at], START + timedelta(seconds=seconds), call_id) for name in told]
    return measure_lessons(lessons, ids, traces, tellings)[at]


def worth_of(lesson: Lesson) -> Worth:
    return Worth.from_json(lesson.worth)


def test_the_failure_that_a_lesson_prevents_is_counted_told_and_untold() -> None:
    traces = [*sessions("u", 28, use_wrapper), *sessions("t", 16, heed), *sessions("idle", 2, lambda log: log)]
    lesson = measure(traces, [*(f"t{n}" for n in range(16)), "idle0"])
    worth = worth_of(lesson)
    assert (worth.sessions, worth.told.failed, worth.told.sessions) == (17, 0, 16)
    assert (worth.untold.failed, worth.untold.sessions, worth.untold.calls) == (28, 28, 28)
    assert worth.withheld is None
    assert worth.describe().startswith(
        "told in 17 sessions, the failure came back in 0 of 16 (0% to 19%), untold it failed in 28 of 28, at 1.0 calls"
    )
    assert lesson.score > next(each for each in learn_lessons(traces) if each.key == lesson.key).score


def test_the_sum_is_the_same_whatever_the_order_and_the_cuts() -> None:
    logs = [use_wrapper(CallLog(f"u{n}")) for n in range(4)] + [heed(CallLog(f"t{n}")) for n in range(3)]
    told = ["t0", "t2", "u3"]
    whole = measure([log.trace() for log in logs], told)
    cut = [log.trace(2, 3) for log in logs]
    random.Random(1).shuffle(cut)
    assert measure(cut, reversed(told)) == whole


@pytest.mark.parametrize("document", ["PLAN.md", "docs/the plan.md", "app/[id]/PLAN.md"])
def test_a_document_that_is_often_changed_is_counted_by_the_sessions_that_left_it_out(document: str) -> None:
    traces = [
        *sessions("u", 5, lambda log: log.edit(document).edit("src/cart.ts")),
        *sessions("t", 2, lambda log: log.edit("src/cart.ts")),
        *sessions("idle", 1, lambda log: log.run("make")),
    ]
    (lesson,) = [each for each in learn_lessons(traces) if each.kind == "together"]
    (measured,) = measure_lessons([lesson], ["l_0"], traces, [])
    assert (worth_of(measured).untold.sessions, worth_of(measured).untold.failed) == (7, 2)


def test_how_commits_are_made_is_judged_by_no_call_of_another_program() -> None:
    traces = sessions("u", 3, lambda log: log.run("git commit -m 'Add the cart'").fail("gh pr view -R a/b 1", "no"))
    (lesson,) = [each for each in learn_lessons(traces) if each.key == "commits"]
    (measured,) = measure_lessons([lesson], ["l_0"], traces, [])
    assert worth_of(measured).untold.sessions == 0


def test_files_that_change_together_are_counted_by_what_was_left_out_which_is_no_harm() -> None:
    def both(log: CallLog) -> object:
        return log.edit("api/types/cart.ts").edit("web/types/cart.ts")

    traces = [*sessions("u", 5, both), *sessions("t", 4, lambda log: log.edit("api/types/cart.ts"))]
    (lesson,) = [each for each in learn_lessons(traces) if each.kind == "together"]
    tellings = [TellingRow(f"t{number}", "l_0", START) for number in range(4)]
    worth = worth_of(measure_lessons([lesson], ["l_0"], traces, tellings)[0])
    assert (worth.untold.sessions, worth.untold.failed, worth.told.sessions, worth.told.failed) == (5, 0, 4, 4)
    assert worth.withheld is None
    told = "told in 4 sessions, it was left out in 4 of 4 (51% to 100%)"
    assert worth.describe() == f"{told}, untold it was left out in 0 of 5"


def test_what_is_run_after_a_change_is_counted_by_the_sessions_that_left_it_out() -> None:
    def styled(log: CallLog) -> CallLog:
        return log.edit("web/cart.css")

    traces = sessions("u", 3, lambda log: styled(log).run("pnpm run css", "done"))
    traces += [
        *sessions("v", 1, styled),
        *sessions("w", 4, lambda log: log.edit("api/cart.py").run("pnpm run css", "ok")),
    ]
    lesson = Lesson("follow_up", "pnpm run css", "After a change of `*.css` ...", 1, 3, match={"files": "*.css"})
    finds = replace(lesson, kind="finds_more", match={})
    tellings = [TellingRow("v0", identity, START) for identity in ("l_0", "l_1")]
    first, second = map(worth_of, measure_lessons([lesson, finds], ["l_0", "l_1"], traces, tellings))
    assert (first.untold.sessions, first.untold.failed, first.told.sessions, first.told.failed) == (3, 0, 1, 1)
    assert (second.untold.sessions, second.untold.failed, second.told.failed) == (7, 0, 1)
    assert first.withheld is None


def test_a_session_counts_once_and_not_as_told_where_it_failed_first() -> None:
    """A lesson that pretends to pay: many calls of one session that work, and tellings after the failure."""

    def pretend(log: CallLog) -> None:
        use_wrapper(log)
        for _ in range(200):
            log.run("pnpm run test", "12 passed")

    traces = [*sessions("u", 3, use_wrapper), *sessions("p", 2, pretend)]
    later = worth_of(measure(traces, ["p0", "p1"], seconds=4))
    assert (later.sessions, later.told.sessions) == (2, 0)
    assert (later.untold.failed, later.untold.sessions) == (5, 5)
    about = worth_of(measure(traces, ["p0", "p1"], call_id="c1"))  # before the call that failed: that call runs on
    assert about == later
    start = worth_of(measure(traces, ["p0", "p1"]))
    assert (start.told.failed, start.told.sessions) == (2, 2)


@pytest.mark.parametrize("hiding", ["wrap pnpm run test || true", "wrap pnpm run test 2>&1 | tail -3; echo done"])
def test_a_failure_that_its_exit_code_hides_came_back_all_the_same(hiding: str) -> None:
    traces = [*sessions("u", 3, use_wrapper), *sessions("t", 4, lambda log: log.run(hiding, NO_WRAPPER))]
    worth = worth_of(measure(traces, [f"t{n}" for n in range(4)]))
    assert (worth.told.failed, worth.told.sessions) == (4, 4)


def test_forks_count_once_and_an_unknown_session_not_at_all() -> None:
    traces = sessions("u", 3, use_wrapper)
    forks = [Trace(f"f{n}", "f0", "codex", trace.calls, trace.start) for n, trace in enumerate(sessions("t", 5, heed))]
    worth = worth_of(measure([*traces, *forks], [*(f"f{n}" for n in range(5)), "simulated"]))
    assert (worth.sessions, worth.told.sessions) == (1, 1)


def test_advice_that_cannot_be_followed_does_harm() -> None:
    def follow(log: CallLog) -> None:
        log.fail("pnpm run test", "zsh: command not found: pnpm")

    traces = [*sessions("u", 9, use_wrapper), *sessions("t", 3, follow)]
    worth = worth_of(measure(traces, [f"t{n}" for n in range(3)]))
    assert (worth.told.failed, worth.told.misled, worth.withheld) == (0, 3, "it does harm")


def warn(traces: Sequence[Trace], calls: Sequence[tuple[str, str]], correction: Correction | None = None) -> Lesson:
    """Return the wrapper's lesson; before each call, by session and id, it was told."""
    ids = [str(number) for number in range(99)]
    tellings = [TellingRow(name, id, START, call, "before_call", correction) for name, call in calls for id in ids]
    lessons = learn_lessons(without_corrected(traces, tellings))
    measured = measure_lessons(lessons, ids[: len(lessons)], traces, tellings)
    return next(lesson for lesson in measured if lesson.match.get("kind") == "wrapper")


def test_a_guard_in_shadow_counts_what_it_would_have_prevented() -> None:
    traces = sessions("u", 31, use_wrapper)
    lesson = warn(traces, [*((f"u{n}", "c1") for n in range(31)), ("u0", "c1"), ("u1", "unknown")], "possible")
    worth = worth_of(lesson)
    assert (worth.prevented, worth.wrong, worth.corrected, worth.is_stopped) == (31, 0, 0, False)


def test_a_corrected_call_is_no_evidence_that_the_wrapper_works() -> None:
    """Its log shows what the agent typed, and the result of what ran in its place."""

    def corrected(output: str, ok: bool) -> Callable[[CallLog], object]:
        return lambda log: log.run("wrap pnpm run test", output, ok)

    right = [*sessions("u", 3, use_wrapper), *sessions("t", 4, corrected("12 passed", True))]
    right += sessions("red", 2, corrected("Exit code 1\nAssertionError: expected 3 to be 4", False))
    calls = [(f"t{n}", "c1") for n in range(4)] + [("red0", "c1"), ("red1", "c1")]
    lesson = warn(right, calls, "made")
    assert (lesson.failures, lesson.successes, lesson.warns) == (3, 0, True)
    worth = worth_of(lesson)
    assert (worth.prevented, worth.wrong, worth.corrected) == (6, 0, 6)
    mistaken = [*right, *sessions("bad", 1, corrected("zsh: command not found: pnpm", False))]
    stopped = worth_of(warn(mistaken, [*calls, ("bad0", "c1")], "made"))
    assert (stopped.prevented, stopped.wrong, stopped.is_stopped) == (6, 1, True)


def test_one_session_full_of_warned_calls_keeps_no_guard_that_is_wrong() -> None:
    def repeat(log: CallLog) -> None:
        for _ in range(40):
            use_wrapper(log)

    traces = [*sessions("u", 3, use_wrapper), *sessions("spam", 1, repeat)]
    calls = [("spam0", f"c{number}") for number in range(1, 160, 4)]
    mistaken = sessions("bad", 1, lambda log: log.run("wrap pnpm run test", "12 passed"))
    tellings = [TellingRow(name, "l", START, call, "before_call") for name, call in [*calls, ("bad0", "c1")]]
    lesson = next(each for each in learn_lessons(traces) if each.match.get("kind") == "wrapper")
    worth = worth_of(measure_lessons([lesson], ["l"], [*traces, *mistaken], tellings)[0])
    assert (worth.prevented, worth.wrong, worth.is_stopped) == (1, 1, True)


@pytest.mark.parametrize(("right", "is_stopped"), [(0, True), (19, True), (20, False), (40, False)])
def test_one_wrong_in_twenty_stops_a_guard(right: int, is_stopped: bool) -> None:
    assert Worth(prevented=right, wrong=1).is_stopped is is_stopped
    assert not Worth(prevented=right).is_stopped


def simulate(rng: random.Random, told_share: float, untold_share: float, chances: int) -> int | None:
    """Return after how many chances a lesson is told no more; None for never."""
    wrong = sum(rng.random() < untold_share for _ in range(30))
    worth = Worth(0, Chances(), Chances(30, wrong, 0, wrong))
    for chance in range(1, chances + 1):
        has_failed = rng.random() < told_share
        worth.told.sessions += 1
        worth.told.failed += has_failed
        worth.told.wrong += has_failed
        if worth.withheld:
            return chance
    return None


@pytest.mark.parametrize(("told", "untold"), [(0.0, 1.0), (0.1, 0.9), (0.2, 0.9)])
def test_a_useful_lesson_is_never_retired(told: float, untold: float) -> None:
    rng = random.Random(36)
    assert [simulate(rng, told, untold, 40) for _ in range(SIMULATIONS)] == [None] * SIMULATIONS


@pytest.mark.parametrize(("told", "untold"), [(1.0, 0.0), (1.0, 0.1), (1.0, 0.2)])
def test_a_harmful_lesson_is_retired_within_five_chances(told: float, untold: float) -> None:
    rng = random.Random(36)
    assert {simulate(rng, told, untold, 40) or 99 for _ in range(SIMULATIONS)} <= {3, 4, 5}


@pytest.mark.parametrize(("share", "in_time"), [(1.0, 1.0), (0.9, 1.0), (0.7, 0.99)])
def test_a_useless_lesson_is_retired_within_twenty_chances(share: float, in_time: float) -> None:
    rng = random.Random(36)
    ended = [simulate(rng, share, share, 40) or 99 for _ in range(SIMULATIONS)]
    assert sum(chance <= 20 for chance in ended) >= in_time * SIMULATIONS
    assert max(ended) <= 40


def test_a_few_failures_of_what_never_failed_are_no_harm() -> None:
    assert Worth(27, Chances(27, 2, 0, 2), Chances(68)).withheld is None
    assert Worth(30, Chances(30, 12, 0, 12), Chances(68, 1, 0, 1)).withheld == "it does harm"


def test_what_seldom_fails_is_not_judged_after_few_chances() -> None:
    assert Worth(40, Chances(40, 1, 0, 1), Chances(60, 3, 0, 3)).withheld is None
    assert Worth(40, Chances(40), Chances(60)).withheld is None  # nothing to prevent


def test_intervals_and_certainties_are_those_of_the_books() -> None:
    assert [round(bound, 4) for bound in wilson_interval(0, 16)] == [0.0, 0.1936]
    assert [round(bound, 3) for bound in wilson_interval(81, 263)] == [0.255, 0.366]  # Newcombe 1998, table I
    assert round(probability_less(Chances(4, 2, 0, 2), Chances(9, 5, 0, 5)), 6) == round(
        1 - probability_less(Chances(9, 5, 0, 5), Chances(4, 2, 0, 2)), 6
    )
    draws = random.Random(2)
    drawn = [draws.betavariate(3, 8) < draws.betavariate(6, 5) for _ in range(20000)]
    assert abs(sum(drawn) / 20000 - probability_less(Chances(9, 2, 0, 2), Chances(9, 5, 0, 5))) < 0.01


@pytest.mark.parametrize(
    ("hiding", "output"),
    [
        ("wrap pnpm run test || pnpm run test", "12 passed"),
        ("wrap pnpm run test || true", ""),
    ],
)
def test_a_call_whose_outcome_nobody_saw_ends_no_lesson(hiding: str, output: str) -> None:
    traces = [*sessions("u", 3, use_wrapper), *sessions("t", 1, lambda log: log.run(hiding, output))]
    lesson = measure(traces, ["t0"])
    assert (lesson.failures, lesson.successes, lesson.warns) == (3, 0, True)
