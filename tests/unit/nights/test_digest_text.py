"""The text of a digest: what comes first, what is left out, and that no word of a log does anything in it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC
from typing import Any

from consolidator.models.fact import FactRow
from consolidator.models.procedure import ProcedureRow
from consolidator.models.session import SteerCounts
from consolidator.service.memory.rules import RuleProposal
from consolidator.service.nights.night_digest import MAX_CHARS, MAX_LINES, NightDigest, compose_digest
from consolidator.store.memory.learned import FailedAgainRow, LearnedNews, WaitingCountsRow
from tests.conftest import NOON


def row_of(row_type: Any, **values: Any) -> Any:
    """Return a row with nothing but some values."""
    names = [field.name for field in fields(row_type) if field.init]
    return row_type(**{**dict.fromkeys(names), **values})


def fact(sentence: str, **values: Any) -> FactRow:
    row: FactRow = row_of(FactRow, **{"id": "f", "sentence": sentence, "sessions": 1, "agent": "coder", **values})
    return row


def again(line: str) -> FailedAgainRow:
    row: FailedAgainRow = row_of(FailedAgainRow, id="s", body={"line": line}, times=2, in_sessions=1, agent="coder")
    return row


NOTHING = LearnedNews(NOON, None, SteerCounts(), [], [], [], [], [], [], 10, {}, WaitingCountsRow(0, 0, 0, 0))


def compose(news: LearnedNews, rules: tuple[RuleProposal, ...] = (), **told_waiting: int) -> NightDigest | None:
    return compose_digest(news, rules, told_waiting=told_waiting, now=NOON, zone=UTC)


def body(news: LearnedNews, rules: tuple[RuleProposal, ...] = ()) -> str:
    digest = compose(news, rules)
    assert digest is not None
    return digest.body


def test_what_matters_most_comes_first() -> None:
    rule = RuleProposal("r", "Read files in full.", 3, "coder", None, None, False, [])
    procedure = row_of(ProcedureRow, id="p", title="build, then test", support=4, agent="coder")
    news = replace(
        NOTHING,
        facts=[fact("Tea is green.", peer="stranger:01ABCDEFGHIJ"), fact("Port 80 is used.", sessions=4)],
        procedures=[procedure],
        failed_again=[again("push failed")],
        waiting=WaitingCountsRow(to_review=0, flagged=0, dead_letters=2, calls=0, rules=1),
    )
    text = body(news, (rule,))
    order = ["push failed", "1 rule that", "“Read files in full.”", "2 events that", "Port 80", "build, then", "Tea is"]
    assert sorted(order, key=text.index) == order
    assert "(1 session, somebody unnamed, session 01ABCDEF)" in text
    digest = compose(news)
    assert digest is not None
    assert digest.title == "What your agents learned by 2026-03-02: 3 new, 1 failed again, 3 waiting"


def test_only_more_that_waits_than_was_told_is_news() -> None:
    news = replace(NOTHING, waiting=WaitingCountsRow(to_review=2, flagged=0, dead_letters=0, calls=0))
    assert compose(NOTHING) is None
    assert compose(news) is not None
    assert compose(news, to_review=2) is None
    assert compose(news, to_review=1) is not None


def test_everything_has_a_bound() -> None:
    facts = [fact(f"Fact {number} " + "x" * 5000) for number in range(10)]
    text = body(replace(NOTHING, facts=facts, more={"facts": 90}))
    assert text.count("\n- Fact ") == MAX_LINES
    assert f"- and {100 - MAX_LINES} more" in text
    assert max(map(len, text.splitlines())) < MAX_CHARS + 100


def test_no_word_of_a_log_does_anything() -> None:
    hostile = "@everyone <!channel> [pay](https://evil.example) `rm`\n# Title\n- item\x1b[31m\u202e " + (
        "password=hunter2hunter2 a@example.com"
    )
    (line,) = [line for line in body(replace(NOTHING, facts=[fact(hostile)])).splitlines() if "everyone" in line]
    assert line.startswith("- ＠everyone ‹!channel› (pay)(https //evil.example) 'rm' # Title - item")
    assert not {"\x1b", "\u202e"} & set(line)
    assert "hunter2" not in line
    assert "a@example.com" in line
