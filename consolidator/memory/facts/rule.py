"""What a rule is: one form of stating a fact, as a row of the table in `rules`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from consolidator.memory.text.phrasing import is_generic


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the fact that it makes of a sentence."""

    name: str
    example: str  # a sentence that it makes a fact of
    pattern: str  # a regular expression with a group `value`
    predicate: str  # may name groups of the pattern
    sentence: str  # a template of {who} or {whom}, {value}, {does}, and groups of the pattern
    kind: str
    _: KW_ONLY
    about: str = "person"  # person | work
    single_valued: bool = False  # whether a later value replaces an earlier one
    check: Callable[[str], bool] = is_generic  # what a value must be; any other is rejected
    whole_sentence: bool = False  # whether the value is the rest of the sentence, and not only its first clause
    project_only: bool = False  # whether it holds in a project alone: elsewhere it is a wish of the moment
    to_agent: bool = False  # whether it tells an agent what to do: people who talk to each other mean something else
    anywhere: bool = False  # whether it may begin within a sentence
    keeps_lead_in: bool = False  # whether the pattern includes the words that lead in ("no, actually ...")
    case_sensitive: bool = False  # whether capitals mark a name
    regex: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.pattern, 0 if self.case_sensitive else re.IGNORECASE))
