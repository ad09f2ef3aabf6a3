"""Finds what a sentence states outright, by the rules of `rules`. One sentence at a time, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from consolidator.memory.facts.candidates import AMONG_PEOPLE
from consolidator.memory.facts.rules import RULES, Rule
from consolidator.memory.text.phrasing import (
    ends_in_doubt,
    first_clause,
    is_hypothetical,
    is_inside_quotes,
    is_question,
    is_stump,
    mend_contractions,
    mend_now,
    strip_hypothesis,
    strip_lead_in,
    strip_memo,
    strip_punctuation,
)

_MAX_VALUE_CHARS = 200
_MAX_PREDICATE_CHARS = 80
_IN_GENERAL = re.compile(r"\b(?:in general|generally|usually|normally|always|ever|never)\b", re.IGNORECASE)
_THIRD_PERSON = {"can't stand": "cannot stand", "don't like": "does not like", "do not like": "does not like"}


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence states about a person, or about the work at hand."""

    predicate: str
    value: str
    sentence: str
    kind: str
    about: str  # person | work
    single_valued: bool = False
    rejected: str | None = None  # why it is no fact, though a rule matches
    confidence: str = "explicit"
    rule: str | None = None  # the name of the rule; None for what was observed


def find_statements(
    sentence: str, *, at_work: bool, who: str = "the user", among_people: bool = False
) -> Iterator[Statement]:
    """Yield what a sentence states: rejected readings, then the first that holds.

    `at_work`: it is said in a project, and not just in a conversation. `among_people`: to another person, and not to an
    agent. `who` is the name of the speaker in facts.
    """
    sentence = strip_memo(mend_contractions(sentence))
    considered = "a question" if is_question(sentence) else "only considered" if is_hypothetical(sentence) else None
    bare = mend_now(strip_hypothesis(strip_lead_in(sentence)))
    for rule in RULES:
        text = sentence if rule.keeps_lead_in or rule.anywhere else bare
        match = rule.regex.search(text) if rule.anywhere else rule.regex.match(text)
        if match is None:
            continue
        statement = _make_statement(rule, match, who)
        if is_stump(statement.value) and not strip_punctuation(sentence).endswith(statement.value):
            statement = replace(statement, rejected=statement.rejected or "words at its end are left out")
        if rule.is_mood and at_work and not _IN_GENERAL.search(sentence):
            statement = replace(statement, confidence="inferred")
        before = text[: match.start()]
        reason = considered or _place_rejection(rule, before, at_work=at_work, among_people=among_people)
        if reason is not None:
            if statement.rejected is None:
                yield replace(statement, rejected=reason)
            continue
        yield statement
        if statement.rejected is None:
            return


def _place_rejection(rule: Rule, before: str, *, at_work: bool, among_people: bool) -> str | None:
    """Return why a rule does not hold where its words stand, after the words `before` of their sentence."""
    if rule.project_only and not at_work:
        return "a wish of the moment, outside a project"
    if rule.to_agent and among_people:
        return AMONG_PEOPLE
    if is_inside_quotes(before, len(before)):
        return "quoted from elsewhere"
    return "said in doubt" if ends_in_doubt(before) else None


def _make_statement(rule: Rule, match: re.Match[str], who: str) -> Statement:
    text = match.group("value")
    value = strip_punctuation(text) if rule.whole_sentence else first_clause(text)
    if rule.predicate == "rule" and value[1:2].islower():  # the value began the sentence
        value = value[:1].lower() + value[1:]
    groups = {
        name: strip_punctuation(group or "") + " " * (group or "").endswith(" ")  # before what follows it
        for name, group in match.groupdict().items()
        if name != "value"
    }
    verb = groups.get("what", "").lower()
    does = _THIRD_PERSON.get(verb, f"{verb}s")
    sentence = rule.sentence.format(**{"who": who, "whom": who, "value": value, "does": does, **groups})
    predicate = rule.predicate.format(**{name: group.lower() for name, group in groups.items()})
    return Statement(
        predicate=predicate[:_MAX_PREDICATE_CHARS],
        value=value[:_MAX_VALUE_CHARS],
        sentence=f"{sentence[:1].upper()}{sentence[1:]}",
        kind=rule.kind,
        about=rule.about,
        single_valued=rule.single_valued,
        rejected=_rejection(rule, value),
        rule=rule.name,
    )


def _rejection(rule: Rule, value: str) -> str | None:
    """Return why a value makes no fact; None where it makes one."""
    if not value or len(value) > _MAX_VALUE_CHARS:
        return "says too little or too much"
    return None if rule.check(value) else "of the moment, or of what only those present can see"
