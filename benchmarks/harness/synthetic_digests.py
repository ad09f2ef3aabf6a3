"""Digests of synthetic sessions without their events, as a long history leaves them; the same number, the same one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from benchmarks.harness import synthetic_sessions
from consolidator.database.partitions import Connection
from consolidator.memory.procedures.digest import Digest, PackedDigest
from consolidator.memory.procedures.key_counts import Ints
from consolidator.models.event import Event

AGENT = "coder"
_START = datetime(2025, 1, 1).astimezone()


@dataclass(frozen=True, slots=True)
class _Original:
    """A session's digest folded from events; others are copies of it, with rare keys of their own."""

    packed: PackedDigest
    keys: Ints
    counts: Ints


class SyntheticDigests:
    """Some digests folded from events, and as many copies as are wanted, each with rare keys of its own."""

    def __init__(self, distinct: int, length: int, projects: int = 1) -> None:
        self._projects = projects
        self._originals = [_fold_session(number, length) for number in range(distinct)]
        keys, sessions = np.unique(np.concatenate([o.keys for o in self._originals]), return_counts=True)
        self._common = keys[sessions > 1]

    @property
    def calls(self) -> float:
        """The calls of a session, on average."""
        return sum(original.packed.calls for original in self._originals) / len(self._originals)

    async def write(self, conn: Connection, numbers: Iterable[int]) -> list[str]:
        """Store the digests and sessions of these numbers, the higher the later; return their sessions."""
        chosen = [(number, f"made-{number:08}", f"project-{number % self._projects}") for number in numbers]
        columns = "id, agent, project, root_id, kind, status, created_at, last_event_at, last_occurred_at"
        async with conn.cursor().copy(f"copy session ({columns}) from stdin") as copy:
            for number, session, project in chosen:
                at = _START + timedelta(minutes=number)
                await copy.write_row((session, AGENT, project, session, "root", "open", at, at, at))
        columns = "session_id, agent, project, last_at, calls, sequence, seqs, keys, counts, terms, quotes"
        async with conn.cursor().copy(f"copy digest ({columns}, version) from stdin (format binary)") as copy:
            copy.set_types(["text", "text", "text", "timestamptz", "int8", *["bytea"] * 6, "text"])
            for number, session, project in chosen:
                original = self._originals[number % len(self._originals)]
                packed, at = original.packed, _START + timedelta(minutes=number)
                keys, counts = self._with_own_keys(original, number)
                await copy.write_row((
                    session, AGENT, project, at, packed.calls, packed.sequence, packed.seqs, keys, counts,
                    packed.terms, packed.quotes, packed.version,
                ))  # fmt: skip
        return [session for _, session, _ in chosen]

    def _with_own_keys(self, original: _Original, number: int) -> tuple[bytes, bytes]:
        mask = np.int64(number * 0x9E3779B97F4A7 & 0x7FFFFFFFFFFFFFFF)
        keys = np.where(np.isin(original.keys, self._common), original.keys, original.keys ^ mask)
        order = np.argsort(keys)
        return keys[order].tobytes(), original.counts[order].tobytes()


def _fold_session(number: int, length: int) -> _Original:
    digest = Digest(lambda text: text, b"benchmark")
    for seq, event in enumerate(synthetic_sessions.generate_session(number, length), 1):
        digest.feed(Event("made", seq, event.type, event.data, synthetic_sessions.START))
    packed = digest.pack()
    return _Original(packed, np.frombuffer(packed.keys, np.int64), np.frombuffer(packed.counts, np.int64))
