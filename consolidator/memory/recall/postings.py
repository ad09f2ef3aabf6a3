"""What the index keeps of a word in a document, packed into 63 bits so that the weightiest come first.

From the top: how little it weighs (7 bits), how often it stands there (4), the document's length (6, on a logarithmic
scale), the document's number (46). Turns of a session have numbers in a row, so that neighbours are known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from consolidator.memory.text.words import word_key

TURN, FACT = "turn", "fact"
BLOCK = 1 << 12  # turns of a session that are numbered in a row
MOST_WORDS = 300  # different words of a document that are indexed: the most frequent, then the first
Array = npt.NDArray[np.int64]
_DOCUMENT = 46
_STEPS = 5.7  # steps of length for each doubling: 63 are 2,100 words
_USUAL = {TURN: 30.0, FACT: 12.0}  # words of a document, for weights that are the same in every scope


def packed(kind: str, number: int, words: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return (key, packed) of each word of a document."""
    total = sum(words.values())
    length = min(63, round(math.log2(max(total, 1)) * _STEPS))
    kept = Counter(words).most_common(MOST_WORDS) if len(words) > MOST_WORDS else words.items()
    found = []
    for word, count in kept:
        often = min(count, 16)
        weight = often / (often + 1.2 * (0.25 + 0.75 * total / _USUAL[kind]))
        ref = (127 - round(weight * 127)) << 56 | (often - 1) << 52 | length << _DOCUMENT | number
        found.append((word_key(kind, word), ref))
    return found


def unpacked(refs: Array) -> tuple[Array, Array, npt.NDArray[np.float64]]:
    """Return the numbers of documents, how often a word stands in each, and their lengths."""
    numbers = refs & ((1 << _DOCUMENT) - 1)
    often = ((refs >> 52) & 15) + 1
    lengths = np.exp2(((refs >> _DOCUMENT) & 63) / _STEPS)
    return numbers, often, lengths
