"""Sentences that say the same in other words are told from those that only look alike."""

from __future__ import annotations

import pytest

from consolidator.memory.text.similarity import SIMILAR, details_agree, is_same_value, lost_details, word_overlap

SAME = [
    ("The user lives in Bern.", "Bern is where the user lives."),
    ("The project runs on PostgreSQL 18.1.", "PostgreSQL 18.1 is what the project runs on."),
    ("Mails go out through SendGrid.", "Mails go out through sendgrid."),
    ("Staging is at stage-3.example.org", "stage-3.example.org is staging"),
]
OTHER = [
    ("The team deploys on Fridays.", "The team never deploys on Fridays."),
    ("PostgreSQL is 18.1.", "PostgreSQL is 18.2."),
    ("Ann works at Acme.", "Ann worked at Acme."),
    ("The user lives in Bern.", "The user lives in Basel."),
    ("Der Nutzer wohnt in Bern.", "Der Nutzer wohnt nicht in Bern."),
    ("The user likes Python for scripts at work.", "The user hates Python for scripts at work."),
    ("The user eats peanuts with tea.", "The user avoids peanuts with tea."),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_paraphrases_agree(first: str, second: str) -> None:
    assert details_agree(first, second)
    assert details_agree(second, first)
    assert word_overlap(first, second) >= SIMILAR


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_what_differs_in_a_number_a_name_a_denial_or_its_time_does_not_agree(first: str, second: str) -> None:
    assert not details_agree(first, second)
    assert word_overlap(first, second) >= SIMILAR  # so somebody looks


def test_what_a_sentence_would_lose_is_named() -> None:
    assert lost_details("The server is db-7 since 2024.", "The server is a database.") == "2024, 7"
    assert (
        lost_details("My home is in Bern.", "Bern is where I live.") is None
    )  # a sentence begins with a capital anyway
    assert lost_details("Ann lives in Bern.", "Ann lives by the river in Bern.") is None


def test_values_are_compared_by_their_words_in_order() -> None:
    assert is_same_value("short answers", "Short answers.")
    assert not is_same_value("Ann to Bob", "Bob to Ann")
