"""What may be told to everybody of a solution that several people's sessions taught: forms, and nothing of a case.

Where people are counted in place of sessions, a form is shared if enough people's cases prove it. What it writes and
leaves out stands in every case that it explains; values, quotes and texts of single calls are left out. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from consolidator.memory.solutions.fix_form import FixForm
from consolidator.memory.solutions.solution import Fix, Solution


def share_solution(solution: Solution, headline: str, min_people: int) -> Solution:
    """Return a solution without its cases; `headline` is the masked one. Its fixes count people as sessions."""
    fixes = tuple(
        _share_fix(fix, headline) for fix in solution.fixes if fix.form is not None and fix.sessions >= min_people
    )
    status = "confirmed" if any(fix.confirmed for fix in fixes) else "unconfirmed" if fixes else "unsolved"
    return replace(
        solution, headline=headline, status=status, fixes=fixes, tried=(), evidence=(), last_at="", withheld=()
    )


def _share_fix(fix: Fix, headline: str) -> Fix:
    assert fix.form is not None
    return replace(
        fix,
        description=FixForm.from_json(fix.form).describe(),
        steps=(),
        failing="",
        resolving="",
        headline=headline,
        evidence=(),
        last_time="",
        values=(),
    )


def most_common_of_people(values: Iterable[tuple[str, str]], min_people: int, fallback: str) -> str:
    """Return the value that most people have, of pairs of person and value; the fallback where too few have any."""
    people: Mapping[str, set[str]] = defaultdict(set)
    for person, value in values:
        people[value].add(person)
    counts = Counter({value: len(named) for value, named in people.items() if len(named) >= min_people})
    return min(counts, key=lambda value: (-counts[value], value)) if counts else fallback
