"""A document is about a prompt if they share words that tell something, not because it is the best there is."""

from __future__ import annotations

import pytest

from consolidator.memory.recall.block import RecallItem
from consolidator.memory.recall.relevance import (
    MIN_DOCUMENTS,
    MIN_DOCUMENTS_OF_PROMPT,
    PromptWords,
    drop_narration,
    has_answer,
    subject_words,
    without_directories,
)
from consolidator.memory.text.words import query_words, split_words
from consolidator.service.memory.recall import MIN_LESSON_COVERAGE

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


@pytest.mark.parametrize(("found_in", "is_about"), [(1, True), (4, True), (80, False)])
def test_in_a_small_log_rare_words_are_relevant_and_common_ones_are_not(found_in: int, is_about: bool) -> None:
    words = query_words("install the packages with pnpm please")
    weighed = PromptWords.weigh(words, dict.fromkeys(words[1:], found_in), MIN_DOCUMENTS_OF_PROMPT)
    assert weighed.covers("We use pnpm for packages.") is is_about


def test_an_empty_log_is_about_nothing() -> None:
    assert not PromptWords.weigh(["push"], {}, 0).covers("push")


LOG = ["Jon said he opened a dance studio", "Gina said she sells clothes online", "Jon said rehearsals are on Mondays"]


def answers(question: str, *texts: str) -> bool:
    """Whether texts that belong together may answer a question, in a log of three turns."""
    words = subject_words(query_words(question))
    counts = {word: sum(word in split_words(text) for text in LOG) for word in words}
    return PromptWords.weigh(words, counts, MIN_DOCUMENTS).may_be_answered_by(texts)


@pytest.mark.parametrize("question", ["Which studio did Jon open?", "studio", "On 23 May 2023, what did Jon open?"])
def test_a_text_with_most_words_of_a_question_may_answer_it(question: str) -> None:
    assert answers(question, LOG[0])


def test_texts_near_each_other_answer_a_question_together() -> None:
    assert not answers("Are the rehearsals of the dance studio on Sundays?", LOG[2])
    assert answers("Are the rehearsals of the dance studio on Sundays?", LOG[0], LOG[2])


@pytest.mark.parametrize("question", ["Which bank gave Jon his mortgage?", "What is the studio's wifi password?"])
def test_a_text_that_shares_the_name_alone_answers_nothing(question: str) -> None:
    assert not answers(question, LOG[0])


@pytest.mark.parametrize(
    ("kind", "question", "is_answered"),
    [
        ("fact", "Which editor do I like?", True),
        ("fact", "editor or notebook for drafts?", True),
        ("episode", "Which editor do I like?", False),
        ("fact", "Which editor theme did the mobile team choose?", False),
    ],
)
def test_a_third_of_a_short_question_is_much_for_a_fact(kind: str, question: str, is_answered: bool) -> None:
    words = subject_words(query_words(question))
    item = RecallItem(kind, "[fact:1]", "", searched="favourite editor Helix")
    weighed = PromptWords.weigh(words, {"editor": 1}, MIN_DOCUMENTS)
    assert has_answer(weighed, [item]) is is_answered


@pytest.mark.parametrize(
    ("question", "turn", "is_told"),
    [
        ("How is the local database deleted?", "How is the local database deleted?", False),
        ("How is the local database deleted?", "how do we delete the local database?", False),
        ("How is the local database deleted?", "Why is the local database deleted with `make clean-db`?", True),
        ("Which package manager, npm or pnpm?", "Use pnpm.", True),
        ("What does the plan implement?", "Implement the plan.", False),
        ("What does the plan implement?", "Implement the plan for refunds.", True),
        ("ローカルの D1 はどうやって消すか", "ローカルの D1 はどうやって消すか？", False),
        ("ローカルの D1 はどうやって消すか", "やってみて", False),
    ],
)
def test_a_turn_that_asks_the_same_or_says_only_go_ahead_is_no_answer(question: str, turn: str, is_told: bool) -> None:
    weighed = PromptWords.weigh(subject_words(query_words(question)), {}, MIN_DOCUMENTS)
    item = RecallItem("episode", "[s:1]", "", data={"text": turn, "role": "user"}, searched=turn)
    assert bool(drop_narration(weighed, [item], is_question=True)) is is_told


def test_of_a_long_turn_the_sentences_about_the_question_are_told() -> None:
    words = query_words("where does the billing service keep its receipts")
    prompt = PromptWords.weigh(words, {}, DOCUMENTS)
    told = "The billing service keeps its receipts in the folder archive."
    text = "\n".join(["Everything is green now, and the branch was pushed.", told, *["- renamed a file"] * 40])
    assert prompt.excerpt(text, 80) == told
    assert prompt.excerpt(told, 80) == told


def test_a_path_is_its_last_part() -> None:
    assert without_directories("read @packages/agent/src/main.ts and ~/notes/today.md").split() == [
        "read", "main.ts", "and", "today.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "purpose", "is_answered"),
    [
        ("How are the tests and the linter run?", "test", True),
        ("How are the tests and the linter run?", "lint", True),
        ("Which command runs the linter?", "lint", True),
        ("Which command runs the linter?", "test", False),
        ("How do I run the dev server?", "test", False),
        ("Why do the tests of the payment gateway fail on Fridays?", "test", False),
    ],
)
def test_a_question_for_commands_is_answered_by_what_each_is_for(
    question: str, purpose: str, is_answered: bool
) -> None:
    line = {"test": "Tests: `uv run pytest` (worked 9 of 9).", "lint": "Lint: `make style`."}[purpose]
    words = PromptWords.weigh(query_words(question), COUNTS, DOCUMENTS)
    assert (words.coverage_by(line, purpose) >= MIN_LESSON_COVERAGE) is is_answered
