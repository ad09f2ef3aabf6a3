"""A million tool calls mined, in a process of its own with its peak of memory, and the same whatever the order."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import made
from benchmarks.memory import peak_megabytes
from benchmarks.report import Report
from benchmarks.server import Server
from consolidator.memory.procedures.digest import Digest, unpack_terms
from consolidator.memory.procedures.key_texts import Names
from consolidator.memory.procedures.patterns import DigestArrays, tally
from consolidator.memory.procedures.publishing import publish
from consolidator.models.event import Event

TITLE = "tool calls mined: summed and published"
CALLS = {"tiny": 5_000, "small": 1_000_000, "full": 1_000_000}
DISTINCT = {"tiny": 20, "small": 400, "full": 2000}  # sessions folded from events; the others are like them
LENGTH = 200  # events of a session


async def measure(server: Server, scale: str) -> Report:
    """Mine in a child, so that its memory is its own."""
    report = Report("mining", TITLE, scale)
    child = [sys.executable, "-m", "benchmarks.mining", str(CALLS[scale]), str(DISTINCT[scale])]
    process = await asyncio.create_subprocess_exec(*child, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"mining ended with {process.returncode}")
    told = json.loads(out)
    report.add("calls mined", told["calls"], f"in {told['sessions']:,} sessions")
    report.add("time", told["seconds"], "s", at_most=60)
    report.add("of it, tally", told["tally"], "s")
    report.add("calls a second", told["calls"] / told["seconds"])
    report.add("peak of memory", told["peak"], "MB", at_most=2048)
    report.add("of it, before mining", told["before"], "MB")
    report.add("other orders that came out the same", told["same"], f"of {told['orders']}", at_least=told["orders"])
    report.add("patterns", told["patterns"])
    report.add("procedures", told["procedures"])
    report.add("folding sessions into digests", told["folded"], "calls/s")
    return report


class _Sessions:
    """Digests of made-up sessions: some folded from events, the rest copies whose rare keys are their own."""

    def __init__(self, calls: int, distinct: int) -> None:
        self.terms: dict[str, bytes] = {}
        started = time.perf_counter()
        originals = [self._folded(number) for number in range(distinct)]
        folded = sum(one.calls for one in originals)
        self.rate = folded / (time.perf_counter() - started)
        common = self._common(originals)
        self.digests: list[DigestArrays] = []
        self.calls = 0
        while self.calls < calls:
            number = len(self.digests)
            original = originals[number % distinct]
            self.digests.append(original.copy(number, common))
            self.calls += original.calls

    def _folded(self, number: int) -> _Original:
        name = f"s{number:07}"
        digest = Digest(lambda text: text, b"benchmark")
        for seq, event in enumerate(made.session(number, LENGTH), 1):
            digest.feed(Event(name, seq, event.type, event.data, made.FIRST))
        packed = digest.pack()
        self.terms[name] = packed.terms
        arrays = DigestArrays.unpack(
            name, name, packed.sequence, packed.seqs, packed.keys, packed.counts, float(number)
        )
        return _Original(packed.calls, replace(arrays, project=made.project_of(number)))

    @staticmethod
    def _common(originals: Sequence[_Original]) -> set[int]:
        """Return the keys that recur, which copies share; the others would be new in every real session."""
        keys, counts = np.unique(np.concatenate([one.arrays.keys for one in originals]), return_counts=True)
        return set(keys[counts > 1].tolist())


class _Original:
    """A digest folded from events."""

    def __init__(self, calls: int, arrays: DigestArrays) -> None:
        self.calls = calls
        self.arrays = arrays
        self._rare: np.ndarray | None = None

    def copy(self, number: int, common: set[int]) -> DigestArrays:
        """Return the digest of another session like this one."""
        one = self.arrays
        name = f"s{number:07}"
        if name == one.session_id:
            return one
        if self._rare is None:
            self._rare = np.asarray([key not in common for key in one.keys.tolist()], np.bool_)
        moved = np.where(self._rare, one.keys ^ np.int64(number * 0x9E3779B97F4A7 & 0x7FFFFFFFFFFFFFFF), one.keys)
        order = np.argsort(moved)
        keys, counts = moved[order], one.counts[order]
        return replace(one, session_id=name, root_id=name, keys=keys, counts=counts, last_at=float(number))


def _mined(sessions: _Sessions, digests: Sequence[DigestArrays]) -> tuple[bytes, float, int, int]:
    """Return a hash of all that mining gives, the seconds of its tally, and how much it found."""
    started = time.perf_counter()
    found = tally(digests)
    seconds = time.perf_counter() - started
    terms: dict[int, str] = {}
    for packed in sessions.terms.values():
        terms |= unpack_terms(packed)
    learned = publish(found, Names.of(terms), agent="coder", project="work")
    told = {
        "patterns": [(one.symbols, one.support, one.outcomes, one.evidence()) for one in found.patterns],
        "totals": sorted(found.totals.recurring().told().items()),
        "procedures": [procedure.to_json() for procedure in learned.procedures],
        "profiles": {name: profile.to_json() for name, profile in learned.profiles.items()},
    }
    whole = hashlib.blake2b(json.dumps(told).encode()).digest()
    return whole, seconds, len(found.patterns), len(learned.procedures)


def _child(calls: int, distinct: int) -> None:
    sessions = _Sessions(calls, distinct)
    before = peak_megabytes()
    started = time.perf_counter()
    first, tallied, patterns, procedures = _mined(sessions, sessions.digests)
    seconds, peak = time.perf_counter() - started, peak_megabytes()
    shuffled = random.Random(1).sample(sessions.digests, len(sessions.digests))
    orders = [sessions.digests[::-1], shuffled]
    same = sum(_mined(sessions, order)[0] == first for order in orders)
    print(json.dumps({
        "calls": sessions.calls, "sessions": len(sessions.digests), "seconds": seconds, "tally": tallied, "peak": peak,
        "before": before, "same": same, "orders": len(orders), "patterns": patterns, "procedures": procedures,
        "folded": sessions.rate,
    }))  # fmt: skip


if __name__ == "__main__":
    _child(int(sys.argv[1]), int(sys.argv[2]))
