"""What a rule is: one form of stating a fact, as a row of the table in `rules`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from consolidator.memory.text.phrasing import is_generic


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern with a group `value`, and the fact that it makes of a sentence."""

    name: str
    example: str  # a sentence that it makes a fact of
    pattern: re.Pattern[str]
    predicate: str  # may name groups of the pattern
    sentence: str  # a template of {who} or {whom}, {value}, {does}, and groups of the pattern
    kind: str
    about: str  # person | work
    single_valued: bool  # whether a later value takes the place of an earlier one
    check: Callable[[str], bool]  # what a value must be; one that is not is rejected
    whole_sentence: bool  # whether the value is the rest of the sentence, and not only its first clause
    project_only: bool  # whether it holds in a project alone: elsewhere it is a wish of the moment
    anywhere: bool  # whether it may begin within a sentence
    keeps_lead_in: bool  # whether the pattern includes the words that lead in ("no, actually ...")


def rule(
    name: str,
    example: str,
    pattern: str,
    predicate: str,
    sentence: str,
    kind: str,
    *,
    about: str = "person",
    single_valued: bool = False,
    check: Callable[[str], bool] = is_generic,
    whole_sentence: bool = False,
    project_only: bool = False,
    anywhere: bool = False,
    keeps_lead_in: bool = False,
    case_sensitive: bool = False,
) -> Rule:
    """Return a row of the table; `case_sensitive` where capitals mark a name."""
    compiled = re.compile(pattern, 0 if case_sensitive else re.IGNORECASE)
    return Rule(
        name,
        example,
        compiled,
        predicate,
        sentence,
        kind,
        about,
        single_valued,
        check,
        whole_sentence,
        project_only,
        anywhere,
        keeps_lead_in,
    )
