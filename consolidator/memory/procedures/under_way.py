"""Find the procedures that a session is in the middle of, and the steps that are left.

Pure: reads published procedures and the symbols of recent calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from consolidator.memory.calls.symbols import display_name
from consolidator.models.procedure import ProcedureRow

MIN_MATCH = 2  # calls in a row that say which procedure it is
_FREE = re.compile(r"<free>")


@dataclass(frozen=True, slots=True)
class ProcedureUnderWay:
    """A procedure of which the recent calls are a part."""

    procedure: ProcedureRow
    left: tuple[str, ...]  # the steps that follow, for people: the command where it is known, else the symbol
    matched: int  # recent calls that are steps of it


def find_procedures_under_way(procedures: Iterable[ProcedureRow], symbols: Sequence[str]) -> list[ProcedureUnderWay]:
    """Return the procedures that go on after these symbols, the latest last: those with the longest match first."""
    recent = [symbol for symbol, _ in groupby(symbols)]
    found = []
    for procedure in procedures:
        steps = [step["symbol"] for step in procedure.body["steps"]]
        matched, end = max(((_match_before(steps, end, recent), end) for end in range(1, len(steps))), default=(0, 0))
        left = procedure.body["steps"][end:]
        if matched >= MIN_MATCH and not procedure.mostly_fails:
            names = [_FREE.sub("…", step.get("command") or display_name(step["symbol"])) for step in left]
            found.append(ProcedureUnderWay(procedure, tuple(names), matched))
    return sorted(found, key=lambda under_way: (-under_way.matched, -under_way.procedure.support))


def _match_before(steps: Sequence[str], end: int, recent: Sequence[str]) -> int:
    """Return how many of the recent symbols, from the last one back, are the steps before a position."""
    matched = 0
    while matched < min(end, len(recent)) and steps[end - 1 - matched] == recent[-1 - matched]:
        matched += 1
    return matched
