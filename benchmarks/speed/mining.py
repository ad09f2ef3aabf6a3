"""A million tool calls mined in a child process: time, peak memory, and the same result in every order."""

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

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.peak_memory import peak_megabytes
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.memory.procedures.digest import Digest, unpack_terms
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, mine_patterns
from consolidator.memory.procedures.publishing import publish_scope
from consolidator.models.event import Event

TITLE = "tool calls mined: summed and published"
CALLS = {"tiny": 5_000, "small": 1_000_000, "full": 1_000_000}
DISTINCT = {"tiny": 20, "small": 400, "full": 2000}  # sessions folded from events; the others are copies of them
LENGTH = 200  # events of a session


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Mine in a child process, so that its peak memory is that of mining."""
    report = Report("mining", TITLE, scale)
    command = [sys.executable, "-m", "benchmarks.speed.mining", str(CALLS[scale]), str(DISTINCT[scale])]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"mining ended with {process.returncode}")
    result = json.loads(out)
    report.add("calls mined", result["calls"], f"in {result['sessions']:,} sessions")
    report.add("time", result["seconds"], "s", at_most=60)
    report.add("of it, tally", result["tally"], "s")
    report.add("calls a second", result["calls"] / result["seconds"])
    report.add("peak of memory", result["peak"], "MB", at_most=2048)
    report.add("of it, before mining", result["before"], "MB")
    report.add(
        "other orders that came out the same", result["same"], f"of {result['orders']}", at_least=result["orders"]
    )
    report.add("patterns", result["patterns"])
    report.add("procedures", result["procedures"])
    report.add("folding sessions into digests", result["folded"], "calls/s")
    return report


class _SyntheticDigests:
    """Digests of synthetic sessions: some folded from events, the rest copies with rare keys of their own."""

    def __init__(self, calls: int, distinct: int) -> None:
        self.terms: dict[str, bytes] = {}
        started = time.perf_counter()
        originals = [self._fold_session(number) for number in range(distinct)]
        folded = sum(original.calls for original in originals)
        self.rate = folded / (time.perf_counter() - started)
        common = self._find_common_keys(originals)
        self.digests: list[DigestArrays] = []
        self.calls = 0
        while self.calls < calls:
            number = len(self.digests)
            original = originals[number % distinct]
            self.digests.append(original.copy_to_session(number, common))
            self.calls += original.calls

    def _fold_session(self, number: int) -> _FoldedDigest:
        name = f"s{number:07}"
        digest = Digest(lambda text: text, b"benchmark")
        for seq, event in enumerate(synthetic_sessions.generate_session(number, LENGTH), 1):
            digest.feed(Event(name, seq, event.type, event.data, synthetic_sessions.START))
        packed = digest.pack()
        self.terms[name] = packed.terms
        columns = (packed.sequence, packed.seqs, packed.keys, packed.counts)
        arrays = DigestArrays.unpack(name, name, columns, float(number))
        return _FoldedDigest(packed.calls, replace(arrays, project=synthetic_sessions.project_of(number)))

    @staticmethod
    def _find_common_keys(originals: Sequence[_FoldedDigest]) -> set[int]:
        """Return the keys that recur, which copies share; the others would be new in every real session."""
        keys, counts = np.unique(np.concatenate([original.arrays.keys for original in originals]), return_counts=True)
        return set(keys[counts > 1].tolist())


class _FoldedDigest:
    """A digest folded from events."""

    def __init__(self, calls: int, arrays: DigestArrays) -> None:
        self.calls = calls
        self.arrays = arrays
        self._rare: np.ndarray | None = None

    def copy_to_session(self, number: int, common: set[int]) -> DigestArrays:
        """Return this digest as that of another session, with rare keys of its own."""
        arrays = self.arrays
        name = f"s{number:07}"
        if name == arrays.session_id:
            return arrays
        if self._rare is None:
            self._rare = np.asarray([key not in common for key in arrays.keys.tolist()], np.bool_)
        keys = np.where(self._rare, arrays.keys ^ np.int64(number * 0x9E3779B97F4A7 & 0x7FFFFFFFFFFFFFFF), arrays.keys)
        order = np.argsort(keys)
        keys, counts = keys[order], arrays.counts[order]
        return replace(arrays, session_id=name, root_id=name, keys=keys, counts=counts, last_at=float(number))


def _mine(sessions: _SyntheticDigests, digests: Sequence[DigestArrays]) -> tuple[bytes, float, int, int]:
    """Return a hash of the whole result, the seconds of the tally, and the numbers of patterns and procedures."""
    started = time.perf_counter()
    mined = mine_patterns(digests)
    seconds = time.perf_counter() - started
    terms: dict[int, str] = {}
    for packed in sessions.terms.values():
        terms |= unpack_terms(packed)
    learned = publish_scope(mined, KeyTexts.from_dict(terms), agent="coder", project="work")
    output = {
        "patterns": [
            (pattern.symbols, pattern.support, pattern.outcomes, pattern.evidence()) for pattern in mined.patterns
        ],
        "totals": sorted(mined.key_sums.recurring().to_dict().items()),
        "procedures": [procedure.to_json() for procedure in learned.procedures],
        "profiles": {name: profile.to_json() for name, profile in learned.profiles.items()},
    }
    fingerprint = hashlib.blake2b(json.dumps(output).encode()).digest()
    return fingerprint, seconds, len(mined.patterns), len(learned.procedures)


def _mine_and_print(calls: int, distinct: int) -> None:
    sessions = _SyntheticDigests(calls, distinct)
    before = peak_megabytes()
    started = time.perf_counter()
    expected, mining_seconds, patterns, procedures = _mine(sessions, sessions.digests)
    seconds, peak = time.perf_counter() - started, peak_megabytes()
    shuffled = random.Random(1).sample(sessions.digests, len(sessions.digests))
    orders = [sessions.digests[::-1], shuffled]
    same = sum(_mine(sessions, order)[0] == expected for order in orders)
    print(json.dumps({
        "calls": sessions.calls, "sessions": len(sessions.digests), "seconds": seconds, "tally": mining_seconds,
        "peak": peak, "before": before, "same": same, "orders": len(orders), "patterns": patterns,
        "procedures": procedures, "folded": sessions.rate,
    }))  # fmt: skip


if __name__ == "__main__":
    _mine_and_print(int(sys.argv[1]), int(sys.argv[2]))
