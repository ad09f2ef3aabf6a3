"""The gain of a pattern over its pairs is as defined, and comes from what held-out roots confirm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures import held_out_gain
from consolidator.memory.procedures.patterns import DigestArrays, Pattern, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule
from tests.unit.procedures.test_patterns import without_repeats

SEQUENCES = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(1, 3), max_size=12)), max_size=8)


def mine(sequences: Sequence[tuple[int, Sequence[int]]], min_support: int = 2) -> list[Pattern]:
    digests = [
        DigestArrays(f"s{number}", f"r{root}", np.asarray(sequence, np.int64), np.arange(len(sequence)))
        for number, (root, sequence) in enumerate(sequences)
    ]
    return mine_patterns(digests, PublicationRule(min_support)).patterns


def gain_of(pattern: Sequence[int], sequences: Sequence[tuple[int, Sequence[int]]]) -> float:
    """Compute a gain as its definition says."""

    def count(gram: Sequence[int]) -> Counter[int]:
        found: Counter[int] = Counter()
        for root, sequence in sequences:
            starts = range(len(sequence) - len(gram) + 1)
            found[root] += sum(list(sequence[start : start + len(gram)]) == list(gram) for start in starts)
        return found

    total = 0.0
    for length in range(3, len(pattern) + 1):
        longer, prefix = count(pattern[:length]), count(pattern[: length - 1])
        pair, last = count(pattern[length - 2 : length]), count(pattern[length - 2 : length - 1])
        gain = 0.0
        for root, times in prefix.items():
            share = (pair.total() - pair[root] + 0.5) / (last.total() - last[root] + 1)
            longer_share = (longer.total() - longer[root] + 0.5) / (prefix.total() - times + 1)
            gain += longer[root] * math.log2(longer_share / share)
            gain += (times - longer[root]) * math.log2((1 - longer_share) / (1 - share))
        if longer.total() * last.total() < pair.total() * prefix.total():
            gain = min(gain, 0.0)
        total += gain
    return total


@given(SEQUENCES, st.integers(1, 3), st.sampled_from([1, 7, 500_000]))
def test_gains_are_those_of_a_direct_computation(
    sequences: list[tuple[int, list[int]]], min_support: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out_gain, "_CHUNK", chunk)
        counted = [(root, without_repeats(sequence)) for root, sequence in sequences]
        for pattern in mine(sequences, min_support):
            assert pattern.gain == pytest.approx(gain_of(pattern.symbols, counted), abs=1e-3)


def test_a_longer_context_gains_where_it_says_more_than_the_last_step() -> None:
    ambiguous = [(n, [1, 2, 3]) for n in range(4)] + [(n, [4, 2, 5]) for n in range(4, 8)]
    plain = [(n, [1, 2, 3]) for n in range(8)]
    gains = {pattern.symbols: pattern.gain for pattern in mine(ambiguous, 3)}
    assert gains[1, 2, 3] > 2
    assert {pattern.symbols: pattern.gain for pattern in mine(plain, 3)}[1, 2, 3] == 0
