"""Postings: what the index keeps of a word in a document, packed into 63 bits so that the weightiest sort first.

From the top: 127 minus the weight (7 bits), the count in the document minus 1 (4), the document's length on a
logarithmic scale (6), the document's number (46). The turns of a session have consecutive numbers, so that neighbours
are known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from consolidator.memory.text.words import word_key

TURN, FACT = "turn", "fact"  # kinds of documents
NUMBERS_PER_BLOCK = 1 << 12  # consecutive numbers that a session takes for its turns at once
MAX_INDEXED_WORDS = 300  # different words of a document that are indexed: the most frequent, then the first
Array = npt.NDArray[np.int64]
_NUMBER_BITS = 46
_STEPS_PER_DOUBLING = 5.7  # of the length: 63 steps are 2,100 words
_AVERAGE_LENGTH = {TURN: 30.0, FACT: 12.0}  # words of a document: constant, so that a weight is equal in every scope


def pack_postings(kind: str, number: int, word_counts: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return (word key, posting) for each word of a document."""
    total = sum(word_counts.values())
    length = min(63, round(math.log2(max(total, 1)) * _STEPS_PER_DOUBLING))
    is_long = len(word_counts) > MAX_INDEXED_WORDS
    indexed = Counter(word_counts).most_common(MAX_INDEXED_WORDS) if is_long else word_counts.items()
    by_count: dict[int, int] = {}  # the posting of a word that the document has so often
    postings = []
    for word, count in indexed:
        capped = min(count, 16)
        posting = by_count.get(capped)
        if posting is None:
            weight = capped / (capped + 1.2 * (0.25 + 0.75 * total / _AVERAGE_LENGTH[kind]))
            posting = (127 - round(weight * 127)) << 56 | (capped - 1) << 52 | length << _NUMBER_BITS | number
            by_count[capped] = posting
        postings.append((word_key(kind, word), posting))
    return postings


def unpack_postings(postings: Array) -> tuple[Array, Array, npt.NDArray[np.float64]]:
    """Return the numbers of the documents, the counts of the word in them, and their lengths in words."""
    numbers = postings & ((1 << _NUMBER_BITS) - 1)
    counts = ((postings >> 52) & 15) + 1
    lengths = np.exp2(((postings >> _NUMBER_BITS) & 63) / _STEPS_PER_DOUBLING)
    return numbers, counts, lengths
