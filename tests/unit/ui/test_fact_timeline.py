"""The drawing of facts that took each other's place: when each was true, and when it was believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from consolidator.models.fact import UNKNOWN_START, ChainedFactRow, FactVersionRow
from consolidator.ui.fact_timeline import LEFT, RIGHT, WIDTH, believed_spans, draw_timeline, list_rewordings
from tests.conftest import NOON

DAY = timedelta(days=1)
END = float(WIDTH - RIGHT)
NPM = ChainedFactRow("a", "It is npm.", NOON, NOON + DAY, NOON + DAY, NOON + 2 * DAY, "b", "replaced", False)
PNPM = ChainedFactRow("b", "It is pnpm.", NOON + DAY, None, NOON + 2 * DAY, None, None, None, False)


def version_of(fact: ChainedFactRow, until: int, sentence: str, superseded: int | None = None) -> FactVersionRow:
    at = None if superseded is None else NOON + superseded * DAY
    return FactVersionRow(fact.id, NOON + until * DAY, sentence, fact.valid_from, fact.valid_to, at)


def test_what_was_true_and_what_was_believed_are_apart_on_one_axis() -> None:
    drawn = draw_timeline([NPM, PNPM], {}, NOON + 4 * DAY)
    middle = LEFT + (END - LEFT) / 2
    quarter = LEFT + (END - LEFT) / 4
    (npm_true, pnpm_true), (npm_believed, pnpm_believed) = drawn.true.lines, drawn.believed.lines
    assert (npm_true.bars[0].x, npm_true.bars[0].x + npm_true.bars[0].width) == (LEFT, quarter)
    assert (pnpm_true.bars[0].x, pnpm_true.bars[0].is_open) == (quarter, True)
    assert (npm_believed.bars[0].x, npm_believed.bars[0].x + npm_believed.bars[0].width) == (quarter, middle)
    assert (pnpm_believed.bars[0].x, pnpm_believed.bars[0].width) == (middle, END - middle)
    assert npm_believed.y > pnpm_true.y
    assert (len(drawn.true.arrows), len(drawn.believed.arrows), drawn.end) == (1, 1, None)


def test_a_start_that_nobody_named_does_not_stretch_the_axis() -> None:
    drawn = draw_timeline([replace(NPM, valid_from=UNKNOWN_START), PNPM], {}, NOON + 4 * DAY)
    assert drawn.true.lines[0].bars[0].has_unknown_start
    assert drawn.ticks[0][1] == NOON + DAY


def test_facts_of_one_moment_and_of_the_future_are_drawn() -> None:
    drawn = draw_timeline([replace(PNPM, valid_from=NOON, recorded_at=NOON)], {}, NOON)
    assert drawn.true.lines[0].bars[0].width > 0
    future = draw_timeline([replace(PNPM, valid_to=NOON + 9 * DAY)], {}, NOON + 4 * DAY)
    assert future.end == NOON + 9 * DAY


def test_what_was_forgotten_and_said_again_was_believed_twice() -> None:
    again = replace(PNPM, recorded_at=NOON, superseded_at=None)
    spans = believed_spans(again, [version_of(again, 3, again.sentence, superseded=1)])
    assert spans == [(NOON, NOON + DAY), (NOON + 3 * DAY, None)]


def test_a_change_of_words_is_no_break() -> None:
    reworded = replace(PNPM, recorded_at=NOON)
    versions = [version_of(reworded, 1, "pnpm?"), version_of(reworded, 2, "It is pnpm.")]
    assert believed_spans(reworded, versions) == [(NOON, None)]
    assert list_rewordings(reworded, versions) == versions[:1]
    drawn = draw_timeline([reworded], {"b": versions}, NOON + 4 * DAY)
    assert len(drawn.believed.lines[0].changes) == 1


def test_a_circle_of_facts_is_drawn() -> None:
    drawn = draw_timeline([NPM, replace(PNPM, superseded_by="a"), replace(NPM, id="c", superseded_by="c")], {}, NOON)
    assert len(drawn.true.arrows) == 2
