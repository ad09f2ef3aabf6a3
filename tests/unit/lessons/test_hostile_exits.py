"""A hostile call that a log teaches is told by no lesson and no fix, in whatever part of the log it stands (I18)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.worked_calls import learn_worked_calls
from consolidator.memory.solutions.fix_suggestion import FailedCall, suggest_fix
from tests.unit.calls.hostile_table import HOSTILE, core_of, rows
from tests.unit.lessons.traced import HOME, CallLog
from tests.unit.solutions.test_fix_form import CallSpec, learn, shell_call

CORES = [core_of(row) for kind in HOSTILE for row in rows(HOSTILE[kind])]
SAMPLE = 4  # of so many cores each exit is tried with one, and not with the same
MISSING = "error: cannot find the template"
UNKNOWN = "error: unrecognized subcommand"
WRITERS: dict[str, Callable[[CallLog, str], object]] = {
    "cure": lambda log, core: log.fail("make site", MISSING).run(core, "ok").run("make site", "done"),
    "cure in a chain": lambda log, core: (
        log.fail("make site", MISSING).run(f"make deps && {core}", "ok").run("make site", "done")
    ),
    "step": lambda log, core: log.run(f"make deps && {core} && make site", "12 passed"),
    "tests": lambda log, core: log.run(core, "12 passed").run(core, "12 passed"),
    "tests in a pipe": lambda log, core: log.run(f"{core} | tail -3", "12 passed").run(
        f"{core} | tail -3", "12 passed"
    ),
    "a commit's output": lambda log, core: log.edit("a.py").run("git commit -m x", f"$ {core}\nblack....Passed"),
    "formatter": lambda log, core: (
        log.fail("pnpm run lint", MISSING).run(f"pnpm run lint:fix && {core}", "ok").run("pnpm run lint", "ok")
    ),
    "without a wrapper": lambda log, core: log.fail(f"rtk {core}", UNKNOWN).run(core, "ok"),
    "said before a call": lambda log, core: log.say(f"I run `{core}`").run("pnpm run test", "12 passed"),
    "folder": lambda log, core: log.run("pnpm run test", "12 passed", cwd=f"{HOME}/{core}"),
    "error": lambda log, core: log.fail("foo --x", f"error: unknown option --x, run {core}").run("make all", "ok"),
}


@pytest.mark.parametrize("exit", WRITERS)
def test_no_lesson_tells_a_hostile_call(exit: str) -> None:
    first = [*WRITERS].index(exit) % SAMPLE
    assert [core for core in CORES[first::SAMPLE] if tells(exit, core)] == []


def tells(exit: str, core: str) -> list[str]:
    """Return what lessons tell of a core, or of a part of it, that four sessions show."""
    logs = [CallLog(f"s{number}") for number in range(4)]
    for log in logs:
        WRITERS[exit](log, core)
    traces = [log.trace() for log in logs]
    lessons = [*learn_lessons(traces), *learn_worked_calls(History.of(traces))]
    calls = [row for lesson in lessons for row in lesson.match.get("calls", ())]
    told = [text for lesson in lessons for text in (*re.findall(r"`([^`]*)`", lesson.line), lesson.instead or "")]
    return [text for text in (*told, *map(str, calls)) if core in text or (" " in text and text in core)]


REFUSED = "error: the port 5432 of the ledger refused the connection"
NOT_READY = "error: not ready, run: {}"
START = shell_call("app start", False, REFUSED)
CASES: dict[str, Callable[[str], list[list[CallSpec]]]] = {
    "step": lambda core: [[START, shell_call(core), shell_call("app start")]] * 3,
    "one case": lambda core: [[START, shell_call(core), shell_call("app start")]],
    "instead": lambda core: [[START, shell_call(f"app start && {core}")]] * 3,
    "chain": lambda core: [[START, shell_call(f"make deps; {core}; app start")]] * 3,
    "slot": lambda core: [
        [shell_call("app start", False, NOT_READY.format(task)), shell_call(task), shell_call("app start")]
        for task in ("make a1", "make b2", "make c3")
    ],
}


@pytest.mark.parametrize("exit", CASES)
def test_no_fix_tells_a_hostile_call(exit: str) -> None:
    first = [*CASES].index(exit) % SAMPLE
    for core in CORES[first::SAMPLE]:
        solution = learn(*CASES[exit](core))
        error = NOT_READY.format(core) if exit == "slot" else REFUSED
        for failed in (None, FailedCall("Bash", {"command": "app start"})):
            assert core not in str(suggest_fix(solution, error, failed)), (exit, core)


@pytest.mark.parametrize("core", [core for core in CORES if not re.search(r"[|;&<>$=]", core)][::SAMPLE])
def test_no_edit_makes_a_call_hostile(core: str) -> None:
    words = core.split()
    for cut in range(2, len(words)):
        failed = " ".join(words[:cut])
        error = f"error: {words[cut]} is needed: pass {words[cut]} to go on"
        try:
            solution = learn(*[[shell_call(failed, False, error), shell_call(core)]] * 3)
        except IndexError:  # what looks for something has not failed
            continue
        assert core not in str(suggest_fix(solution, error, FailedCall("Bash", {"command": failed})))
