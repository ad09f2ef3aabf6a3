"""Sums digests: contiguous patterns with their support in distinct lineage roots, and every other count.

Pure, exact and free of order: the same digests give the same tally, however they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from consolidator.memory.counts import Ints, key_hash

SHORTEST, LONGEST = 2, 8
_TASKS = {outcome: key_hash(("task", outcome)) for outcome in ("success", "failure")}


@dataclass(frozen=True, slots=True)
class DigestArrays:
    """What is summed of one session's digest."""

    session_id: str
    root_id: str  # forks and resumes of one session share it, and count once
    sequence: Ints
    seqs: Ints
    keys: Ints
    counts: Ints
    last_at: float = 0.0  # when its last event happened, in seconds since 1970
    project: str = ""

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
        return cls(session_id, root_id, one, two, three, four, last_at, project)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A frequent contiguous pattern of symbols."""

    symbols: tuple[int, ...]
    support: int  # distinct roots
    successes: int  # of the roots whose tasks have a known outcome
    failures: int
    evidence: tuple[tuple[str, int], ...] = ()  # session and seq of its first call; the latest sessions first


@dataclass(slots=True)
class Tally:
    """What all digests of a scope add up to."""

    patterns: list[Pattern]  # closed and frequent, best first
    totals: dict[int, tuple[int, int]]  # key -> how often, in how many roots; only keys that recur
    roots: int
    needed: dict[int, int] = field(default_factory=dict)  # hash -> position of a session that can name it
    sessions: list[str] = field(default_factory=list)

    def representatives(self) -> set[str]:
        """Return the sessions whose terms name everything in here."""
        return {self.sessions[position] for position in self.needed.values()}


class _Log:
    """All sequences, one after another."""

    def __init__(self, digests: list[DigestArrays]) -> None:
        self.digests = digests
        self.symbols = _joined([d.sequence for d in digests])
        self.seqs = _joined([d.seqs for d in digests])
        lengths = [len(d.sequence) for d in digests]
        self.session = np.repeat(np.arange(len(digests)), lengths)
        roots = sorted({d.root_id for d in digests})
        number = {root: n for n, root in enumerate(roots)}
        self.roots = len(roots)
        self.root_of = np.asarray([number[d.root_id] for d in digests], np.int64)
        self.root = self.root_of[self.session] if len(digests) else np.zeros(0, np.int64)
        projects = {project: n for n, project in enumerate(sorted({d.project for d in digests}))}
        self.project_of = np.asarray([projects[d.project] for d in digests], np.int64)


@dataclass(frozen=True, slots=True)
class _Grams:
    """The frequent patterns of one length: where they stand, and how many roots have each."""

    positions: Ints  # starts, ascending
    ids: Ints  # the pattern at each
    support: Ints  # by pattern


def tally(
    digests: Iterable[DigestArrays],
    min_support: int = 3,
    recurring: int = 2,
    limit: int = 2000,
    min_projects: int = 1,
) -> Tally:
    """Sum digests: at most `limit` closed patterns of `min_support` roots, and keys of `recurring` roots.

    With `min_projects` only patterns that so many projects share.
    """
    log = _Log(sorted(digests, key=lambda digest: digest.session_id))
    outcomes = _outcomes(log)
    found: list[Pattern] = []
    grams = _first(log, min_support)
    longer = _grow(log, grams, 2, min_support)
    for length in range(SHORTEST, LONGEST + 1):
        grams, longer = longer, _grow(log, longer, length + 1, min_support)
        closed = _closed(grams, longer if length < LONGEST else None)
        if min_projects > 1:
            closed &= _projects(log, grams) >= min_projects
        found.extend(_patterns(log, grams, closed, length, limit, outcomes))
        if not len(longer.positions):
            break
    found.sort(key=lambda pattern: (-pattern.support * (len(pattern.symbols) - 1), pattern.symbols))
    totals, needed = _totals(log, recurring)
    result = Tally(found[:limit], totals, log.roots, needed, [digest.session_id for digest in log.digests])
    _name_symbols(log, result)
    return result


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _begins(ordered: Ints) -> npt.NDArray[np.bool_]:
    """Tell of an ordered array where each value stands for the first time."""
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def _distinct(values: Ints) -> Ints:
    """Return the distinct values in order; sorts in place, and much faster than `np.unique`, which hashes."""
    values.sort()
    return values[_begins(values)]


def _first(log: _Log, min_support: int) -> _Grams:
    return _frequent(log, np.arange(len(log.symbols)), log.symbols.view(np.uint64), min_support)


def _grow(log: _Log, grams: _Grams, length: int, min_support: int) -> _Grams:
    """Join frequent patterns that overlap: only they can make a frequent longer one."""
    if not len(grams.positions):
        return grams
    follows = grams.positions[1:] == grams.positions[:-1] + 1
    starts = grams.positions[:-1][follows]
    left, right = grams.ids[:-1][follows], grams.ids[1:][follows]
    inside = log.session[starts] == log.session[starts + length - 1]
    pairs = left[inside].astype(np.uint64) * np.uint64(len(grams.support)) + right[inside].astype(np.uint64)
    return _frequent(log, starts[inside], pairs, min_support)


def _frequent(log: _Log, positions: npt.NDArray[np.intp], names: npt.NDArray[np.uint64], min_support: int) -> _Grams:
    """Number the patterns at `positions` and keep those that enough roots have."""
    _, ids = np.unique(names, return_inverse=True)
    kinds = int(ids.max()) + 1 if len(ids) else 0
    pairs = _distinct(ids.astype(np.int64) * max(log.roots, 1) + log.root[positions])
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


def _projects(log: _Log, grams: _Grams) -> Ints:
    """Return in how many projects each pattern stands."""
    width = int(log.project_of.max()) + 1 if len(log.project_of) else 1
    pairs = _distinct(grams.ids * width + log.project_of[log.session[grams.positions]])
    found: Ints = np.bincount(pairs // width, minlength=len(grams.support)).astype(np.int64)
    return found


def _outcomes(log: _Log) -> npt.NDArray[np.int8]:
    """Return for each root 1 where its tasks succeeded, -1 where one failed, 0 where nobody said."""
    told = np.zeros(log.roots, np.int8)
    for position, digest in enumerate(log.digests):
        root = log.root_of[position]
        if _TASKS["failure"] in digest.keys:
            told[root] = -1
        elif _TASKS["success"] in digest.keys and told[root] == 0:
            told[root] = 1
    return told


def _patterns(
    log: _Log, grams: _Grams, closed: npt.NDArray[np.bool_], length: int, limit: int, outcomes: npt.NDArray[np.int8]
) -> list[Pattern]:
    """Describe the best closed patterns of one length."""
    winners = np.flatnonzero(closed)
    if len(winners) > limit:  # ties at the limit are kept, so that the cut depends on no order
        threshold = np.sort(grams.support[winners])[-limit]
        winners = winners[grams.support[winners] >= threshold]
    order = np.argsort(grams.ids, kind="stable")
    bounds = np.searchsorted(grams.ids[order], np.stack([winners, winners + 1]))
    found = []
    for winner, start, end in zip(winners.tolist(), *bounds.tolist(), strict=True):
        positions = grams.positions[order[start:end]]
        told = outcomes[np.unique(log.root[positions])]
        found.append(
            Pattern(
                symbols=tuple(log.symbols[positions[0] : positions[0] + length].tolist()),
                support=int(grams.support[winner]),
                successes=int((told > 0).sum()),
                failures=int((told < 0).sum()),
                evidence=_evidence(log, positions),
            )
        )
    return found


def _evidence(log: _Log, positions: Ints, most: int = 5) -> tuple[tuple[str, int], ...]:
    """Return the first occurrence in each of the latest sessions."""
    sessions, first = np.unique(log.session[positions], return_index=True)
    seen = [
        (log.digests[s], int(log.seqs[positions[f]])) for s, f in zip(sessions.tolist(), first.tolist(), strict=True)
    ]
    seen.sort(key=lambda entry: (-entry[0].last_at, entry[0].session_id))
    return tuple((digest.session_id, seq) for digest, seq in seen[:most])


def _totals(log: _Log, recurring: int) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Sum the keys of all digests; keep those that enough roots have. Large: what is done with is let go at once."""
    keys = _joined([digest.keys for digest in log.digests])
    if not len(keys):
        return {}, {}
    lengths = np.asarray([len(digest.keys) for digest in log.digests])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(_begins(keys))
    names, first = keys[begins], order[begins]
    del keys
    sums = np.add.reduceat(_joined([digest.counts for digest in log.digests])[order], begins)
    pairs = np.repeat(np.arange(len(names)) * log.roots, np.diff(begins, append=len(order)))
    pairs += np.repeat(log.root_of, lengths)[order]
    del order
    roots = np.bincount(_distinct(pairs) // log.roots, minlength=len(names))
    del pairs
    kept = np.flatnonzero(roots >= recurring)
    owner = np.searchsorted(np.cumsum(lengths), first[kept], side="right")
    rows = zip(names[kept].tolist(), sums[kept].tolist(), roots[kept].tolist(), strict=True)
    needed = dict(zip(names[kept].tolist(), owner.tolist(), strict=True))
    return {name: (total, support) for name, total, support in rows}, needed


def _name_symbols(log: _Log, result: Tally) -> None:
    names, first = np.unique(log.symbols, return_index=True)
    owners = dict(zip(names.tolist(), log.session[first].tolist(), strict=True))
    for pattern in result.patterns:
        for value in pattern.symbols:
            result.needed.setdefault(value, owners[value])
