"""Measure how much better a pattern predicts its steps than the pairs of its steps do, in bits, on held-out roots.

After the steps s1 .. s(i-1), does si come next? One answer is the share of all occurrences of s1 .. s(i-1) that it
followed, the other the share of all occurrences of s(i-1) alone. Both are learned from all lineage roots but one, and
scored by log loss on every occurrence of s1 .. s(i-1) in the one that was left out. The gain is the sum of the
differences, over all roots: positive only where the longer context holds for sessions it was not learned from, and zero
where it stands wherever the last step does. Shares are smoothed by half an occurrence (Krichevsky and Trofimov, 1981).

Example. In three roots `calculate` follows `search` in 3 of 10 occurrences, but in all 3 that stand after `think`:
`think search calculate` gains some 4 bits. Where 1 of the 3 had been followed by it, there would be nothing to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_sums import run_starts

_CHUNK = 500_000  # pairs of pattern and root that are scored at once

Floats: TypeAlias = npt.NDArray[np.float64]


class _Level:
    """The patterns of one length: where they start, and how often each root has them."""

    def __init__(self, positions: Ints, ids: Ints, root_at: Ints, root_count: int) -> None:
        self.positions = positions  # ascending
        self.ids = ids  # the pattern at each position
        self.root_count = root_count
        id_root_pairs = np.sort(ids * root_count + root_at[positions])
        first = run_starts(id_root_pairs)
        self.pairs = id_root_pairs[first]  # pattern * root_count + root, ascending, each once
        self.counts = np.diff(np.flatnonzero(first), append=len(id_root_pairs))  # by pair
        self.pattern_count = int(ids.max()) + 1 if len(ids) else 0
        self.totals = np.bincount(ids, minlength=self.pattern_count)  # by pattern
        self.starts = np.searchsorted(self.pairs, np.arange(self.pattern_count + 1) * root_count)  # of its pairs

    def ids_at(self, positions: Ints) -> Ints:
        """Return the patterns at some positions that have one."""
        return self.ids[np.searchsorted(self.positions, positions)]

    def first_positions(self) -> Ints:
        """Return where each pattern occurs first."""
        first = np.full(self.pattern_count, len(self.positions), np.int64)
        np.minimum.at(first, self.ids, np.arange(len(self.ids)))
        return self.positions[first]

    def counts_in(self, ids: Ints, roots: Ints) -> Ints:
        """Return how often some roots have some patterns, pair by pair."""
        wanted = ids * self.root_count + roots
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        counts: Ints = np.where(self.pairs[at] == wanted, self.counts[at], 0)
        return counts


class HeldOutGain:
    """The gains of patterns. `grams` are the positions and patterns of each length, from single symbols on."""

    def __init__(self, grams: Sequence[tuple[Ints, Ints]], root_at: Ints, root_count: int) -> None:
        self._levels = [_Level(positions, ids, root_at, root_count) for positions, ids in grams]
        self._first = [level.first_positions() for level in self._levels]
        self._steps: list[dict[int, float]] = [{} for _ in grams]  # by length and pattern: the gain of its last step

    def of_patterns(self, length: int, ids: Ints) -> list[float]:
        """Return the gain of some patterns of one length: the sum over their steps from the third on, in bits."""
        gains = np.zeros(len(ids), np.float64)
        first = self._first[length - 1][ids]
        for shorter in range(3, length + 1):
            gains += self._last_step_gains(shorter, self._levels[shorter - 1].ids_at(first))
        return [round(gain, 4) for gain in gains.tolist()]

    def _last_step_gains(self, length: int, ids: Ints) -> Floats:
        """Return by how many bits the last step is predicted better after all the others than after the one before."""
        known = self._steps[length - 1]
        missing = np.asarray(sorted(set(ids.tolist()) - known.keys()), np.int64)
        if len(missing):
            known.update(zip(missing.tolist(), self._score(length, missing).tolist(), strict=True))
        return np.asarray([known[pattern] for pattern in ids.tolist()], np.float64)

    def _score(self, length: int, ids: Ints) -> Floats:
        longer, prefixes = self._levels[length - 1], self._levels[length - 2]
        prefix = prefixes.ids_at(self._first[length - 1][ids])
        sizes = prefixes.starts[prefix + 1] - prefixes.starts[prefix]  # roots that have the prefix
        gains = []
        for chunk in np.split(np.arange(len(ids)), np.flatnonzero(np.diff(np.cumsum(sizes) // _CHUNK)) + 1):
            gains.append(self._score_chunk(length, ids[chunk], prefix[chunk], sizes[chunk]))
        gained: Floats = np.concatenate(gains)
        # Where the longer context makes the step less likely than the pair does, it says nothing for the pattern.
        last, pair = self._last_symbols_and_pairs(length, ids)
        is_unlikelier = longer.totals[ids] * self._levels[0].totals[last] < (
            self._levels[1].totals[pair] * prefixes.totals[prefix]
        )
        return np.where(is_unlikelier, np.minimum(gained, 0.0), gained)

    def _last_symbols_and_pairs(self, length: int, ids: Ints) -> tuple[Ints, Ints]:
        """Return of each pattern the symbol before its last step, and the pair of these two."""
        at = self._first[length - 1][ids] + length - 2
        return self._levels[0].ids_at(at), self._levels[1].ids_at(at)

    def _score_chunk(self, length: int, ids: Ints, prefix: Ints, sizes: Ints) -> Floats:
        """Score patterns on each root that has their prefix, by what all other roots have."""
        singles, pairs, prefixes, longer = (self._levels[n] for n in (0, 1, length - 2, length - 1))
        last, pair = self._last_symbols_and_pairs(length, ids)
        owner = np.repeat(np.arange(len(ids)), sizes)  # by pattern and root
        in_prefix = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = np.repeat(prefixes.starts[prefix], sizes) + in_prefix
        root, times = prefixes.pairs[at] % prefixes.root_count, prefixes.counts[at]
        followed = longer.counts_in(ids[owner], root)
        pair_share = _share(
            (pairs.totals[pair])[owner] - pairs.counts_in(pair[owner], root),
            (singles.totals[last])[owner] - singles.counts_in(last[owner], root),
        )
        context_share = _share(
            longer.totals[ids][owner] - followed,
            prefixes.totals[prefix][owner] - times,
        )
        bits = followed * np.log2(context_share / pair_share)
        bits = bits + (times - followed) * np.log2((1 - context_share) / (1 - pair_share))
        return np.asarray(np.bincount(owner, weights=bits, minlength=len(ids)), np.float64)


def _share(hits: Ints, times: Ints) -> Floats:
    return np.asarray((hits + 0.5) / (times + 1), np.float64)
