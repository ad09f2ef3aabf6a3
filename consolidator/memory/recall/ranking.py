"""Ranks documents by their words (BM25, Robertson and Zaragoza 2009), and turns together with their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from consolidator.memory.recall.postings import NUMBERS_PER_BLOCK, unpack_postings

K1, B = 1.2, 0.75
REACH, DECAY = 5, 0.8  # documents on each side that are read with one, and the share of each further one
MAX_NEIGHBOURHOODS = 1000  # documents with words of a query that are read with those around them
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Scored = tuple[Ints, Floats]  # documents, the best first, and their scores


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """How many documents of a kind there are, and how many words they have in all."""

    document_count: int
    word_count: int

    @property
    def average_length(self) -> float:
        """The average number of words of a document, at least 1."""
        return max(self.word_count / max(self.document_count, 1), 1.0)

    def inverse_frequency(self, documents_with_word: int) -> float:
        """Return the inverse document frequency of a word: how much it tells."""
        without_word = max(self.document_count - documents_with_word, 0.0)
        return math.log1p(without_word / (documents_with_word + 0.5) + 0.5 / (documents_with_word + 0.5))


@dataclass(frozen=True, slots=True)
class TermPostings:
    """A word of a query, and the documents that have it."""

    key: int
    document_count: int  # at least as many as there are postings
    postings: Ints  # packed, as the index keeps them


@dataclass(frozen=True)
class Hits:
    """Where the words of a query are: parallel arrays with one entry for each word in each document."""

    documents: Ints  # numbers
    terms: Ints  # positions of the words in the query
    counts: Ints
    lengths: Floats  # of the documents, in words
    inverse_frequencies: Floats  # by term
    corpus: CorpusStatistics

    @classmethod
    def from_terms(cls, terms: Sequence[TermPostings], corpus: CorpusStatistics) -> Hits | None:
        """Return the hits of a query's words; None where there are none."""
        terms = [term for term in terms if len(term.postings)]
        if not terms:
            return None
        documents, counts, lengths = unpack_postings(np.concatenate([term.postings for term in terms]))
        positions = np.repeat(np.arange(len(terms)), [len(term.postings) for term in terms])
        inverse_frequencies = np.array([corpus.inverse_frequency(term.document_count) for term in terms])
        return cls(documents, positions, counts, lengths, inverse_frequencies, corpus)

    def rank_documents(self, limit: int) -> Ints:
        """Return the numbers of the documents that fit best, the best first."""
        return self.score_documents(limit)[0]

    def score_documents(self, limit: int) -> Scored:
        """Return the numbers of the documents that fit best, the best first, and their scores."""
        return _sort_best(*self._scored[:2], limit)

    @cached_property
    def _scored(self) -> tuple[Ints, Floats, Ints]:
        """Each document once, its score, and the position of each hit's document among them."""
        return _sum_weights(self.documents, self._weights(self.terms, self.counts, self.lengths))

    def score_neighbourhoods(self, limit: int) -> Scored:
        """Return the same for documents read together with those around them; some of the documents may not exist.

        A word counts for the documents near it, the less the farther away, and never across the border of a block: the
        positional language model of Lv and Zhai (2009), with turns as positions. Of many documents that have words of
        the query, those that fit best by themselves are read.
        """
        numbers, scores, places = self._scored
        is_best = np.zeros(len(numbers), dtype=bool)
        is_best[_find_highest(scores, MAX_NEIGHBOURHOODS)] = True
        best = is_best[places]
        documents, terms, counts = self.documents[best], self.terms[best], self.counts[best]
        steps = np.arange(-REACH, REACH + 1)
        shares = DECAY ** np.abs(steps)
        centres = documents[:, None] + steps
        inside = centres // NUMBERS_PER_BLOCK == (documents // NUMBERS_PER_BLOCK)[:, None]
        candidates, positions = np.unique(centres[inside], return_inverse=True)
        term_count = len(self.inverse_frequencies)
        cells = positions * term_count + np.broadcast_to(terms[:, None], centres.shape)[inside]
        weights = (counts[:, None] * shares)[inside]
        sums = np.bincount(cells, weights=weights, minlength=len(candidates) * term_count)
        filled = np.flatnonzero(sums)
        rows, columns = filled // term_count, filled % term_count
        neighbourhood_lengths = self._neighbourhood_lengths(documents, self.lengths[best], candidates)
        weights = self._weights(columns, sums[filled], neighbourhood_lengths[rows])
        return _sort_best(*_sum_weights(candidates[rows], weights)[:2], limit)

    def _neighbourhood_lengths(self, documents: Ints, lengths: Floats, candidates: Ints) -> Floats:
        """Return the mean length of the documents around each candidate; a document without a hit has the average."""
        hit_documents, first_hits = np.unique(documents, return_index=True)
        hit_lengths, average = lengths[first_hits], self.corpus.average_length
        sums, total = np.zeros(len(candidates)), 0.0
        for step in range(-REACH, REACH + 1):
            share = DECAY ** abs(step)
            near = candidates + step
            positions = np.minimum(np.searchsorted(hit_documents, near), len(hit_documents) - 1)
            sums += share * np.where(hit_documents[positions] == near, hit_lengths[positions], average)
            total += share
        return sums / total

    def _weights(self, terms: Ints, counts: Ints | Floats, lengths: Floats) -> Floats:
        norm = K1 * (1 - B + B * lengths / self.corpus.average_length)
        weights: Floats = self.inverse_frequencies[terms] * counts * (K1 + 1) / (counts + norm)
        return weights


def _sum_weights(numbers: Ints, weights: Floats) -> tuple[Ints, Floats, Ints]:
    documents, positions = np.unique(numbers, return_inverse=True)
    scores: Floats = np.bincount(positions, weights=weights).astype(np.float64)
    return documents, scores, positions


def _find_highest(scores: Floats, limit: int) -> Ints:
    """Return the positions of the highest scores, in no order."""
    return np.arange(len(scores)) if len(scores) <= limit else np.argpartition(-scores, limit)[:limit]


def _sort_best(documents: Ints, scores: Floats, limit: int) -> Scored:
    highest = _find_highest(scores, limit)
    documents, scores = documents[highest], scores[highest]
    order = np.lexsort((documents, -scores))
    return documents[order], scores[order]
