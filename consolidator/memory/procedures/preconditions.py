"""Learn preconditions from errors: a call failed, another tool was used on the same thing, then the call worked.

A left fold that counts such triples: Edit worked after Read of the same path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from consolidator.memory.procedures.key_counts import KeyCounts

MAX_FAILED = 8  # failed calls that wait for a success
WINDOW = 40  # calls


class _FailedCall(NamedTuple):
    symbol: str
    position: int  # of the call in its session, from 1
    values: list[int]  # hashes of its argument values
    done_since: list[str]  # symbols that used mostly the same values since


class PreconditionFold:
    """Counts preconditions into `counts`. Feed it calls in order, each with the hashes of its argument values."""

    def __init__(self, counts: KeyCounts) -> None:
        self.counts = counts
        self.call_count = 0
        self.failed_calls: list[_FailedCall] = []

    def feed(self, symbol: str, values: list[int], *, ok: bool) -> None:
        """Take a completed call."""
        self.call_count += 1
        self.failed_calls = [call for call in self.failed_calls if self.call_count - call.position <= WINDOW]
        value_hashes = frozenset(values)
        if not ok:
            self.failed_calls.append(_FailedCall(symbol, self.call_count, values, []))
            del self.failed_calls[:-MAX_FAILED]
            return
        still_failed = []
        for failed in self.failed_calls:
            if value_hashes.isdisjoint(failed.values):
                still_failed.append(failed)
            elif failed.symbol != symbol:
                is_same_thing = 2 * len(value_hashes.intersection(failed.values)) >= len(value_hashes)
                if is_same_thing and symbol not in failed.done_since and len(failed.done_since) < MAX_FAILED:
                    failed.done_since.append(symbol)
                still_failed.append(failed)
            else:
                for precondition in failed.done_since:
                    self.counts.add(("fixed", symbol, precondition))
        self.failed_calls = still_failed

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: symbols and hashes."""
        return {"count": self.call_count, "failed": self.failed_calls}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_json` returned."""
        self.call_count = state["count"]
        self.failed_calls = [
            _FailedCall(symbol, position, list(values), list(done))
            for symbol, position, values, done in state["failed"]
        ]
