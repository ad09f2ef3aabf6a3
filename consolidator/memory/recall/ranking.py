"""Ranks documents by their words (BM25, Robertson and Zaragoza 2009), and turns together with their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from consolidator.memory.recall.postings import NUMBERS_PER_BLOCK, unpack_postings

K1, B = 1.2, 0.75
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
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
        return _rank(self.documents, self._weights(self.terms, self.counts, self.lengths), limit)

    def rank_with_neighbours(self, limit: int) -> Ints:
        """Return the same for documents read together with the one before and the one after; some may not exist."""
        hit_documents, first_hits = np.unique(self.documents, return_index=True)
        hit_lengths = self.lengths[first_hits]
        # A hit counts for its document and for both neighbours, but not across the border of a block.
        shifted = [self.documents + step for step in (0, -1, 1)]
        same_block = [self.documents // NUMBERS_PER_BLOCK == centres // NUMBERS_PER_BLOCK for centres in shifted]
        documents = np.concatenate([centres[inside] for centres, inside in zip(shifted, same_block, strict=True)])
        terms = np.concatenate([self.terms[inside] for inside in same_block])
        counts = np.concatenate([self.counts[inside] for inside in same_block])
        term_count = len(self.inverse_frequencies)
        keys, positions = np.unique(documents * term_count + terms, return_inverse=True)
        sums = np.bincount(positions, weights=counts)
        centres, terms = keys // term_count, keys % term_count
        average = self.corpus.average_length
        lengths = np.sum(
            [_length_of(hit_documents, hit_lengths, centres + step, average) for step in (-1, 0, 1)], axis=0
        )
        return _rank(centres, self._weights(terms, sums, lengths / 3), limit)

    def _weights(self, terms: Ints, counts: Ints | Floats, lengths: Floats) -> Floats:
        norm = K1 * (1 - B + B * lengths / self.corpus.average_length)
        weights: Floats = self.inverse_frequencies[terms] * counts * (K1 + 1) / (counts + norm)
        return weights


def _length_of(documents: Ints, lengths: Floats, wanted: Ints, average: float) -> Floats:
    """Return the lengths of the wanted documents: where a hit gives it that of the document, else the average."""
    positions = np.minimum(np.searchsorted(documents, wanted), len(documents) - 1)
    return np.where(documents[positions] == wanted, lengths[positions], average)


def _rank(numbers: Ints, weights: Floats, limit: int) -> Ints:
    documents, positions = np.unique(numbers, return_inverse=True)
    scores = np.bincount(positions, weights=weights)
    if len(documents) > limit:
        highest = np.argpartition(-scores, limit)[:limit]
        documents, scores = documents[highest], scores[highest]
    return documents[np.lexsort((documents, -scores))]
