"""Support counts distinct roots, patterns are closed, and the order of digests is of no matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.procedures.patterns import DigestArrays, MinedPatterns, mine_patterns
from consolidator.memory.procedures.publication_rule import MAX_LENGTH, MIN_LENGTH, MIN_LOOP, PublicationRule

SEQUENCES = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(1, 3), max_size=12)), max_size=8)


def build_digests(sequences: list[tuple[int, list[int]]]) -> list[DigestArrays]:
    digests = []
    for number, (root, sequence) in enumerate(sequences):
        keys = np.unique(np.asarray(sequence, np.int64))
        arrays = (np.asarray(sequence, np.int64), np.arange(len(sequence)), keys, keys * 2)
        digests.append(DigestArrays(f"s{number}", f"r{root}", *arrays, last_at=float(number)))
    return digests


def without_repeats(sequence: Sequence[int]) -> list[int]:
    """Return a sequence with one round of each loop, the shortest loops first."""
    rest = list(sequence)
    for period in range(MIN_LOOP, MAX_LENGTH + 1):
        dropped: set[int] = set()
        repeated: list[int] = []  # places in a row that are as the ones a period before
        for place in range(period, len(rest) + 1):
            if place < len(rest) and rest[place] == rest[place - period]:
                repeated.append(place)
                continue
            dropped |= set(repeated) if len(repeated) >= period else set()
            repeated = []
        rest = [symbol for place, symbol in enumerate(rest) if place not in dropped]
    return rest


def comparable(mined: MinedPatterns) -> object:
    patterns = [(pattern.symbols, pattern.support, pattern.outcomes, pattern.evidence()) for pattern in mined.patterns]
    return patterns, mined.key_sums.to_dict(), mined.root_count


def brute_force(sequences: list[tuple[int, list[int]]], min_support: int) -> dict[tuple[int, ...], int]:
    roots: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for root, sequence in ((root, without_repeats(sequence)) for root, sequence in sequences):
        for length in range(MIN_LENGTH, MAX_LENGTH + 1):
            for start in range(len(sequence) - length + 1):
                roots[tuple(sequence[start : start + length])].add(root)
    support = {gram: len(gram_roots) for gram, gram_roots in roots.items()}
    return {
        gram: count
        for gram, count in support.items()
        if count >= min_support
        and not any(
            longer_support == count and len(longer) == len(gram) + 1 and gram in (longer[1:], longer[:-1])
            for longer, longer_support in support.items()
        )
    }


@given(SEQUENCES, st.integers(1, 3))
def test_patterns_are_those_of_a_brute_force_search(sequences: list[tuple[int, list[int]]], min_support: int) -> None:
    mined = mine_patterns(build_digests(sequences), PublicationRule(min_support))
    assert {pattern.symbols: pattern.support for pattern in mined.patterns} == brute_force(sequences, min_support)


@given(SEQUENCES, st.randoms(use_true_random=False))
def test_the_order_of_digests_is_of_no_matter(sequences: list[tuple[int, list[int]]], random: object) -> None:
    digests = build_digests(sequences)
    reordered = list(reversed(digests))
    mined, mined_reordered = (
        mine_patterns(digests, PublicationRule(2)),
        mine_patterns(iter(reordered), PublicationRule(2)),
    )
    assert comparable(mined) == comparable(mined_reordered)


def test_support_counts_roots_and_not_repeats_or_forks() -> None:
    mined = mine_patterns(build_digests([(0, [1, 2, 1, 2, 1, 2]), (0, [1, 2]), (1, [1, 2])]), PublicationRule(2))
    assert [(pattern.symbols, pattern.support) for pattern in mined.patterns] == [((1, 2), 2)]


def test_sums_are_exact_and_keep_what_recurs() -> None:
    mined = mine_patterns(build_digests([(0, [5, 6]), (1, [5]), (1, [5, 6, 7])]))
    assert mined.key_sums.to_dict() == {5: (30, 2), 6: (24, 2), 7: (14, 1)}
    assert mined.key_sums.recurring().to_dict() == {5: (30, 2), 6: (24, 2)}


def test_evidence_is_the_first_place_in_each_of_the_latest_sessions() -> None:
    mined = mine_patterns(build_digests([(root, [9, 1, 2, 3, 1, 2]) for root in range(7)]), PublicationRule(3))
    best = next(pattern for pattern in mined.patterns if pattern.symbols == (9, 1, 2, 3, 1, 2))
    assert best.evidence() == (("s6", 0), ("s5", 0), ("s4", 0), ("s3", 0), ("s2", 0))


def test_no_digests_give_no_patterns() -> None:
    assert mine_patterns([]).patterns == []
    assert mine_patterns(build_digests([(0, [])])).patterns == []


def test_a_limit_keeps_the_best() -> None:
    sequences = [(root, [1, 2, 9, 3, 4]) for root in range(5)] + [(root, [1, 2]) for root in range(5, 9)]
    mined = mine_patterns(build_digests(sequences), PublicationRule(3, max_candidates=1))
    assert [pattern.symbols for pattern in mined.patterns] == [(1, 2, 9, 3, 4)]
