"""A session's steps in time: reads folded, failures apart, pauses cut, and lessons where they were proved."""

from __future__ import annotations

from datetime import timedelta

from consolidator.service.sessions.listing import OutlineRow, TaughtRow
from consolidator.ui.drawing import LEFT, MAX_PAUSE, WIDTH, draw_waterfall, read_steps
from tests.conftest import NOON


def outline(*calls: tuple[str, str, str], pause: float = 1.0) -> list[OutlineRow]:
    """Return calls of (tool, words, status), each with its result."""
    rows = []
    for number, (tool, words, status) in enumerate(calls):
        at = NOON + timedelta(seconds=pause * number)
        rows.append(OutlineRow(2 * number + 1, "ToolCall", tool, str(number), None, at, words))
        rows.append(
            OutlineRow(2 * number + 2, "ToolResult", tool, str(number), status, at + timedelta(seconds=0.5), "")
        )
    return rows


def test_a_run_of_reads_is_one_step_and_a_failed_read_ends_it() -> None:
    read = ("read", "/srv/shop/src/a.py", "ok")  # of Claude Code with a capital
    rows = outline(read, read, ("Bash", "cat b", "ok"), ("Read", "/gone", "error"), read, ("Bash", "make", "ok"))
    steps = read_steps(rows)
    assert [(step.name, step.count, step.is_bad) for step in steps] == [
        ("Bash, read", 3, False), ("Read", 1, True), ("read", 1, False), ("Bash", 1, False),
    ]  # fmt: skip
    assert steps[0].seqs == [1, 2, 3, 4, 5, 6]


def test_a_night_between_two_calls_is_no_longer_than_a_pause() -> None:
    waterfall = draw_waterfall(outline(("Bash", "make", "ok"), ("Bash", "make", "ok"), pause=36_000), [])
    first, second = waterfall.steps
    assert first.x == LEFT
    share = (second.x - first.x) / (WIDTH - LEFT - 10)
    assert share > 0.9
    assert first.width > (WIDTH - LEFT) / (MAX_PAUSE * 2)  # half a second is still seen


def test_a_lesson_stands_at_the_step_that_proves_it_once() -> None:
    taught = [TaughtRow("l_1", "make fails", 4), TaughtRow("l_1", "make fails", 3), TaughtRow("l_2", "elsewhere", 99)]
    waterfall = draw_waterfall(outline(("Bash", "make", "ok"), ("Bash", "make test", "error")), taught)
    assert [[row.id for row in step.taught] for step in waterfall.steps] == [[], ["l_1"]]
    assert waterfall.minimap["bad"].startswith("M")
    assert waterfall.minimap.keys() == {"call", "bad", "taught"}


def test_a_session_without_steps_is_drawn() -> None:
    assert draw_waterfall([], []).steps == []
