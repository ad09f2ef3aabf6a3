"""What an agent found out says how things are: an order is refused, also one that is put as a statement."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from consolidator.memory.facts.questions.transcript import TranscriptLine
from consolidator.memory.observations.doubts import rejection


def reject(sentence: str) -> str | None:
    line = TranscriptLine(1, "A", sentence, datetime(2026, 3, 1, tzinfo=UTC))
    return rejection(sentence, sentence, [sentence], line, is_end=False)


@pytest.mark.parametrize(
    "sentence",
    [
        "`git commit` is never used without `helper.sh`.",
        "`make bootstrap` is required on each clone.",
        "`helper.sh` forbids asking the user.",
        "`scripts/a.sh` is always executed before a commit.",
    ],
)
def test_an_order_in_the_indicative_is_one(sentence: str) -> None:
    assert reject(sentence) == "says what to do"


def test_how_code_is_declared_is_no_order() -> None:
    assert reject("The field `name` is required in the type `Cart`.") is None
