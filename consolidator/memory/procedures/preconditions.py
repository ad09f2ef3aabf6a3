"""Steps that errors teach: a call failed, another tool was used on the same thing, and then the call worked.

A left fold that counts such triples ("Edit" worked after "Read" of the same path), for the preconditions of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consolidator.memory.procedures.key_counts import KeyCounts

MAX_FAILED = 8  # failed calls that wait for a success
WINDOW = 40  # calls


class PreconditionFold:
    """Feed it calls in order, each with the hashes of its argument values."""

    def __init__(self, counts: KeyCounts) -> None:
        self.counts = counts
        self.count = 0
        # the failed calls: symbol, index, values, and what was done to the same values since
        self.failed: list[tuple[str, int, list[int], list[str]]] = []

    def feed(self, name: str, values: list[int], *, ok: bool) -> None:
        """Take a completed call."""
        self.count += 1
        self.failed = [entry for entry in self.failed if self.count - entry[1] <= WINDOW]
        given = frozenset(values)
        if not ok:
            self.failed.append((name, self.count, values, []))
            del self.failed[:-MAX_FAILED]
            return
        waiting = []
        for entry in self.failed:
            if given.isdisjoint(entry[2]):
                waiting.append(entry)
            elif entry[0] != name:
                same = 2 * len(given.intersection(entry[2])) >= len(given)  # mostly about the same thing
                if same and name not in entry[3] and len(entry[3]) < MAX_FAILED:
                    entry[3].append(name)
                waiting.append(entry)
            else:
                for inserted in entry[3]:
                    self.counts.add(("fixed", name, inserted))
        self.failed = waiting

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: names and hashes."""
        return {"count": self.count, "failed": self.failed}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `to_json` returned."""
        self.count = state["count"]
        self.failed = [(name, at, list(values), list(done)) for name, at, values, done in state["failed"]]
