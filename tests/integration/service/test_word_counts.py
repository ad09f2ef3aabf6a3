"""How many documents have a word: counted where they are few, in a sample where they are many."""

from __future__ import annotations

import pytest

from consolidator.database import Database
from consolidator.memory.recall.postings import FACT, pack_postings
from consolidator.memory.text.words import word_key
from consolidator.store.search import index

RARE, COMMON, SCOPE, OTHER = "rare", "common", 7, 8
HELD = {RARE: 1500, COMMON: 9000}  # documents with the word
SIZE = 20_000


async def count_documents(database: Database, *, scopes: tuple[int, ...] = (SCOPE,)) -> dict[str, int]:
    """Write the words' postings, and return how many documents a search says that each has, in all scopes together."""
    written = [
        (key, SCOPE, posting)
        for word, count in HELD.items()
        for number in range(1, 1 + count)
        for key, posting in pack_postings(FACT, number, {word: 1 + number % 3})
    ]
    async with database.connection() as conn:
        await index.add_postings(conn, written)
        keys = {word_key(FACT, word): word for word in HELD}
        found = await index.search_words(conn, list(keys), scopes, dict.fromkeys(scopes, SIZE))
    return {keys[key]: count for key, _, count in found}


async def test_a_rare_word_is_counted_and_a_common_one_in_a_sample(database: Database) -> None:
    counts = await count_documents(database)
    assert counts[RARE] == HELD[RARE]
    assert counts[COMMON] == pytest.approx(HELD[COMMON], rel=0.2)


async def test_a_word_of_which_even_the_sample_has_too_many_is_estimated_between_it_and_all_documents(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "SAMPLE_LIMIT", 100)
    counts = await count_documents(database)
    assert 100 * index.SAMPLE_SHARE < counts[COMMON] < SIZE
    assert counts[RARE] == HELD[RARE]


async def test_a_word_is_never_said_to_be_in_fewer_documents_than_are_returned(database: Database) -> None:
    scopes = (SCOPE, *range(OTHER, OTHER + 40))  # so that few documents of each are read
    counts = await count_documents(database, scopes=scopes)
    assert counts[RARE] >= 200
    assert counts[COMMON] == pytest.approx(HELD[COMMON], rel=0.2)
