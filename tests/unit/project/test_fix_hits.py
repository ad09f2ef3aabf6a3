"""What a suggestion is worth is judged by the calls that followed the failure."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.quality.fix_hits import Failure, Tally, build_report, judge
from consolidator.memory.calls.call_pairing import CompletedCall


def call(index: int, command: str, ok: bool = True) -> CompletedCall:
    return CompletedCall(index, 2 * index, 2 * index + 1, "Bash", {"command": command}, ok, None, "", "")


def suggested(command: str, kind: str = "call") -> dict[str, Any]:
    return {"kind": kind, "tool": "Bash", "arguments": {"command": command}, "text": command}


def failure(*commands: str) -> Failure:
    """Return a failed first command, and the ones after it; the last one resolved it."""
    later = tuple(call(n, command) for n, command in enumerate(commands[1:], 1))
    return Failure("s", "coder", call(0, commands[0], ok=False), later)


def test_the_resolver_is_a_hit_whatever_its_options() -> None:
    pushed = failure("git push", "git status", "git push -u origin fix-a")
    assert judge(suggested("git push --set-upstream origin fix-a"), pushed) == ("resolver", 1)
    assert judge(suggested("git push -u origin fix-b"), pushed) == ("false", 0)


def test_a_step_on_the_way_is_right_where_it_was_suggested_as_one() -> None:
    locked = failure("make all", "ls", "make deps", "make all")
    assert judge(suggested("make deps", "step"), locked) == ("step", 1)
    assert judge(suggested("make deps"), locked) == ("false", 0)


def test_to_try_again_is_right_only_where_nothing_was_changed() -> None:
    assert judge(suggested("make all"), failure("make all", "cat log", "make all")) == ("resolver", 1)
    assert judge(suggested("make all"), failure("make all", "touch deps", "make all")) == ("false", 0)


def test_what_was_done_last_time_is_a_hint() -> None:
    assert (
        judge({"kind": "last time", "tool": None, "arguments": None, "text": ""}, failure("a", "b"))[0] == "last time"
    )
    assert judge(None, failure("a", "b")) == ("nothing", 0)


def test_false_suggestions_are_counted_among_those_made() -> None:
    tally = Tally(failures=10)
    tally.outcomes.update({"resolver": 3, "step": 1, "false": 1, "last time": 2, "nothing": 3})
    figures = {figure.name: figure.value for figure in build_report({"logs": tally}).figures}
    assert (figures["all: false"], figures["all: hit at 1"], figures["all: coverage"]) == (0.2, 0.3, 0.7)


@pytest.mark.parametrize(("made", "judged"), [(0, False), (19, False), (20, True)])
def test_a_target_is_judged_over_enough_suggestions_only(made: int, judged: bool) -> None:
    tally = Tally(failures=30)
    tally.outcomes.update({"resolver": made})
    report = build_report({"logs": tally})
    assert ("all: false" in report.to_json()["targets"]) is judged
    assert ("reached" in report.format_table()) is judged
