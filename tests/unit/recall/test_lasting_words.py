"""Of a person's message only what it states is worth telling again: not its questions, nor what it asked for then."""

from __future__ import annotations

import pytest

from consolidator.memory.recall.lasting_words import lasting_sentences, tells_more, without_directories
from consolidator.memory.text.words import query_words


@pytest.mark.parametrize(
    "statement",
    [
        "The old renderer has to stay beside the new one until the release.",
        "Commit messages should use the imperative, without a prefix or a ticket.",
    ],
)
def test_norms_last(statement: str) -> None:
    assert lasting_sentences(f"ok.\n{statement}") == [statement]


@pytest.mark.parametrize(
    "message",
    [
        "Work on ticket web-17. Run bd show web-17 to see the details and start with the first ready task.",
        "can we make the selector of the settings page more concise?",
        "let's tackle the new main file of the coding agent now",
        "I want you to move those components to their final folder",
        "this looks amazing to me, start implementing",
        "you haven't read the whole renderer file in full I suppose",
        "why do you read the renderer a hundred lines at a time",
        "if we could get rid of the coupling, then the session could be shared by all modes",
        "Error: ENOENT: no such file or directory, open '/srv/app/packages/agent/package.json'",
        "selectSession() function of the picker",
        "for commits of the agent we have the full change, and for manual ones too",
        "git-sync on main via go 1.26 took one minute",
        "```\nthe server heron runs PostgreSQL 15 behind the old balancer\n```",
    ],
)
def test_what_was_asked_for_or_only_shown_does_not(message: str) -> None:
    assert lasting_sentences(message) == []


def test_a_path_is_its_last_part() -> None:
    assert without_directories("read @packages/agent/src/main.ts and ~/notes/today.md").split() == [
        "read", "main.ts", "and", "today.md",
    ]  # fmt: skip


def test_what_the_prompt_says_itself_tells_nothing() -> None:
    prompt = frozenset(query_words("the staging server heron runs PostgreSQL 15"))

    assert not tells_more("heron runs PostgreSQL 15 on the staging server", prompt)
    assert tells_more("heron must never be restarted during the day", prompt)
