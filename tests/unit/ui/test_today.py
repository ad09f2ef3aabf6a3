"""The cards of Today: what is new comes first, and a sentence that several projects taught stands once."""

from __future__ import annotations

from datetime import timedelta

from consolidator.service.memory.learned import Quote
from consolidator.ui.pages.today import Line, _make_card
from tests.conftest import NOON


def test_a_card_has_what_is_new_first_and_each_sentence_once() -> None:
    before = NOON - timedelta(days=3)
    lines = [
        Line("old", "Builds: `make` (worked 3 of 3).", "/src/shop", before, 3),
        Line("of all", "Reads files in full.", None, NOON, 2),
        Line("new", "Tests: `make test` (worked 61 of 64).", "/src/shop", NOON, 9),
        Line("same", "Tests: `make test` (worked 2 of 3).", "/src/till", NOON, 2),
        Line("same too", "Tests: `make test` (worked 2 of 2).", "/src/bank", before, 2),
    ]
    card = _make_card("You said", "/facts", "all facts", lines, more=4, latest=NOON)
    assert [line.id for line in card.lines] == ["new", "of all", "old"]
    assert (card.repeated, card.more) == ({"new": 2}, 4)


def test_a_quote_is_shown_where_it_says_more_than_its_line() -> None:
    line = Line("id", "The person wants short answers.", None, NOON, 1)
    shown = {words: line.shown_quote({"id": Quote("s", 1, words)}) for words in ("be brief, ok?", line.text, "x" * 900)}
    assert [quote is not None for quote in shown.values()] == [True, False, False]
