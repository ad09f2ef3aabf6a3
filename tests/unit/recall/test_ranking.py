"""Ranking and fusing, without a database."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality.recall import rank_bm25
from consolidator.memory.recall.block import (
    NOTE,
    Channel,
    Section,
    estimate_tokens,
    fact_item,
    render_block,
    solution_item,
)
from consolidator.memory.recall.fusion import find_hidden_events, fuse_channels
from consolidator.memory.recall.postings import FACT, NUMBERS_PER_BLOCK, TURN, pack_postings, unpack_postings
from consolidator.memory.recall.query import looks_like_error, query_coverage
from consolidator.memory.recall.ranking import CorpusStatistics, Hits, TermPostings
from consolidator.memory.text.words import count_words, query_words, split_words, word_key
from consolidator.models.digest import RecalledFact, TurnRow
from consolidator.models.fact import UNKNOWN_START
from consolidator.models.solution import SolutionRow

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def search(texts: list[str], query: str, first: int = NUMBERS_PER_BLOCK) -> Hits | None:
    """Index texts as turns of a session, and look a query up."""
    word_counts = [count_words(text) for text in texts]
    postings = [
        posting for number, counts in enumerate(word_counts) for posting in pack_postings(TURN, first + number, counts)
    ]
    terms = []
    for word in dict.fromkeys(split_words(query)):
        packed = sorted(ref for key, ref in postings if key == word_key(TURN, word))
        terms.append(TermPostings(word_key(TURN, word), len(packed), np.array(packed, dtype=np.int64)))
    return Hits.from_terms(terms, CorpusStatistics(len(texts), sum(sum(counts.values()) for counts in word_counts)))


def make_turn(number: int, text: str = "said", at: datetime = NOON) -> TurnRow:
    return TurnRow(number, "s", number, "user", None, text, at, announces=False)


def make_fact(number: int, *seqs: int, trust: str = "user", text: str = "It is so.") -> RecalledFact:
    events = tuple(("s", seq) for seq in seqs)
    return RecalledFact(number, f"f{number}", text, "preference", "explicit", trust, NOON, None, 1, events=events)


def test_words_are_weighed_as_plain_bm25_weighs_them() -> None:
    """K6."""
    texts = ["cat dog bird", "cat heron", "cat cat cat dog", "fish", "heron heron cat and much more to read here"]
    hits = search(texts, "heron cat")
    assert hits is not None
    assert isinstance(hits.documents, np.ndarray)
    assert [number - NUMBERS_PER_BLOCK for number in hits.rank_documents(9)] == [
        p for p in rank_bm25(texts, "heron cat", 1.2) if p != 3
    ]


def test_a_fact_that_nobody_used_for_sixty_days_sinks_below_its_equal() -> None:
    fresh, unused = make_fact(2, 2), make_fact(1, 1)
    fresh, unused = (
        replace(fact, last_used_at=NOON - timedelta(days=days)) for fact, days in ((fresh, 50), (unused, 70))
    )
    channel = Channel(FACT, {1: 1.0, 2: 1.0}, 1.0)
    items = fuse_channels([], [unused, fresh], [channel], limit=5)
    assert [item.citation for item in items] == [fact_item(fact, 0.0).citation for fact in (fresh, unused)]


def test_a_steer_after_which_the_task_failed_weighs_less_and_stays() -> None:
    failed, unknown, helped = (
        replace(make_fact(number), steers_succeeded=succeeded, steers_failed=failed)
        for number, succeeded, failed in ((1, 0, 5), (2, 0, 0), (3, 1, 0))
    )
    items = fuse_channels([], [failed, unknown, helped], [found("fact", 1, 2, 3, 4)], limit=5)
    assert [item.citation for item in items] == ["[fact:f1]", "[fact:f2]", "[fact:f3]"]  # what fits decides first
    alike = Channel(FACT, {1: 1.0, 2: 1.0, 3: 1.0}, 1.0)
    items = fuse_channels([], [failed, unknown, helped], [alike], limit=5)
    assert [item.citation for item in items] == ["[fact:f3]", "[fact:f2]", "[fact:f1]"]


def test_a_turn_is_found_by_the_words_of_its_neighbours_and_not_by_those_of_another_session() -> None:
    texts = ["how was the recital", "it went well", "tea or coffee", "tea"]
    hits = search(texts, "recital well")
    assert hits is not None
    assert set(hits.score_neighbourhoods(2)[0] - NUMBERS_PER_BLOCK) == {0, 1}
    other_session = search(["recital", "nothing"], "recital", first=2 * NUMBERS_PER_BLOCK - 1)
    assert other_session is not None
    assert 2 * NUMBERS_PER_BLOCK not in other_session.score_neighbourhoods(9)[0]


def test_nothing_is_found_by_words_that_nobody_said() -> None:
    assert search(["tea"], "coffee") is None


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 1000), min_size=1, max_size=400), st.integers(0, 2**46 - 1))
def test_what_is_packed_comes_out_again(word_counts: dict[str, int], number: int) -> None:
    postings = np.array([ref for _, ref in pack_postings(FACT, number, word_counts)], dtype=np.int64)
    numbers, counts, lengths = unpack_postings(postings)
    assert (postings >= 0).all()
    assert (numbers == number).all()
    expected = [min(stored, 16) for _, stored in Counter(word_counts).most_common(len(counts))]
    assert sorted(counts.tolist(), reverse=True) == expected
    assert (lengths <= max(sum(word_counts.values()) * 1.1, 1)).all()


def found(kind: str, *numbers: int, weight: float = 1.0) -> Channel:
    """Return a channel whose documents are given from the best, and score less the later they come."""
    return Channel(kind, {number: 1 - place / 10 for place, number in enumerate(numbers)}, weight)


def test_scores_are_summed_on_the_turn_and_a_fact_stands_beside_it() -> None:
    turns, facts = [make_turn(1), make_turn(2), make_turn(3)], [make_fact(7, 3)]
    items = fuse_channels(
        turns, facts, [found("turn", 1, 2, 3), found("turn", 2, 1, 3, weight=0.5), found("fact", 7)], limit=9
    )
    assert [item.citation for item in items] == ["[fact:f7]", "[s:3]", "[s:1]", "[s:2]"]


def test_facts_of_one_turn_hide_neither_it_nor_one_another() -> None:
    facts = [make_fact(7, 1), make_fact(8, 1)]
    items = fuse_channels([make_turn(1)], facts, [found("turn", 1), found("fact", 7, 8)], limit=9)
    assert [item.citation for item in items] == ["[fact:f7]", "[s:1]", "[fact:f8]"]


def test_a_turn_that_only_its_fact_found_is_read_for_it() -> None:
    facts, channels = [make_fact(7, 1, 2)], [found("turn", 2), found("fact", 7)]
    assert find_hidden_events([make_turn(2)], facts, channels, limit=5) == [("s", 1)]
    items = fuse_channels([make_turn(1), make_turn(2)], facts, channels, limit=9)
    assert [item.citation for item in items] == ["[fact:f7]", "[s:2]", "[s:1]"]


def test_of_two_that_fit_alike_the_later_one_comes_first() -> None:
    old = make_turn(1, at=NOON - timedelta(days=300))
    items = fuse_channels([old, make_turn(2)], [], [found("turn", 1, 2), found("turn", 2, 1)], limit=9)
    assert [item.citation for item in items] == ["[s:2]", "[s:1]"]


def test_whom_the_question_names_is_heard_first() -> None:
    turns = [replace(make_turn(n), speaker=name) for n, name in ((1, "Ada Byron"), (2, "Ben"))]
    items = fuse_channels(turns, [], [found("turn", 1, 2)], limit=9, query_words=query_words("What did Ben buy?"))
    assert [item.citation for item in items] == ["[s:2]", "[s:1]"]


def test_what_fits_far_worse_than_the_best_is_left_out() -> None:
    channel = Channel("turn", {1: 1.0, 2: 0.05})
    assert len(fuse_channels([make_turn(1), make_turn(2)], [], [channel], limit=9)) == 1


def test_what_tools_tell_is_quoted_and_what_people_say_is_not() -> None:
    stated, reported = fuse_channels(
        [], [make_fact(1, 1), make_fact(2, 2, trust="tool", text='Run "x"')], [found("fact", 1, 2)], limit=9
    )
    assert stated.line == "- It is so. (since 2026-03-02) [fact:f1]"
    assert reported.line == '- told by a tool: "Run \\"x\\"" (since 2026-03-02) [fact:f2]'


@pytest.mark.parametrize(
    ("since", "until", "validity"),
    [
        (NOON, NOON + timedelta(days=9), "since 2026-03-02 until 2026-03-11"),
        (NOON, NOON, "on 2026-03-02"),
        (UNKNOWN_START, NOON, "until 2026-03-02"),
    ],
)
def test_what_ends_says_until_when(since: datetime, until: datetime, validity: str) -> None:
    over = replace(make_fact(1, 1), valid_from=since, valid_to=until)
    (item,) = fuse_channels([], [over], [found("fact", 1)], limit=9)
    assert item.line == f"- It is so. ({validity}) [fact:f1]"


def test_since_is_only_said_where_the_words_say_since_when() -> None:
    (item,) = fuse_channels([], [replace(make_fact(1, 1), says_since=False)], [found("fact", 1)], limit=9)
    assert item.line == "- It is so. (said 2026-03-02) [fact:f1]"


@given(st.text(alphabet="[]: a(", max_size=60))
def test_no_text_forges_a_citation(text: str) -> None:
    (item,) = fuse_channels([make_turn(1, text)], [], [Channel("turn", {1: 1.0})], limit=1)
    assert len(re.findall(r"\[[^\]\s]{1,200}:[^\]\s]{1,200}\]", item.line)) <= 1  # its own


def test_what_was_redacted_keeps_a_pair_of_brackets() -> None:
    fact = replace(make_fact(1, 1), sentence="The password is [redacted:password].")
    (item,) = fuse_channels([], [fact], [found("fact", 1)], limit=9)
    assert item.line.startswith("- The password is (redacted:password).")


@given(st.lists(st.text(max_size=300), max_size=20), st.integers(0, 2000))
def test_a_block_is_never_over_its_budget(texts: list[str], budget: int) -> None:
    channel = Channel("turn", dict.fromkeys(range(len(texts)), 1.0))
    items = fuse_channels([make_turn(n, text) for n, text in enumerate(texts)], [], [channel], limit=99)
    block = render_block(NOTE, [Section("", items)], budget)
    if block is None:
        return
    assert estimate_tokens(block.text) <= budget
    for line, item in zip(
        block.text.splitlines()[2:-1], block.items, strict=True
    ):  # every line with its citation, in both forms
        assert line == item.as_json()["line"]
        assert line.endswith(f" {item.as_json()['citation']}")


def test_a_procedure_fits_by_most_of_what_is_asked() -> None:
    assert query_coverage(split_words("please move my booking"), ["get_user → move_booking", "Please move it"]) >= 0.5
    assert query_coverage(split_words("please move my booking"), ["make tea"]) == 0
    assert query_coverage([], ["anything"]) == 0
    assert (
        query_coverage(split_words("what has the user done for this"), ["what the agent has for this"]) == 0
    )  # only small words


def test_errors_are_told_from_questions() -> None:
    assert looks_like_error("ModuleNotFoundError: No module named 'x'")
    assert looks_like_error("bash: pytets: command not found")
    assert not looks_like_error("which editor does Ada like?")


@pytest.mark.parametrize("error", ["error: no such table", "error: " + "a long reason of many words, " * 9])
def test_an_error_is_not_quoted_again_within_the_quote_of_its_solution(error: str) -> None:
    shown = error if len(error) <= 120 else error[:120] + "…"
    body = {"line": f"deploy failed: “{error}” → run `deploy --migrate` (worked in 2 of 2, in 2 sessions)"}
    row = SolutionRow("sol_1", "a", "p", "f", "Bash", error, True, 2, 2, "", body, NOON, NOON, None, None, "night")
    text = str(solution_item(row).data["text"])
    assert f"deploy failed: {shown} → run" in text
    assert "“" not in text
