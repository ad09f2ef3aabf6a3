"""Decide which mined patterns are published as procedures. The whole rule is in this file; others only apply it.

A pattern of symbols is published in a scope (one project, or what an agent's projects share) when it is

1. contiguous, of 2 to 8 steps (MIN_LENGTH, MAX_LENGTH); what a session does in a loop of MIN_LOOP steps or more is one
   round;
2. frequent: at least `min_support` distinct lineage roots have it (the setting `min_support`, 3 by default);
3. shared: at least `min_projects` projects have it, 2 in the shared scope of an agent with several projects, else 1;
4. closed: no pattern that is one step longer has the same support, for that one says more;
5. named: each symbol has a text; a text that redaction would change is not stored;
6. purposeful: two different steps act, and one of them is no generic file tool; or a step uses the result of an
   earlier one;
7. distinct: it has two different symbols, and is no near-copy of a better one (the same steps in another order, a
   part of it, or more than MAX_OVERLAP of the steps in common and no other purpose);
8. among the best of its scope: the best `max_candidates` patterns by rank, support * (length - 1), are considered, and
   the first `max_procedures` that pass are published, those worth telling first;
9. for a project: not published in the agent's shared scope.

`patterns` applies 1 to 4 and ranks, `publishing` applies 5 to 8 with a `ProcedureSelection`, and the nightly merge
applies 9 with `exclude_shared`.

A published procedure is *worth telling*, so that it is listed and recalled without being asked for, when it

a. predicts its steps better than their pairs do: by MIN_GAIN bits on held-out lineage roots (`held_out_gain`), and its
   worth is no less than the bits that it takes to name it among the patterns of its length, so that a scope with many
   patterns does not tell what chance makes of them (minimum description length);
b. is more than one habit: it has MIN_DISTINCT different steps, since two are a pair, however often they alternate;
c. has a purpose: words that the goals of its sessions have more often than others (`purposes`), or too few goals are
   known to tell.

Its worth is the gain and the evidence for its purpose, in bits. What is always the same gains nothing over its pairs.
So a *regular* pattern, which follows at MIN_REGULAR of the places where its first step is made, is worth telling if b
holds: by the bits that its other steps take, each by its share of all steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import SHELL_PREFIX, display_name
from consolidator.memory.calls.tool_kinds import tool_base_name
from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.tool_profiles import ToolProfile, usual_command

if TYPE_CHECKING:
    from consolidator.memory.procedures.publishing import Procedure
    from consolidator.memory.procedures.purposes import Purpose

MIN_LENGTH, MAX_LENGTH = 2, 8  # steps of a pattern
MIN_GAIN = 1.0  # bits: what happened in the held-out sessions is twice as likely as by the pairs
MIN_REGULAR = 0.8  # of the occurrences of a pattern's first step, after which the others follow
MIN_LOOP = 3  # steps of a round that counts once however often it is repeated
MIN_DISTINCT = 3  # different steps of a procedure that is worth telling
MAX_OVERLAP = 0.6  # share of steps that two procedures may have in common, in order

Bools = npt.NDArray[np.bool_]
_Support = TypeVar("_Support", int, Ints)  # of one pattern, or of many


@dataclass(frozen=True, slots=True)
class PublicationRule:
    """The numbers of the rule, for one scope."""

    min_support: int = 3  # distinct lineage roots
    min_projects: int = 1
    min_askers: int = 2  # people whose goals must have a word of the purpose
    max_candidates: int = 2000
    max_procedures: int = 50

    @classmethod
    def for_scope(cls, min_support: int, *, is_shared: bool, project_count: int) -> PublicationRule:
        """Return the rule of a scope: a project, or what an agent's `project_count` projects share."""
        return cls(min_support, min_projects=2 if is_shared and project_count > 1 else 1)

    def is_frequent(self, support: Ints) -> Bools:
        """Mark the patterns that enough roots have."""
        return support >= self.min_support

    def is_shared(self, project_count: Ints) -> Bools:
        """Mark the patterns that enough projects have."""
        return project_count >= self.min_projects

    @staticmethod
    def is_closed(support: Ints, longer_support: Ints) -> Bools:
        """Mark the closed patterns; `longer_support` is the largest support of a pattern one step longer."""
        return support > longer_support

    @staticmethod
    def is_regular(times: Ints, first_step: Ints) -> Bools:
        """Mark the patterns that mostly follow where their first step is made, by how often both occur."""
        return times >= MIN_REGULAR * first_step

    @staticmethod
    def rank(support: _Support, length: _Support) -> _Support:
        """Return what patterns are ordered by, the largest first."""
        return support * (length - 1)


DEFAULT_RULE = PublicationRule()


class ProcedureSelection:
    """Selects procedures among the patterns of a scope. Offer them in order of rank."""

    def __init__(self, rule: PublicationRule, profiles: Mapping[str, ToolProfile]) -> None:
        self._max_procedures = rule.max_procedures
        self._purpose = _PurposeCheck(profiles)
        self._copies = _CopyCheck()
        self._display_names: dict[str, str] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more procedures are published in this scope."""
        return self._count >= self._max_procedures

    def accept(self, symbols: Sequence[str], purpose: Collection[str] = ()) -> bool:
        """Whether the pattern of these symbols is published; then later patterns may not be near-copies of it.

        `purpose` are the words that tell what it is for, where they are known.
        """
        if not self._purpose.is_purposeful(symbols):
            return False
        if not self._copies.add(tuple(map(self._display_name, symbols)), frozenset(purpose)):
            return False
        self._count += 1
        return True

    def _display_name(self, symbol: str) -> str:
        return self._display_names.get(symbol) or self._display_names.setdefault(symbol, display_name(symbol))


def exclude_shared(procedures: Iterable[Procedure], shared: Mapping[tuple[str, ...], bool]) -> list[Procedure]:
    """Return the procedures of a project without those that its agent's shared scope publishes and finds worth as much.

    `shared` says by symbols whether what that scope publishes is worth telling.
    """
    return [
        procedure
        for procedure in procedures
        if procedure.symbols not in shared or (procedure.worth > 0 and not shared[procedure.symbols])
    ]


def is_more_than_a_habit(symbols: Iterable[str]) -> bool:
    """Whether a pattern has different steps enough to be worth telling."""
    return len(set(map(display_name, symbols))) >= MIN_DISTINCT


def measure_worth(gain: float, purpose: Purpose, rivals: int, regularity: float = 0.0) -> float:
    """Return what telling a pattern is worth, in bits; 0 where it is listed only on request.

    `rivals` are the patterns of its length that are more than a habit, itself included.
    """
    worth = round(gain + purpose.bits, 4)
    return regularity if gain < MIN_GAIN or purpose.is_missing or worth < math.log2(rivals) else worth


class _PurposeCheck:
    """Checks whether patterns tell what they are for; looks at each symbol once."""

    def __init__(self, profiles: Mapping[str, ToolProfile]) -> None:
        self._profiles = profiles
        self._cache: dict[str, tuple[bool, bool]] = {}  # symbol -> whether it is specific, whether it acts

    def is_purposeful(self, symbols: Sequence[str]) -> bool:
        """Whether two steps act and one is no generic file tool, or a step uses the result of an earlier one."""
        acting, any_specific = set(), False
        for symbol in symbols:
            is_specific, acts = self._cache.get(symbol) or self._classify(symbol)
            any_specific = any_specific or is_specific
            if acts:
                acting.add(symbol)
        return len(acting) >= 2 if any_specific else self._passes_result(symbols)

    def _classify(self, symbol: str) -> tuple[bool, bool]:
        is_specific = not _is_generic(symbol, self._profiles)
        self._cache[symbol] = classes = (is_specific, is_specific or _changes_files(symbol))
        return classes

    def _passes_result(self, symbols: Sequence[str]) -> bool:
        for position, symbol in enumerate(symbols):
            profile = self._profiles.get(symbol)
            for path in profile.bindings if profile else ():
                binding = profile.binding(path) if profile else None
                if binding is not None and binding.kind == "result" and binding.source in symbols[:position]:
                    return True
        return False


class _CopyCheck:
    """Keeps the accepted patterns, none of them a near-copy of a better one."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}  # one bit for each symbol
        # Pattern, its bits, most steps that it may share, and its purpose.
        self._accepted: list[tuple[tuple[str, ...], int, float, frozenset[str]]] = []

    def add(self, pattern: tuple[str, ...], purpose: frozenset[str]) -> bool:
        """Accept a pattern unless it is a near-copy, or one symbol alone.

        What has many steps in common is no copy if it has another purpose.
        """
        bits = 0
        for symbol in pattern:
            bits |= self._bits.setdefault(symbol, 1 << len(self._bits))
        distinct, max_shared = bits.bit_count(), MAX_OVERLAP * len(pattern)
        if distinct < 2:
            return False
        repeats = len(pattern) - distinct
        for accepted, accepted_bits, accepted_max_shared, accepted_purpose in self._accepted:
            shared_bits = bits & accepted_bits
            # Skip the comparison for most: two patterns share at most the steps of their common symbols, and repeats.
            bound = shared_bits.bit_count() + repeats
            if shared_bits != bits and not (bound > max_shared and bound > accepted_max_shared):
                continue
            differs = bool(purpose and accepted_purpose) and purpose.isdisjoint(accepted_purpose)
            if _is_near_copy(pattern, accepted, MAX_OVERLAP if not differs else 1.0):
                return False
        self._accepted.append((pattern, bits, max_shared, purpose))
        return True


@lru_cache(maxsize=1 << 16)  # the scopes of an agent have mostly the same patterns
def _is_near_copy(pattern: tuple[str, ...], better: tuple[str, ...], max_overlap: float) -> bool:
    if sorted(pattern) == sorted(better) or _is_part_of(pattern, better):
        return True
    shared = _common_subsequence_length(pattern, better)
    return shared >= 2 and shared / max(len(pattern), len(better)) > max_overlap


def _is_part_of(pattern: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    starts = range(len(longer) - len(pattern) + 1)
    return any(longer[start : start + len(pattern)] == pattern for start in starts)


def _common_subsequence_length(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """Return the length of the longest common subsequence."""
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


def _is_generic(symbol: str, profiles: Mapping[str, ToolProfile]) -> bool:
    """Whether a symbol is a file tool that does not tell what it is for; a command that is always the same does."""
    if not symbol.startswith(SHELL_PREFIX):
        return tool_base_name(symbol) in _GENERIC_TOOLS
    if display_name(symbol).split(" ")[0] not in _GENERIC_PROGRAMS:
        return False
    return not usual_command(symbol, profiles)[1]


def _changes_files(symbol: str) -> bool:
    """Whether a symbol is a file tool that changes something."""
    if symbol.startswith(SHELL_PREFIX):
        return display_name(symbol).split(" ")[0] in _CHANGING or symbol.endswith(" >")
    return tool_base_name(symbol) in _CHANGING


# Programs and tools that only read or change files: they do not tell what a procedure is for.
_GENERIC_PROGRAMS = word_set(
    """
    ls cat head tail sed awk grep egrep rg find fd wc tree pwd cd echo printf mkdir touch cp mv rm file stat diff
    sort which du less more test sleep true vim nano cat> tee chmod ln xargs python python-c node open goto create
    edit insert append scroll_up scroll_down search_dir search_file find_file set_cursors write view str_replace
    """
)
_GENERIC_TOOLS = word_set(
    """
    read edit write multiedit notebookedit grep glob ls find search view open create str_replace insert read_file
    write_file edit_file create_file list_files list_dir list_directory search_files file_search grep_search
    codebase_search view_file str_replace_editor str_replace_based_edit_tool apply_patch patch todowrite todoread
    todo_write update_plan bashoutput killshell killbash taskoutput think
    """
)

_CHANGING = word_set(  # the generic ones that change something
    """
    mkdir touch cp mv rm tee chmod ln python node edit create insert append str_replace write multiedit notebookedit
    write_file edit_file create_file str_replace_editor str_replace_based_edit_tool apply_patch patch
    """
)
