"""Words of a question are shown as they were asked, though their stems are searched."""

from __future__ import annotations

from consolidator.memory.recall.fusion import spell_words
from consolidator.memory.text.words import query_words


def test_a_stem_is_spelled_as_the_question_has_it() -> None:
    question = "Which package managers don't we use for packages in the userController?"
    spelled = spell_words(question, query_words(question))
    assert spelled["packag"] == "package"  # as it comes first
    assert spelled["manag"] == "managers"
    assert spelled["control"] == "userController"
    assert all(word in question for word in spelled.values())


def test_a_word_that_the_question_lacks_stays_as_it_is() -> None:
    assert spell_words("Where?", ["elsewher"]) == {"elsewher": "elsewher"}
