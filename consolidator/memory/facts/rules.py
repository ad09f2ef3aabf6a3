"""What a person states outright, by the form of their sentence.

Precision before recall: a form that would have to be guessed at is left out. One sentence at a time, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from consolidator.memory.facts.personal_rules import PREFERENCES, PROFILE
from consolidator.memory.facts.rule_pattern import Rule
from consolidator.memory.facts.work_rules import CORRECTIONS, DECISIONS, INSTRUCTIONS, SURROUNDINGS
from consolidator.memory.text import phrasing
from consolidator.memory.text.phrasing import clause, in_third_person, trimmed

_TABLE = (*CORRECTIONS, *PROFILE, *PREFERENCES, *INSTRUCTIONS, *SURROUNDINGS, *DECISIONS)
_LONGEST = 200  # characters of a value
_DOES = {"can't stand": "cannot stand", "don't like": "does not like", "do not like": "does not like"}


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence states; `about` tells whether it is of the person or of the work at hand."""

    predicate: str
    value: str
    sentence: str
    kind: str
    about: str  # person | work
    single: bool
    refused: str | None = None  # why it is no fact, though a rule knows its form


def statements(sentence: str, *, at_work: bool, who: str = "the user") -> Iterator[Statement]:
    """Yield what a sentence states: refused readings, and the first that holds.

    `at_work` tells that it is said in a project, and not just in a conversation.
    """
    if phrasing.is_question(sentence) or phrasing.is_supposed(sentence):
        return
    bare = phrasing.without_lead(sentence)
    for rule in _TABLE:
        if rule.work_only and not at_work:
            continue
        text = sentence if rule.replying or rule.anywhere else bare
        found = rule.pattern.search(text) if rule.anywhere else rule.pattern.match(text)
        if found is None or phrasing.is_quoted(text, found.start()) or phrasing.is_doubted(text[: found.start()]):
            continue
        statement = _stated(rule, found, who)
        yield statement
        if statement.refused is None:
            return


def _told(rule: Rule, value: str) -> str:
    """Return a value as it is told of its speaker: names, addresses and identifiers stay as they are."""
    if rule.kind in ("profile", "relation") and rule.predicate != "occupation":
        return value
    return in_third_person(value)


def _stated(rule: Rule, found: re.Match[str], who: str) -> Statement:
    raw = found.group("value")
    value = trimmed(raw) if rule.whole else clause(raw)
    if rule.predicate == "rule" and value[1:2].islower():  # it began the sentence
        value = value[:1].lower() + value[1:]
    groups = {name: trimmed(group).lower() for name, group in found.groupdict().items() if group and name != "value"}
    what = groups.get("what", "")
    says = {"who": who, "whom": who, "value": _told(rule, value), "does": _DOES.get(what, f"{what}s"), **groups}
    sentence = rule.says.format(**says)
    refused = None
    if not value or len(value) > _LONGEST:
        refused = "says too little or too much"
    elif not rule.check(value):
        refused = "of the moment, or of what only those present can see"
    return Statement(
        predicate=rule.predicate.format(**groups)[:80],
        value=value[:_LONGEST],
        sentence=f"{sentence[:1].upper()}{sentence[1:]}",
        kind=rule.kind,
        about=rule.about,
        single=rule.single,
        refused=refused,
    )
