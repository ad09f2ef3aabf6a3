"""Ranks documents by their words (BM25, Robertson and Zaragoza 2009), and turns together with their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from consolidator.memory.recall.postings import BLOCK, unpacked

K1, B = 1.2, 0.75
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """How many documents of a kind there are, and how many words they have in all."""

    documents: int
    words: int

    @property
    def usual(self) -> float:
        """The usual length of a document."""
        return max(self.words / max(self.documents, 1), 1.0)

    def rarity(self, documents: int) -> float:
        """Return how much a word tells that so many documents have."""
        return math.log1p(max(self.documents - documents, 0.0) / (documents + 0.5) + 0.5 / (documents + 0.5))


@dataclass(frozen=True, slots=True)
class Found:
    """A word of a query, and where it stands."""

    word: int
    documents: int  # in how many documents, at least as many as there are refs
    refs: Ints


@dataclass(frozen=True, slots=True)
class Hits:
    """Where the words of a query stand, one row for each word in each document."""

    numbers: Ints
    terms: Ints
    often: Ints
    lengths: Floats
    rarities: Floats  # by term
    corpus: CorpusStatistics

    @classmethod
    def of(cls, found: Sequence[Found], corpus: CorpusStatistics) -> Hits | None:
        """Return the hits of a query's words; None where there are none."""
        found = [one for one in found if len(one.refs)]
        if not found:
            return None
        numbers, often, lengths = unpacked(np.concatenate([one.refs for one in found]))
        terms = np.repeat(np.arange(len(found)), [len(one.refs) for one in found])
        rarities = np.array([corpus.rarity(one.documents) for one in found])
        return cls(numbers, terms, often, lengths, rarities, corpus)

    def best(self, most: int) -> Ints:
        """Return the numbers of the documents that fit best, the best first."""
        return _best(self.numbers, self._weights(self.terms, self.often, self.lengths), most)

    def best_with_neighbours(self, most: int) -> Ints:
        """Return the same for documents read together with the one before and the one after; some may not exist."""
        places, where = np.unique(self.numbers, return_index=True)
        lengths = self.lengths[where]
        moved = [self.numbers + step for step in (0, -1, 1)]
        inside = [self.numbers // BLOCK == one // BLOCK for one in moved]
        numbers = np.concatenate([one[fits] for one, fits in zip(moved, inside, strict=True)])
        terms = np.concatenate([self.terms[fits] for fits in inside])
        often = np.concatenate([self.often[fits] for fits in inside])
        keys, back = np.unique(numbers * len(self.rarities) + terms, return_inverse=True)
        counts = np.bincount(back, weights=often)
        centres, terms = keys // len(self.rarities), keys % len(self.rarities)
        total = np.sum([_known(places, lengths, centres + step, self.corpus.usual) for step in (-1, 0, 1)], axis=0)
        return _best(centres, self._weights(terms, counts, total / 3), most)

    def _weights(self, terms: Ints, often: Ints | Floats, lengths: Floats) -> Floats:
        norm = K1 * (1 - B + B * lengths / self.corpus.usual)
        weights: Floats = self.rarities[terms] * often * (K1 + 1) / (often + norm)
        return weights


def _known(places: Ints, lengths: Floats, wanted: Ints, usual: float) -> Floats:
    """Return the lengths of documents where a hit told them, else the usual length."""
    at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
    return np.where(places[at] == wanted, lengths[at], usual)


def _best(numbers: Ints, weights: Floats, most: int) -> Ints:
    documents, back = np.unique(numbers, return_inverse=True)
    scores = np.bincount(back, weights=weights)
    if len(documents) > most:
        some = np.argpartition(-scores, most)[:most]
        documents, scores = documents[some], scores[some]
    return documents[np.lexsort((documents, -scores))]
