"""Decide which mined patterns are published as procedures. The whole rule is in this file; others only apply it.

A pattern of symbols is published in a scope (one project, or what an agent's projects share) when it is

1. contiguous, of 2 to 8 steps (MIN_LENGTH, MAX_LENGTH). What failed, what only looked at something and what keeps the
   harness's books is no step; what a session does in a loop is one round;
2. frequent: at least `min_support` distinct lineage roots have it (the setting `min_support`, 3 by default);
3. shared: at least `min_projects` projects have it, 2 in the shared scope of an agent with several projects, else 1;
4. closed: no pattern that is one step longer has the same support, for that one says more;
5. named: each symbol has a text; a text that redaction would change is not stored;
6. telling: it has two different steps, and one that says what it is for: no edit, and no program that any work uses,
   unless its command is always the same;
7. distinct: it is no near-copy of a better one (the same steps in another order, as of a loop that begins elsewhere; a
   part of it; or more than MAX_OVERLAP of the steps in common);
8. among the best of its scope: those worth telling first, then by rank, support * (length - 1); of `max_candidates` the
   first `max_procedures` that pass are published;
9. for a project: not published in the agent's shared scope.

`patterns` applies 1 to 4 and ranks, `publishing` applies 5 to 8 with a `ProcedureSelection`, and the nightly merge
applies 9 with `exclude_shared`.

A published procedure is *worth telling*, so that it is listed and recalled without being asked for, when it has
MIN_DISTINCT different steps, MIN_TELLING of which say what it is for, and each step goes with the next in MIN_COHESION
of the places where the rarer of both is made: chance makes no such chains. What is always the same is worth as much as
what varies. Its worth is its support times its telling steps but one; at most MAX_TOLD of a scope are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import display_name, is_edit, is_shell_symbol
from consolidator.memory.calls.tool_kinds import FILE_PROGRAMS, INTERPRETERS, WRITING_PROGRAMS
from consolidator.memory.procedures.tool_profiles import ToolProfile, usual_command

if TYPE_CHECKING:
    from consolidator.memory.procedures.publishing import Procedure

MIN_LENGTH, MAX_LENGTH = 2, 8  # steps of a pattern
MIN_LOOP = 2  # steps of a round that counts once however often it is repeated
MIN_DISTINCT = 3  # different steps of a procedure that is worth telling
MIN_TELLING = 2  # of them that say what it is for
MIN_COHESION = 1 / 3  # of the places where the rarer of two steps is made, at which the other goes with it
MAX_TOLD = 15  # of a scope
MAX_OVERLAP = 0.6  # share of steps that two procedures may have in common, in order


@dataclass(frozen=True, slots=True)
class PublicationRule:
    """The numbers of the rule, for one scope."""

    min_support: int = 3  # distinct lineage roots
    min_projects: int = 1
    max_candidates: int = 2000
    max_procedures: int = 50

    @classmethod
    def for_scope(cls, min_support: int, *, is_shared: bool, project_count: int) -> PublicationRule:
        """Return the rule of a scope: a project, or what an agent's `project_count` projects share."""
        return cls(min_support, min_projects=2 if is_shared and project_count > 1 else 1)


DEFAULT_RULE = PublicationRule()


class ProcedureSelection:
    """Selects procedures among the patterns of a scope. Offer them in order: those worth telling first."""

    def __init__(self, rule: PublicationRule, is_telling: Callable[[str], bool]) -> None:
        self._max_procedures = rule.max_procedures
        self._is_telling = is_telling
        self._copies = _CopyCheck()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more procedures are published in this scope."""
        return self._count >= self._max_procedures

    def accept(self, symbols: Sequence[str]) -> bool:
        """Whether the pattern of these symbols is published; then later patterns may not be near-copies of it."""
        if not any(map(self._is_telling, symbols)) or not self._copies.add(tuple(map(display_name, symbols))):
            return False
        self._count += 1
        return True


def exclude_shared(procedures: Iterable[Procedure], shared: Mapping[tuple[str, ...], bool]) -> list[Procedure]:
    """Return the procedures of a project without those that its agent's shared scope publishes and finds worth as much.

    `shared` says by symbols whether what that scope publishes is worth telling.
    """
    return [
        procedure
        for procedure in procedures
        if procedure.symbols not in shared or (procedure.worth > 0 and not shared[procedure.symbols])
    ]


def measure_worth(symbols: Sequence[str], support: int, cohesion: float, is_telling: Callable[[str], bool]) -> float:
    """Return what telling a pattern is worth; 0 where it is listed only on request.

    A task behind two wrappers is one step, and an edit at the end begins the next round.
    """
    distinct = {display_name(symbol).removesuffix(" >").split()[-1] for symbol in symbols}
    telling = sum(map(is_telling, set(symbols)))
    if len(distinct) < MIN_DISTINCT or telling < MIN_TELLING or cohesion < MIN_COHESION or is_edit(symbols[-1]):
        return 0.0
    return float(support * (telling - 1))


def is_telling(symbol: str, profiles: Mapping[str, ToolProfile]) -> bool:
    """Whether a step says what a procedure is for: no edit, and no program of any work, but for a fixed command."""
    if not is_shell_symbol(symbol):
        return not is_edit(symbol)
    return display_name(symbol).removesuffix(" >") not in _GENERIC_PROGRAMS or usual_command(symbol, profiles)[1]


class _CopyCheck:
    """Keeps the accepted patterns, none of them a near-copy of a better one."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}  # one bit for each symbol
        self._accepted: list[tuple[tuple[str, ...], int]] = []  # pattern, and its bits

    def add(self, pattern: tuple[str, ...]) -> bool:
        """Accept a pattern unless it is a near-copy, or one symbol alone."""
        bits = 0
        for symbol in pattern:
            bits |= self._bits.setdefault(symbol, 1 << len(self._bits))
        distinct, max_shared = bits.bit_count(), MAX_OVERLAP * len(pattern)
        if distinct < 2:
            return False
        repeats = len(pattern) - distinct
        for accepted, accepted_bits in self._accepted:
            shared_bits = bits & accepted_bits
            # Skip the comparison for most: two patterns share at most the steps of their common symbols, and repeats.
            bound = shared_bits.bit_count() + repeats
            if shared_bits != bits and not (bound > max_shared and bound > MAX_OVERLAP * len(accepted)):
                continue
            if _is_near_copy(pattern, accepted):
                return False
        self._accepted.append((pattern, bits))
        return True


@lru_cache(maxsize=1 << 16)  # the scopes of an agent have mostly the same patterns
def _is_near_copy(pattern: tuple[str, ...], better: tuple[str, ...]) -> bool:
    starts = range(len(better) - len(pattern) + 1)
    if sorted(pattern) == sorted(better) or any(better[n : n + len(pattern)] == pattern for n in starts):
        return True
    shared = _common_subsequence_length(pattern, better)
    return shared >= 2 and shared / max(len(pattern), len(better)) > MAX_OVERLAP


def _common_subsequence_length(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    row = [0] * (len(second) + 1)  # of the dynamic program: lengths for the prefixes of `second`
    for symbol in first:
        diagonal = 0
        for position, other in enumerate(second, 1):
            above = row[position]
            if symbol == other:
                row[position] = diagonal + 1
            elif row[position - 1] > above:
                row[position] = row[position - 1]
            diagonal = above
    return row[-1]


_GENERIC_PROGRAMS = (
    FILE_PROGRAMS
    | WRITING_PROGRAMS
    | INTERPRETERS
    | word_set("create insert append write str_replace set_cursors xargs")
)
