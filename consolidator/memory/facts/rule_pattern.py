"""One form of stating something: the shape of a row in the tables that `rules` reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from consolidator.memory.text.phrasing import is_general

Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern with a group `value`, and what it makes known."""

    pattern: re.Pattern[str]
    predicate: str  # may name groups of the pattern
    says: str  # the sentence: {who} or {whom}, {value}, {does}, and groups of the pattern
    kind: str
    about: str  # person | work
    single: bool  # whether a later value takes the place of an earlier one
    check: Check  # what the value must be
    whole: bool  # whether the value is the rest of the sentence, and not only its first clause
    work_only: bool  # whether outside of a project it would be a wish of the moment
    anywhere: bool  # whether it may stand within a sentence
    replying: bool  # whether the words that lead in ("no, actually ...") belong to it


def rule(
    pattern: str,
    predicate: str,
    says: str,
    kind: str,
    *,
    about: str = "person",
    single: bool = False,
    check: Check = is_general,
    whole: bool = False,
    work_only: bool = False,
    anywhere: bool = False,
    replying: bool = False,
    cased: bool = False,
) -> Rule:
    """Return a row of a table; `cased` where capitals tell a name."""
    compiled = re.compile(pattern, 0 if cased else re.IGNORECASE)
    return Rule(compiled, predicate, says, kind, about, single, check, whole, work_only, anywhere, replying)
