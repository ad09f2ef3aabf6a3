"""Tell what a procedure is for: the words that the goals of its sessions have more often than the goals of others.

Goals are compared, not sessions: those with the same words count once, for one request that is repeated proves nothing
about other requests. A word is told when it is in at least MIN_GOALS goals of the pattern's sessions, in MIN_SHARE of
them, MIN_LIFT times as often as in others, and when Fisher's exact test (one-sided) makes that unlikely to be chance,
corrected for the number of words that could be told (Bonferroni).

Nothing that one person said is told to another: the goals with a word must come from `min_askers` peers where these are
known, and from `min_projects` projects.

Example. Of 50 goals 9 belong to sessions that ran `get_user get_reservation cancel`; `cancel` is in all 9, and in 13 of
the 41 others. By chance that happens in 1 of 5,000 cases: the procedure is for goals about `cancel`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log2
from typing import Protocol

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_sums import concatenate

MIN_GOALS = 3  # of the pattern's sessions that must have a word
MIN_SHARE = 0.4  # of these goals
MIN_LIFT = 2.0  # times the share among the other goals
MIN_TESTED_GOALS = 6  # of its sessions and of others, from which goals without a common word speak against a pattern
COMMON_SHARE = 0.8  # of the roots of a regular pattern, whose goals have a word
MAX_CHANCE = 0.05  # that any one of the words is told by chance
MAX_WORDS = 4


class SessionGoal(Protocol):
    """What is known of the goal of one session."""

    @property
    def root_id(self) -> str:
        """The lineage root."""

    @property
    def goal(self) -> Ints:
        """Hashes of the words of its goal; empty where it is unknown."""

    @property
    def peer(self) -> str:
        """Whom the session talked to; "" if that is unknown."""

    @property
    def project(self) -> str:
        """Its project; "" for none."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What the goals of a pattern's sessions say."""

    words: tuple[int, ...] = ()  # hashes, the most telling first
    bits: float = 0.0  # of evidence for the first of them: minus the logarithm of its chance
    is_missing: bool = False  # there are goals enough to find a word, and none was found


@dataclass(slots=True)
class _Goal:
    """All sessions that were asked the same."""

    askers: set[str]
    projects: set[str]


class PurposeFinder:
    """Compares the goals of some roots with those of all others. Roots are numbered in the order of their ids."""

    def __init__(self, sessions: Sequence[SessionGoal], min_projects: int = 1, min_askers: int = 2) -> None:
        self._min_projects = min_projects
        self._min_askers = min_askers
        self._has_people = len({session.peer for session in sessions}) > 1
        words_of_root: dict[str, set[int]] = defaultdict(set)
        for session in sessions:
            words_of_root[session.root_id].update(session.goal.tolist())
        goal_words = sorted({tuple(sorted(words)) for words in words_of_root.values() if words})
        goal_numbers = {words: number for number, words in enumerate(goal_words)}
        goal_of_root = {root: goal_numbers.get(tuple(sorted(words)), -1) for root, words in words_of_root.items()}
        self._goal_of_root = np.asarray([goal for _, goal in sorted(goal_of_root.items())], np.int64)
        self._goals = [_Goal(set(), set()) for _ in goal_words]
        for session in sessions:
            number = goal_of_root[session.root_id]
            if number >= 0:
                self._goals[number].askers.add(f"peer {session.peer}" if session.peer else f"goal {number}")
                self._goals[number].projects.add(session.project)
        # The words of all goals one after another, as numbers in `_words`.
        sizes = np.asarray([len(words) for words in goal_words], np.int64)
        flat = concatenate([np.asarray(words, np.int64) for words in goal_words])
        self._words, self._word_at = np.unique(flat, return_inverse=True)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._goals_with = np.bincount(self._word_at, minlength=len(self._words))  # by word
        self._tested_words = max(int((self._goals_with >= MIN_GOALS).sum()), 1)
        self._log_factorials = np.asarray([lgamma(n + 1) for n in range(len(self._goals) + 1)], np.float64)

    def find(self, roots: Ints) -> Purpose:
        """Return what the goals of some roots, each once, have in common."""
        if not self._goals:
            return Purpose()
        held = np.unique(self._goal_of_root[roots])
        held = held[held >= 0]
        others = len(self._goals) - len(held)
        counts = self._count_words(held)
        chances = {
            word: self._chance(counts[word], len(held), self._goals_with[word])
            for word in np.flatnonzero(self._is_candidate(counts, len(held), others)).tolist()
        }
        told = [word for word, chance in chances.items() if chance * self._tested_words <= MAX_CHANCE]
        told = [word for word in told if self._is_shareable(word, held)]
        told.sort(key=lambda word: (chances[word], int(self._words[word])))
        if not told:
            return Purpose(is_missing=min(len(held), others) >= MIN_TESTED_GOALS)
        return Purpose(tuple(self._words[told[:MAX_WORDS]].tolist()), round(-log2(chances[told[0]]), 4))

    def find_common(self, roots: Ints) -> Purpose:
        """Return the words that most of some roots' goals have, each root once, whatever others were asked for."""
        numbers, times = np.unique(self._goal_of_root[roots], return_counts=True)
        numbers, times = numbers[numbers >= 0], times[numbers >= 0]
        counts = np.zeros(len(self._words), np.int64)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            counts[self._word_at[self._starts[number] : self._starts[number + 1]]] += count
        enough = max(MIN_GOALS, COMMON_SHARE * int(times.sum()))
        common = [
            word for word in np.flatnonzero(counts >= enough).tolist() if self._is_common_shareable(word, numbers)
        ]
        common.sort(key=lambda word: (-counts[word], self._goals_with[word], int(self._words[word])))
        return Purpose(tuple(self._words[common[:MAX_WORDS]].tolist()))

    def _is_common_shareable(self, word: int, held: Ints) -> bool:
        """Whether a word is of one person's own sessions, or comes from several people and enough projects."""
        return not self._has_people or self._is_shareable(word, held)

    def _count_words(self, held: Ints) -> Ints:
        parts = [self._word_at[self._starts[goal] : self._starts[goal + 1]] for goal in held.tolist()]
        return np.bincount(concatenate(parts), minlength=len(self._words))

    def _is_candidate(self, counts: Ints, held: int, others: int) -> npt.NDArray[np.bool_]:
        elsewhere = self._goals_with - counts
        is_common = (counts >= MIN_GOALS) & (counts >= MIN_SHARE * held)
        return is_common & (counts * max(others, 1) >= MIN_LIFT * elsewhere * held)

    def _chance(self, count: int, held: int, with_word: int) -> float:
        """Return the probability of at least `count` goals with a word among `held`, drawn from all without regard."""
        total = len(self._goals)
        possible = np.arange(count, min(held, with_word) + 1)
        logs = (
            self._log_choose(with_word, possible)
            + self._log_choose(total - with_word, held - possible)
            - self._log_choose(total, np.asarray(held))
        )
        return max(float(np.exp(logs).sum()), 1e-300)

    def _log_choose(self, n: int, k: Ints) -> npt.NDArray[np.float64]:
        factorials = self._log_factorials
        possible = (k >= 0) & (k <= n)
        chosen = np.clip(k, 0, n)
        return np.where(possible, factorials[n] - factorials[chosen] - factorials[n - chosen], -np.inf)

    def _is_shareable(self, word: int, held: Ints) -> bool:
        """Whether a word comes from several people, and from enough projects."""
        askers: set[str] = set()
        projects: set[str] = set()
        for number in held.tolist():
            if word in self._word_at[self._starts[number] : self._starts[number + 1]]:
                askers |= self._goals[number].askers
                projects |= self._goals[number].projects
        return len(askers) >= self._min_askers and len(projects) >= self._min_projects
