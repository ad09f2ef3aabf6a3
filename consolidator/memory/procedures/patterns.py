"""Mine the contiguous patterns that sessions share, with their support in distinct lineage roots.

Pure, exact and independent of order: the same digests give the same result, however they arrive. `publication_rule`
says which patterns are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from consolidator.memory.procedures.key_counts import (
    EMPTY_SUMS,
    Ints,
    KeySums,
    concatenate,
    hash_key,
    run_starts,
    sort_unique,
)
from consolidator.memory.procedures.publication_rule import (
    DEFAULT_RULE,
    MAX_LENGTH,
    MIN_LENGTH,
    MIN_LOOP,
    PublicationRule,
)

Bools: TypeAlias = npt.NDArray[np.bool_]
_TASK_KEYS = {outcome: hash_key(("task", outcome)) for outcome in ("success", "failure")}


@dataclass(frozen=True, slots=True)
class DigestArrays:
    """What is mined and summed of one session's digest."""

    session_id: str
    root_id: str  # forks and resumes of one session share it, and count once
    sequence: Ints  # symbol hashes of the cleaned sequence
    seqs: Ints  # by element of the sequence
    keys: Ints = field(default_factory=lambda: EMPTY_SUMS.keys)  # key hashes, each once
    counts: Ints = field(default_factory=lambda: EMPTY_SUMS.totals)  # by key
    last_at: float = 0.0  # when its last event happened, in seconds since 1970
    project: str = ""
    outcome: int = 0  # of its tasks: 1 all succeeded, -1 one failed, 0 unknown
    peer: str = ""  # whose session it is; "" if that is unknown

    @classmethod
    def unpack(
        cls, session_id: str, root_id: str, columns: Sequence[bytes], last_at: float, project: str = "", peer: str = ""
    ) -> DigestArrays:
        """Read the arrays of a stored digest: its sequence, seqs, keys and counts."""
        sequence, seqs, keys, counts = (np.frombuffer(column, np.int64) for column in columns)
        outcome = -1 if _TASK_KEYS["failure"] in keys else int(_TASK_KEYS["success"] in keys)
        return cls(session_id, root_id, sequence, seqs, keys, counts, last_at, project, outcome, peer)


class Pattern:
    """A frequent contiguous pattern of symbols; its outcomes and evidence are computed on demand."""

    __slots__ = ("_log", "_occurrences", "cohesion", "support", "symbols")

    def __init__(
        self, symbols: tuple[int, ...], support: int, cohesion: float, log: _SequenceLog, occurrences: _Occurrences
    ) -> None:
        self.symbols = symbols  # hashes
        self.support = support  # distinct roots
        self.cohesion = cohesion  # the least share of the places of the rarer of two steps that go together
        self._log = log
        self._occurrences = occurrences

    @property
    def _positions(self) -> Ints:
        positions, order, start, end = self._occurrences
        return positions[order[start:end]]

    @property
    def outcomes(self) -> tuple[int, int]:
        """In how many of its roots the tasks succeeded, and in how many one failed."""
        log = self._log
        if not log.has_outcomes:
            return 0, 0
        has_pattern = np.zeros(log.root_count, np.bool_)
        has_pattern[log.root_at[self._positions]] = True
        outcomes = log.outcomes[has_pattern]
        return int((outcomes > 0).sum()), int((outcomes < 0).sum())

    @property
    def people(self) -> int:
        """Of how many people its sessions are; those of whom nothing is known count as one."""
        return len(np.unique(self._log.person_of_session[self._log.session_at[self._positions]]))

    def evidence(self, limit: int = 5) -> tuple[tuple[str, int], ...]:
        """Return session and seq of its first call in each of the latest sessions, the latest first."""
        log = self._log
        positions = self._positions  # ascending: by session, then by seq
        sessions = log.session_at[positions]
        is_first = run_starts(sessions)
        sessions, seqs = sessions[is_first], log.seqs[positions[is_first]]
        latest = np.lexsort((sessions, -log.last_at[sessions]))[:limit]  # sessions are numbered in order of their ids
        return tuple(
            (log.digests[session].session_id, int(seq))
            for session, seq in zip(sessions[latest], seqs[latest], strict=True)
        )


# The start positions of all patterns of one length, their order by pattern, and the slice of the order of one pattern.
_Occurrences: TypeAlias = tuple[Ints, npt.NDArray[np.intp], int, int]


@dataclass(slots=True)
class MinedPatterns:
    """The patterns and key sums of a scope."""

    patterns: list[Pattern]  # closed and frequent, best first
    key_sums: KeySums
    root_count: int


class _SequenceLog:
    """The sequences of all sessions in one array; `..._at` arrays are by position in it."""

    def __init__(self, digests: list[DigestArrays]) -> None:
        self.digests = digests
        self.symbols = concatenate([d.sequence for d in digests])
        self.seqs = concatenate([d.seqs for d in digests])
        self.session_at = np.repeat(np.arange(len(digests)), [len(d.sequence) for d in digests])
        self._drop_repeated_rounds()
        self.last_at = np.asarray([d.last_at for d in digests], np.float64)  # by session
        roots = sorted({d.root_id for d in digests})
        root_numbers = {root: n for n, root in enumerate(roots)}
        self.root_count = len(roots)
        self.root_of_session = np.asarray([root_numbers[d.root_id] for d in digests], np.int64)
        self.root_at = self.root_of_session[self.session_at] if len(digests) else np.zeros(0, np.int64)
        person_numbers = {peer: n for n, peer in enumerate(sorted({d.peer for d in digests}))}
        self.person_of_session = np.asarray([person_numbers[d.peer] for d in digests], np.int64)
        project_numbers = {project: n for n, project in enumerate(sorted({d.project for d in digests}))}
        self.project_of_session = np.asarray([project_numbers[d.project] for d in digests], np.int64)
        session_outcomes = np.asarray([d.outcome for d in digests], np.int8)
        self.outcomes = np.zeros(self.root_count, np.int8)  # by root: one failure makes it a failure
        self.outcomes[self.root_of_session[session_outcomes > 0]] = 1
        self.outcomes[self.root_of_session[session_outcomes < 0]] = -1
        self.has_outcomes = bool(self.outcomes.any())

    def _drop_repeated_rounds(self) -> None:
        """Leave one round of what a session does in a loop: the next ones would be chains that begin anywhere in it."""
        for period in range(MIN_LOOP, MAX_LENGTH + 1):
            repeats = self.symbols[period:] == self.symbols[:-period]
            repeats &= self.session_at[period:] == self.session_at[:-period]
            edges = np.flatnonzero(np.diff(repeats, prepend=False, append=False))
            starts, ends = edges[::2], edges[1::2]
            is_round = ends - starts >= period
            changes = np.zeros(len(self.symbols) + 1, np.int64)
            np.add.at(changes, starts[is_round] + period, 1)
            np.add.at(changes, ends[is_round] + period, -1)
            first = np.cumsum(changes[:-1]) == 0
            self.symbols, self.seqs, self.session_at = self.symbols[first], self.seqs[first], self.session_at[first]


@dataclass(frozen=True, slots=True)
class _Grams:
    """The frequent patterns of one length."""

    positions: Ints  # where they start, ascending
    ids: Ints  # the pattern at each position
    support: Ints  # distinct roots, by pattern


def mine_patterns(
    digests: Iterable[DigestArrays], rule: PublicationRule = DEFAULT_RULE, *, key_sums: KeySums | None = None
) -> MinedPatterns:
    """Return the closed, frequent patterns of some digests, best first, and their key sums.

    `key_sums` are the sums of the same digests where they are known already.
    """
    log = _SequenceLog(sorted(digests, key=lambda digest: digest.session_id))
    grams_by_length: list[_Grams] = []
    closed_by_length: list[Bools] = []
    singles = _keep_frequent(log, np.arange(len(log.symbols)), log.symbols.view(np.uint64), rule)
    longer = _extend_patterns(log, singles, 2, rule)
    for length in range(MIN_LENGTH, MAX_LENGTH + 1):
        grams, longer = longer, _extend_patterns(log, longer, length + 1, rule)
        is_closed = grams.support > _longer_support(grams, longer if length < MAX_LENGTH else None)
        if rule.min_projects > 1:
            is_closed &= _count_projects(log, grams) >= rule.min_projects
        grams_by_length.append(grams)
        closed_by_length.append(is_closed)
        if not len(longer.positions):
            break
    patterns = _best_patterns(log, singles, grams_by_length, closed_by_length, rule)
    return MinedPatterns(patterns, KeySums.of_sessions(log.digests) if key_sums is None else key_sums, log.root_count)


def _best_patterns(
    log: _SequenceLog,
    singles: _Grams,
    grams_by_length: list[_Grams],
    closed_by_length: list[Bools],
    rule: PublicationRule,
) -> list[Pattern]:
    """Return the best patterns by rank; ties are ordered by their symbols."""
    support_parts, length_parts, symbol_parts, cohesion_parts = [], [], [], []
    joined = _measure_pairs(singles, grams_by_length[0])
    occurrences: list[_Occurrences] = []
    for length, (grams, is_closed) in enumerate(zip(grams_by_length, closed_by_length, strict=True), MIN_LENGTH):
        ids = np.flatnonzero(is_closed)
        order = np.argsort(grams.ids, kind="stable")
        bounds = np.searchsorted(grams.ids[order], np.stack([ids, ids + 1]))
        occurrences += [(grams.positions, order, start, end) for start, end in bounds.T.tolist()]
        symbols = np.full((len(ids), MAX_LENGTH), np.iinfo(np.int64).min)  # the padding sorts a prefix first
        cohesion = np.zeros(len(ids), np.float64)
        if len(ids):
            firsts = grams.positions[order[bounds[0]]]
            symbols[:, :length] = log.symbols[firsts[:, None] + np.arange(length)]
            pairs = np.searchsorted(grams_by_length[0].positions, firsts[:, None] + np.arange(length - 1))
            cohesion = joined[grams_by_length[0].ids[pairs]].min(axis=1)
        cohesion_parts.append(cohesion)
        support_parts.append(grams.support[ids])
        length_parts.append(np.full(len(ids), length))
        symbol_parts.append(symbols)
    support, lengths, symbols, cohesion = map(
        np.concatenate, (support_parts, length_parts, symbol_parts, cohesion_parts)
    )
    order = np.lexsort((*symbols.T[::-1], -support * (lengths - 1)))[: rule.max_candidates]
    columns = (symbols[order], lengths[order], support[order], cohesion[order].round(4))
    best = zip(order.tolist(), *(column.tolist() for column in columns), strict=True)
    return [
        Pattern(tuple(padded[:length]), count, joins, log, occurrences[n]) for n, padded, length, count, joins in best
    ]


def _measure_pairs(singles: _Grams, pairs: _Grams) -> npt.NDArray[np.float64]:
    """Return for each pair of steps its share of the places where the rarer of both is made."""
    times = np.bincount(singles.ids, minlength=len(singles.support))
    together = np.bincount(pairs.ids, minlength=len(pairs.support))
    shares = np.zeros(len(together), np.float64)
    rarer = np.minimum(
        *(times[singles.ids[np.searchsorted(singles.positions, pairs.positions + step)]] for step in (0, 1))
    )
    shares[pairs.ids] = together[pairs.ids] / rarer
    return shares


def _extend_patterns(log: _SequenceLog, grams: _Grams, length: int, rule: PublicationRule) -> _Grams:
    """Return the frequent patterns of `length`: only two frequent ones that overlap can make one."""
    if not len(grams.positions):
        return grams
    is_followed = grams.positions[1:] == grams.positions[:-1] + 1
    starts = grams.positions[:-1][is_followed]
    left, right = grams.ids[:-1][is_followed], grams.ids[1:][is_followed]
    in_session = log.session_at[starts] == log.session_at[starts + length - 1]
    pairs = left[in_session].astype(np.uint64) * np.uint64(len(grams.support)) + right[in_session].astype(np.uint64)
    return _keep_frequent(log, starts[in_session], pairs, rule)


def _keep_frequent(
    log: _SequenceLog, positions: npt.NDArray[np.intp], names: npt.NDArray[np.uint64], rule: PublicationRule
) -> _Grams:
    """Number the patterns at `positions`, each identified by its name, and keep the frequent ones."""
    _, ids = np.unique(names, return_inverse=True)
    id_count = int(ids.max()) + 1 if len(ids) else 0
    root_count = max(log.root_count, 1)
    id_root_pairs = sort_unique(ids.astype(np.int64) * root_count + log.root_at[positions])
    support = np.bincount(id_root_pairs // root_count, minlength=id_count)
    frequent = support >= rule.min_support
    new_ids = np.cumsum(frequent) - 1
    where = frequent[ids]
    return _Grams(
        positions[where].astype(np.int64), new_ids[ids[where]].astype(np.int64), support[frequent].astype(np.int64)
    )


def _longer_support(grams: _Grams, longer: _Grams | None) -> Ints:
    """Return for each pattern the largest support of a pattern one step longer, to the left or right; 0 for none."""
    largest = np.zeros(len(grams.support), np.int64)
    if longer is not None and len(longer.positions):
        support_at = longer.support[longer.ids]
        np.maximum.at(largest, grams.ids[np.searchsorted(grams.positions, longer.positions)], support_at)
        np.maximum.at(largest, grams.ids[np.searchsorted(grams.positions, longer.positions + 1)], support_at)
    return largest


def _count_projects(log: _SequenceLog, grams: _Grams) -> Ints:
    """Return in how many projects each pattern occurs."""
    project_count = int(log.project_of_session.max()) + 1 if len(log.project_of_session) else 1
    projects = log.project_of_session[log.session_at[grams.positions]]
    id_project_pairs = sort_unique(grams.ids * project_count + projects)
    counts: Ints = np.bincount(id_project_pairs // project_count, minlength=len(grams.support)).astype(np.int64)
    return counts
