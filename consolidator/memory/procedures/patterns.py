"""Finds the contiguous patterns that sessions share, with their support in distinct lineage roots.

Pure, exact and free of order: the same digests give the same tally, however they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import Ints, hash_key
from consolidator.memory.procedures.key_sums import EMPTY_SUMS, KeySums, concatenate, run_starts, sort_unique

SHORTEST, LONGEST = 2, 8
_TASKS = {outcome: hash_key(("task", outcome)) for outcome in ("success", "failure")}


@dataclass(frozen=True, slots=True)
class DigestArrays:
    """What is summed of one session's digest."""

    session_id: str
    root_id: str  # forks and resumes of one session share it, and count once
    sequence: Ints
    seqs: Ints
    keys: Ints = field(default_factory=lambda: EMPTY_SUMS.keys)
    counts: Ints = field(default_factory=lambda: EMPTY_SUMS.totals)
    last_at: float = 0.0  # when its last event happened, in seconds since 1970
    project: str = ""
    outcome: int = 0  # 1 where its tasks succeeded, -1 where one failed, 0 where nobody said

    @classmethod
    def unpack(
        cls,
        session_id: str,
        root_id: str,
        sequence: bytes,
        seqs: bytes,
        keys: bytes,
        counts: bytes,
        last_at: float,
        project: str = "",
    ) -> DigestArrays:
        """Read the arrays of a stored digest."""
        one, two, three, four = (np.frombuffer(packed, np.int64) for packed in (sequence, seqs, keys, counts))
        return cls(session_id, root_id, one, two, three, four, last_at, project, task_outcome(three))


def task_outcome(keys: Ints) -> int:
    """Return how the tasks of a session went, by what its digest counts."""
    return -1 if _TASKS["failure"] in keys else int(_TASKS["success"] in keys)


class Pattern:
    """A frequent contiguous pattern of symbols; what proves it is looked up when it is asked for."""

    __slots__ = ("_log", "_places", "support", "symbols")

    def __init__(self, symbols: tuple[int, ...], support: int, log: _SequenceLog, places: _Places) -> None:
        self.symbols = symbols
        self.support = support  # distinct roots
        self._log = log
        self._places = places

    @property
    def _positions(self) -> Ints:
        positions, order, start, end = self._places
        return positions[order[start:end]]

    @property
    def outcomes(self) -> tuple[int, int]:
        """In how many of its roots the tasks succeeded, and in how many one failed."""
        log = self._log
        if not log.told:
            return 0, 0
        has = np.zeros(log.roots, np.bool_)
        has[log.root[self._positions]] = True
        told = log.outcomes[has]
        return int((told > 0).sum()), int((told < 0).sum())

    def evidence(self, most: int = 5) -> tuple[tuple[str, int], ...]:
        """Return session and seq of its first call in each of the latest sessions."""
        log = self._log
        positions = self._positions  # in order of session, and in each of seq
        sessions = log.session[positions]
        first = run_starts(sessions)
        sessions, seqs = sessions[first], log.seqs[positions[first]]
        latest = np.lexsort((sessions, -log.last_at[sessions]))[:most]  # the log's sessions are in order of their ids
        return tuple(
            (log.digests[s].session_id, int(seq)) for s, seq in zip(sessions[latest], seqs[latest], strict=True)
        )


_Places = tuple[Ints, npt.NDArray[np.intp], int, int]  # starts of all patterns of a length, by pattern, and which


@dataclass(slots=True)
class MinedPatterns:
    """What all digests of a scope add up to."""

    patterns: list[Pattern]  # closed and frequent, best first
    key_sums: KeySums
    roots: int


class _SequenceLog:
    """All sequences, one after another."""

    def __init__(self, digests: list[DigestArrays]) -> None:
        self.digests = digests
        self.symbols = concatenate([d.sequence for d in digests])
        self.seqs = concatenate([d.seqs for d in digests])
        self.last_at = np.asarray([d.last_at for d in digests], np.float64)
        lengths = [len(d.sequence) for d in digests]
        self.session = np.repeat(np.arange(len(digests)), lengths)
        roots = sorted({d.root_id for d in digests})
        number = {root: n for n, root in enumerate(roots)}
        self.roots = len(roots)
        self.root_of = np.asarray([number[d.root_id] for d in digests], np.int64)
        self.root = self.root_of[self.session] if len(digests) else np.zeros(0, np.int64)
        projects = {project: n for n, project in enumerate(sorted({d.project for d in digests}))}
        self.project_of = np.asarray([projects[d.project] for d in digests], np.int64)
        told = np.asarray([d.outcome for d in digests], np.int8)
        self.outcomes = np.zeros(self.roots, np.int8)  # of each root: one failure is enough
        self.outcomes[self.root_of[told > 0]] = 1
        self.outcomes[self.root_of[told < 0]] = -1
        self.told = bool(self.outcomes.any())  # whether anybody said how a task went


@dataclass(frozen=True, slots=True)
class _Grams:
    """The frequent patterns of one length: where they stand, and how many roots have each."""

    positions: Ints  # starts, ascending
    ids: Ints  # the pattern at each
    support: Ints  # by pattern


def mine_patterns(
    digests: Iterable[DigestArrays],
    min_support: int = 3,
    limit: int = 2000,
    min_projects: int = 1,
    totals: KeySums | None = None,
) -> MinedPatterns:
    """Sum digests: at most `limit` closed patterns of `min_support` roots, and their keys.

    With `min_projects` only patterns that so many projects share. `totals` are the keys' sums where they are known.
    """
    log = _SequenceLog(sorted(digests, key=lambda digest: digest.session_id))
    found: list[_Grams] = []
    kept: list[npt.NDArray[np.bool_]] = []
    longer = _grow(log, _first(log, min_support), 2, min_support)
    for length in range(SHORTEST, LONGEST + 1):
        grams, longer = longer, _grow(log, longer, length + 1, min_support)
        closed = _closed(grams, longer if length < LONGEST else None)
        if min_projects > 1:
            closed &= _projects(log, grams) >= min_projects
        found.append(grams)
        kept.append(closed)
        if not len(longer.positions):
            break
    return MinedPatterns(
        _best(log, found, kept, limit), KeySums.of_sessions(log.digests) if totals is None else totals, log.roots
    )


def _best(log: _SequenceLog, found: list[_Grams], kept: list[npt.NDArray[np.bool_]], limit: int) -> list[Pattern]:
    """Return the best patterns: those with the largest product of support and arrows; ties go by their symbols."""
    support, steps, symbols, places = [], [], [], []
    for number, (grams, closed) in enumerate(zip(found, kept, strict=True)):
        winners, length = np.flatnonzero(closed), SHORTEST + number
        order = np.argsort(grams.ids, kind="stable")
        bounds = np.searchsorted(grams.ids[order], np.stack([winners, winners + 1]))
        places += [(grams.positions, order, start, end) for start, end in bounds.T.tolist()]
        named = np.full((len(winners), LONGEST), np.iinfo(np.int64).min)  # the shorter of two comes first
        if len(winners):
            named[:, :length] = log.symbols[grams.positions[order[bounds[0]]][:, None] + np.arange(length)]
        support.append(grams.support[winners])
        steps.append(np.full(len(winners), length))
        symbols.append(named)
    supports, lengths, names = np.concatenate(support), np.concatenate(steps), np.concatenate(symbols)
    order = np.lexsort((*names.T[::-1], -supports * (lengths - 1)))[:limit]
    best = zip(order.tolist(), names[order].tolist(), lengths[order].tolist(), supports[order].tolist(), strict=True)
    return [Pattern(tuple(told[:length]), count, log, places[at]) for at, told, length, count in best]


def _first(log: _SequenceLog, min_support: int) -> _Grams:
    return _frequent(log, np.arange(len(log.symbols)), log.symbols.view(np.uint64), min_support)


def _grow(log: _SequenceLog, grams: _Grams, length: int, min_support: int) -> _Grams:
    """Join frequent patterns that overlap: only they can make a frequent longer one."""
    if not len(grams.positions):
        return grams
    follows = grams.positions[1:] == grams.positions[:-1] + 1
    starts = grams.positions[:-1][follows]
    left, right = grams.ids[:-1][follows], grams.ids[1:][follows]
    inside = log.session[starts] == log.session[starts + length - 1]
    pairs = left[inside].astype(np.uint64) * np.uint64(len(grams.support)) + right[inside].astype(np.uint64)
    return _frequent(log, starts[inside], pairs, min_support)


def _frequent(
    log: _SequenceLog, positions: npt.NDArray[np.intp], names: npt.NDArray[np.uint64], min_support: int
) -> _Grams:
    """Number the patterns at `positions` and keep those that enough roots have."""
    _, ids = np.unique(names, return_inverse=True)
    kinds = int(ids.max()) + 1 if len(ids) else 0
    pairs = sort_unique(ids.astype(np.int64) * max(log.roots, 1) + log.root[positions])
    support = np.bincount(pairs // max(log.roots, 1), minlength=kinds)
    kept = support >= min_support
    number = np.cumsum(kept) - 1
    alive = kept[ids]
    return _Grams(
        positions[alive].astype(np.int64), number[ids[alive]].astype(np.int64), support[kept].astype(np.int64)
    )


def _closed(grams: _Grams, longer: _Grams | None) -> npt.NDArray[np.bool_]:
    """Tell which patterns have no one-longer pattern, to the left or right, in as many roots."""
    best = np.zeros(len(grams.support), np.int64)
    if longer is not None and len(longer.positions):
        at = np.searchsorted(grams.positions, longer.positions)
        shared = longer.support[longer.ids]
        np.maximum.at(best, grams.ids[at], shared)
        np.maximum.at(best, grams.ids[np.searchsorted(grams.positions, longer.positions + 1)], shared)
    closed: npt.NDArray[np.bool_] = grams.support > best
    return closed


def _projects(log: _SequenceLog, grams: _Grams) -> Ints:
    """Return in how many projects each pattern stands."""
    width = int(log.project_of.max()) + 1 if len(log.project_of) else 1
    pairs = sort_unique(grams.ids * width + log.project_of[log.session[grams.positions]])
    found: Ints = np.bincount(pairs // width, minlength=len(grams.support)).astype(np.int64)
    return found
