"""An answer keeps to its budget of tokens, and says how much it left out."""

from __future__ import annotations

from consolidator.memory.recall.block import estimate_tokens
from consolidator.service.bounded_text import fit_lines


def test_lines_that_fit_are_all_there() -> None:
    assert fit_lines(["one", "  two"], 100) == "one\n  two"


def test_what_does_not_fit_is_counted() -> None:
    text = fit_lines([f"line {number} of many" for number in range(100)], 100)
    assert estimate_tokens(text) <= 100
    shown = text.splitlines()
    assert shown[-1].startswith(f"({100 - len(shown) + 1} more left out")


def test_no_text_breaks_its_line_or_has_no_end() -> None:
    assert fit_lines(["a\nb\rc"], 100) == "a b c"
    assert len(fit_lines(["x" * 100_000], 1000)) == 600
