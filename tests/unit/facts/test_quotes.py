"""A quote is found however its marks and spaces were mended, and stored as it really stands in the event."""

from __future__ import annotations

import pytest

from consolidator.memory.facts.quotes import MAX_QUOTE_CHARS, find_quote, fold_text

TEXT = 'I\u2019m currently reading "The Lean Startup" \u2013 and hoping\u00a0it\u2019ll give me tips for my biz.'


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        ("I'm currently reading 'The Lean Startup'", 'I\u2019m currently reading "The Lean Startup"'),
        ("reading \u201cThe Lean Startup\u201d - and hoping", 'reading "The Lean Startup" \u2013 and hoping'),
        ("lean startup\u201d\u2014and", 'Lean Startup" \u2013 and'),
        ('reading \\"The Lean Startup\\"', 'reading "The Lean Startup"'),
        ('"tips for my biz"', "tips for my biz"),
        ("tips for my biz!", "tips for my biz"),
        ("give\nme   tips", "give me tips"),
    ],
    ids=["straight for curly", "curly for straight", "a dash", "escapes", "marks around it", "another end", "spaces"],
)  # fmt: skip
def test_marks_dashes_and_spaces_may_be_mended_and_the_event_is_quoted(quote: str, passage: str) -> None:
    assert find_quote(quote, (TEXT,)) == (passage,)
    assert passage in TEXT


FAIR = "Yesterday, I went to a fair to show off my studio, it was both stressful and great! I got some possible leads."


def test_the_parts_around_an_ellipsis_stand_in_this_order() -> None:
    assert find_quote("a fair to show off my studio... I got some possible leads", (FAIR,)) == (
        FAIR[FAIR.index("a fair") : -1],
    )
    assert find_quote("\u2026 to show off my studio [\u2026] possible leads", (FAIR,))
    assert not find_quote("I got some possible leads ... a fair to show off", (FAIR,))
    assert not find_quote("a fair to show off ... I lost all the leads", (FAIR,))
    assert not find_quote("a ... fair ... show ... leads", (FAIR,))


@pytest.mark.parametrize(
    "quote",
    [
        "[\u2026] I quit my job",
        "\u2026 I quit my job",
        "(...) I quit my job",
        "I quit my job [\u2026]",
        "...I quit my job...",
        "\u201c[...] I quit my job (\u2026)\u201d",
        "\u2026\u2026 I quit my job",
        "[...] I quit [...] my job [...]",
        "I quit my job. [...]",
    ],
)
def test_an_ellipsis_at_the_ends_leaves_out_what_stands_around(quote: str) -> None:
    assert find_quote(quote, ("Last week I quit my job and left.",)) == ("I quit my job",)
    assert not find_quote(quote, ("I kept my job",))


def test_an_ellipsis_alone_quotes_nothing() -> None:
    for quote in ("[\u2026]", "(...)", "\u2026 [...]", "[...] ."):
        assert not find_quote(quote, (FAIR,))


def test_parts_that_are_far_from_each_other_are_quoted_one_by_one() -> None:
    far = f"I went to a fair. {'Rain and rain. ' * MAX_QUOTE_CHARS}I got some leads."
    assert find_quote("I went to a fair ... I got some leads", (far,)) == ("I went to a fair", "I got some leads")
    assert find_quote("I went to ... some leads", ("I went to a fair", "got some leads")) == ("I went to", "some leads")
    assert not find_quote("some leads ... I went to", ("I went to a fair", "got some leads"))


@pytest.mark.parametrize("quote", ["", " ", "\u2026", '""', "-", "reading The Leaner Startup", "ello the", "startups"])
def test_words_are_not_forgiven(quote: str) -> None:
    assert not find_quote(quote, (TEXT, "hello there"))


def test_a_passage_at_the_bounds_of_words_comes_first() -> None:
    text = "Bernhard moved. Bern it is."
    folded = fold_text(text)
    place = folded.find("bern")
    assert place is not None
    assert text[folded.original_span(*place)] == "Bern"
    assert place[0] > 0


def test_letters_that_fold_to_several_are_mapped_back() -> None:
    text = "Die Stra\u00dfe \ufb01nde ich \u2026 scho\u0308n."
    assert find_quote("strasse finde ich ... sch\u00f6n", (text,)) == ("Stra\u00dfe \ufb01nde ich \u2026 scho\u0308n",)
