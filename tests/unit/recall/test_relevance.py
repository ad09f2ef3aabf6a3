"""A document is about a prompt if they share words that tell something, not because it is the best there is."""

from __future__ import annotations

import pytest

from consolidator.memory.recall.relevance import PromptWords
from consolidator.memory.text.words import query_words

COUNTS = {"push": 300, "commit": 280, "fix": 400, "test": 350, "bug": 200, "branch": 120}
DOCUMENTS = 1000
REMARK = "The staging server heron runs PostgreSQL 15, never restart it during the day."


def covers(prompt: str, text: str) -> bool:
    """Whether a text is about a prompt, in a log of a thousand documents."""
    words = query_words(prompt)
    counts = {word: COUNTS.get(word, 2 if word in query_words(text) else 0) for word in words}
    return PromptWords.weigh(words, counts, DOCUMENTS).covers(text)


@pytest.mark.parametrize(
    "prompt",
    [
        "restart the staging server please",
        "which PostgreSQL does heron run?",
        "I want to change a lot of things today: colours, fonts, the logo, the menu; and restart heron on staging",
    ],
)
def test_rare_words_in_common_are_relevant(prompt: str) -> None:
    assert covers(prompt, REMARK)


@pytest.mark.parametrize(
    "prompt", ["fix the bug", "what is the weather in Paris?", "write a poem about a server", "go"]
)
def test_a_prompt_about_something_else_is_not(prompt: str) -> None:
    assert not covers(prompt, REMARK)


def test_words_that_every_session_has_tell_nothing() -> None:
    assert not covers("commit and push", "commit the fix and push the branch")


def test_an_empty_log_is_about_nothing() -> None:
    assert not PromptWords.weigh(["push"], {}, 0).covers("push")
