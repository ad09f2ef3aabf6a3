"""Decides whether a document is about a prompt at all: recall ranks what it finds, and its best may be nothing.

A word tells as much as it is rare (inverse document frequency). A document is relevant if it shares several words with
the prompt that together tell enough, and that are either most of what the prompt says or a good deal by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consolidator.memory.text.words import query_words

MIN_SHARED_WORDS = 2
MIN_SHARED_WEIGHT = 1.2  # in units of a word that only one document has
MIN_COVERAGE = 0.5  # of the weight of the prompt's words
ENOUGH_WEIGHT = 2.5  # in the same units: whatever else the prompt says


@dataclass(frozen=True, slots=True)
class PromptWords:
    """The words that say what a prompt is about, and how much each tells."""

    weights: Mapping[str, float]
    unit: float  # the weight of a word that only one document has

    @classmethod
    def weigh(cls, words: Sequence[str], documents_with: Mapping[str, int], documents: int) -> PromptWords:
        """Weigh the words of a prompt; `documents_with` counts the documents that have each, of `documents` in all."""
        largest = max(documents, *documents_with.values(), 1)
        weights = {word: _tell(documents_with.get(word, 0), largest) for word in dict.fromkeys(words)}
        return cls(weights, _tell(1, largest))

    @property
    def words(self) -> frozenset[str]:
        """The words themselves."""
        return frozenset(self.weights)

    def covers(self, text: str) -> bool:
        """Tell whether a text is about the prompt."""
        shared = self.weights.keys() & set(query_words(text))
        weight = sum(self.weights[word] for word in shared)
        if len(shared) < MIN_SHARED_WORDS or weight < MIN_SHARED_WEIGHT * self.unit:
            return False
        return weight >= ENOUGH_WEIGHT * self.unit or weight >= MIN_COVERAGE * sum(self.weights.values())


def _tell(documents_with: int, documents: int) -> float:
    return math.log1p(documents / (documents_with + 0.5))
