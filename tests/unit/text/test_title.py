"""A session's title is the first words that a person said, on one short line."""

from __future__ import annotations

import pytest

from consolidator.llm.redaction.redact import redact
from consolidator.memory.text.title import MAX_TITLE_LENGTH, title_of

KEY = "sk-proj-" + "Ab3dEf9hIj" * 4


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        (["# Fix the login page\n\nIt fails."], "Fix the login page It fails."),
        (["", "…", "deploy it"], "deploy it"),
        (["<system-reminder>\nA hook ran.\n</system-reminder>\nWhy is it slow?"], "Why is it slow?"),
        (["<system-reminder>\nA hook ran, and its output is cut", "Why is it slow?"], "Why is it slow?"),
        (["> quoted mail\n", "an answer"], "an answer"),
        (["> only a quotation"], "only a quotation"),
        (["<private>our salary list</private> sort it"], "sort it"),
        (["<recalled-memory>\nfact\n</recalled-memory>\nnext step"], "next step"),
        ([], None),
        (["<private>all of it"], None),
    ],
)
def test_the_first_own_words(messages: list[str], title: str | None) -> None:
    assert title_of(messages, redact) == title


def test_a_long_message_is_cut_at_a_word_and_holds_no_secret() -> None:
    title = title_of([f"use {KEY} to " + "write the release notes " * 9], redact)
    assert title is not None
    assert len(title) <= MAX_TITLE_LENGTH
    assert title.endswith("…")
    assert KEY[:12] not in title
    assert title.rstrip("…").split()[-1] in {"to", "write", "the", "release", "notes"}
    assert title_of(["x" * 500], redact) == "x" * (MAX_TITLE_LENGTH - 1) + "…"
