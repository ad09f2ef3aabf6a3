"""Facts refused for a wrong quote are asked for once more, with the lines that they cite alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from consolidator.memory.facts.questions.quote_repair import QuoteRepair, plan_repair
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
from tests.oracle import fact_json

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
WORDS = ["Hello there.", "Remenber, I live in Berne now.", "Fine.", "Tea is nice.", "My sister has a dog.", "Bye now."]
CHUNK = TranscriptChunk(tuple(TranscriptLine(seq, "P", words, NOON) for seq, words in enumerate(WORDS, 1)))
RIGHT = fact_json("P4", "Tea is nice", "likes", "tea", "The user likes tea.", "preference")
WRONG = fact_json("P2", "Remember, I live in Bern", "lives_in", "Bern", "The user lives in Bern.", "profile")
UNKNOWN = fact_json("P77", "I live", "lives_in", "Kiel", "The user lives in Kiel.", "profile")


def plan(*facts: dict[str, Any]) -> QuoteRepair:
    repair = plan_repair(CHUNK, {"facts": list(facts)})
    assert repair is not None
    return repair


def test_only_the_lines_around_the_wrong_quotes_are_shown_again() -> None:
    repair = plan(RIGHT, WRONG, UNKNOWN)
    assert [line.text for line in repair.chunk.lines] == WORDS[:3]
    assert [(fact["value"], fact["line"]) for fact in repair.wrong_items["facts"]] == [("Bern", "P2")]
    (_, answer), (_, request) = repair.turns()
    assert json.loads(answer) == {"facts": [WRONG]}
    assert 'P2 does not hold "Remember, I live in Bern"' in request


def test_names_are_those_of_the_second_question_and_then_of_the_first() -> None:
    late = fact_json("P5", "my brother has a dog", "has_sibling", "sister", "The user has a sister.", "relation")
    repair = plan(late)
    assert repair.wrong_items["facts"][0]["line"] == "P2"
    mended = {**late, "line": "P2", "quote": "My sister has a dog"}
    assert repair.merge({"facts": [mended]})["facts"] == [{**late, "quote": "My sister has a dog"}]


def test_what_is_not_mended_stays_refused_and_nothing_is_added() -> None:
    repair = plan(RIGHT, WRONG)
    another = fact_json("P1", "Hello there", "greets", "politely", "The user greets.", "profile")
    for answer in ([], [WRONG], [another], [{**WRONG, "line": "P9", "quote": "x"}]):
        assert repair.merge({"facts": answer})["facts"] == [RIGHT, WRONG]


def test_right_quotes_need_no_second_question() -> None:
    assert plan_repair(CHUNK, {"facts": [RIGHT, UNKNOWN]}) is None


def test_an_observation_with_a_wrong_quote_is_asked_for_once_more() -> None:
    lines = (
        TranscriptLine(1, "P", "Go on.", NOON),
        TranscriptLine(2, "F", "no such table: orders", NOON),
        TranscriptLine(3, "A", "The table is only there after `make seed`.", NOON),
        TranscriptLine(4, "S", "The parser lives in `src/parse.py`.", NOON),
    )
    chunk = TranscriptChunk(lines)
    right = {"kind": "structure", "moment": "m", "line": "S1", "quote": "src/parse.py", "sentence": "The parser."}
    wrong: dict[str, Any] = {
        "kind": "failure",
        "moment": "when seeding",
        "line": "F1",
        "quote": "the orders table is missing",
    }
    wrong |= {"proof": ["F1"], "sentence": "The table is there after `make seed`."}
    answer = {"facts": [], "observations": [right, wrong]}
    repair = plan_repair(chunk, answer)
    assert repair is not None
    assert 'F1 does not hold "the orders table is missing"' in repair.turns()[1][1]
    (asked,) = repair.wrong_items["observations"]
    mended = {**asked, "quote": "no such table: orders", "proof": []}
    assert repair.merge({"facts": [], "observations": [mended]}) == {
        "facts": [],
        "observations": [right, {**wrong, "quote": "no such table: orders"}],
    }
    assert repair.merge({"facts": []}) == answer
