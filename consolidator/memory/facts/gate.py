"""The gate of facts: what may be believed from whose words, by subject and trust, whatever kind a model calls it.

Only a person's own words tell of people, and only they set rules, preferences and decisions. The word of a tool, of a
page, of an agent, or what a person only passes on, may tell of a thing, in words that really stand there. A command to
whoever reads the log makes nothing believed that stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.addresses import has_foreign_address, is_measure, without_addresses
from consolidator.memory.facts.candidates import TRUST_RANK, SessionContext
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.orders import (
    INSTRUCTION,
    commands_memory,
    is_order,
    overrides_instructions,
    overrides_nearby,
)
from consolidator.memory.facts.people import (
    has_thing_word,
    is_named_setting,
    is_project,
    is_readable,
    is_sessions_own,
    is_thing,
    mentions_person,
    mixes_scripts,
    name_tokens,
    thing_words,
)
from consolidator.memory.facts.subjects import NOT_GROUNDED, find_subject_objection
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.text.similarity import content_words, has_form, name_words, numbers
from consolidator.memory.text.surroundings import heading_above, paragraph_around, sentence_around

ABOUT_A_PERSON = "about a person, whom no person's word tells of"
NO_THING = "a subject that is not known to be a thing, from a source that is not the user"
NOT_ITS_WORDS = "its value is not in the words it cites"
OTHERS_WORDS = "its value is from words that are not the user's"
UNREADABLE = "words of a language in which a person or an order might not be recognised, from no user"
DECEPTIVE = "letters that only look like others"
ORDER = "an instruction from a source that is not the user"
FOREIGN_NAME = "a name or address that others chose: only files and settings of this machine and project may name one"
_KINDS_OF_THINGS = frozenset({"environment", "project"})
_MAX_PREDICATE_WORDS = 5
_DATE = re.compile(r"\b\d{4}(?:-\d\d){0,2}\b")
_GERMAN_NOUN = re.compile(
    r"\b((?:[Dd](?:er|ie|as|en|em|es)|[Ee]in\w{0,2}|[Ii]m|[Aa]m|[Zz]u[mr]|[Vv]om|[Bb]eim) )[A-Z](?=[a-zäöüß]+\b)"
)
_GLUE = content_words("the of in on at for with by from and or not no has have can runs run located found set")
Proof = tuple[TranscriptLine, str]  # a line and the quote from it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a fact: rejected, for a person to review, or believed; and its sentence, where code wrote it."""

    rejected: str | None = None
    quarantined: str | None = None
    sentence: str | None = None


def judge_fact(
    fact: Mapping[str, Any], proofs: Sequence[Proof], chunk: TranscriptChunk, session: SessionContext
) -> Verdict:
    """Return what becomes of a fact of a model's answer, whose quotes are in the lines that it cites."""
    trust = least_trust(proofs)
    texts = [str(fact[name]) for name in ("subject", "predicate", "value", "sentence")]
    if any(overrides_instructions(text) for text in [*texts, *_quotes_and_sentences(proofs)]):
        return Verdict(rejected=INSTRUCTION)
    if trust == "user":
        return _judge_persons_word(fact, proofs, chunk, session)
    return _judge_data(fact, texts, proofs, chunk, session)


def least_trust(proofs: Sequence[Proof]) -> str:
    """Return the trust of the least trusted words that a fact rests on."""
    return min((line.trust_of(quote) for line, quote in proofs), key=lambda trust: TRUST_RANK[trust])


def known_people(chunk: TranscriptChunk, session: SessionContext) -> frozenset[str]:
    """Return the words of the names of those who are known in a session: its peer, and whoever speaks in it."""
    return name_tokens([session.peer, *(line.speaker for line in (*chunk.lines, *chunk.context))])


def _judge_persons_word(
    fact: Mapping[str, Any], proofs: Sequence[Proof], chunk: TranscriptChunk, session: SessionContext
) -> Verdict:
    if any(overrides_nearby(paragraph_around(line.text, quote)) for line, quote in proofs):
        return Verdict(rejected=INSTRUCTION)
    objection = _objection_to_origin(fact, chunk) or find_subject_objection(fact, proofs, chunk, session)
    return Verdict(rejected=objection)


def _judge_data(
    fact: Mapping[str, Any],
    texts: Sequence[str],
    proofs: Sequence[Proof],
    chunk: TranscriptChunk,
    session: SessionContext,
) -> Verdict:
    """Judge what no person said: a statement about a thing, which says nothing of people and commands nobody."""
    known = known_people(chunk, session)
    said = _quotes_and_sentences(proofs)
    foreign = [proof for proof in proofs if proof[0].trust_of(proof[1]) != "user"]
    if any(line.commands_memory for line, _ in foreign) or any(map(commands_memory, texts)):
        return Verdict(rejected=INSTRUCTION)
    if any(map(mixes_scripts, [*texts, *said])):
        return Verdict(rejected=DECEPTIVE)
    is_of_things = fact["kind"] in _KINDS_OF_THINGS
    not_of_things = ABOUT_A_PERSON if is_of_things else f"a {fact['kind']} that no user stated"
    if any(mentions_person(text, known) for text in texts[2:]):
        return Verdict(rejected=not_of_things)
    if any(map(is_order, [*texts, *said])):
        return Verdict(quarantined=ORDER)
    if not is_of_things or any(mentions_person(text, known) for text in [*texts[:2], *said]):
        return Verdict(rejected=not_of_things)
    if any(map(is_norm, [*texts, *said, *_contexts(foreign)])):
        return Verdict(quarantined=ORDER)
    is_local = all(line.is_local for line, _ in foreign)
    if not _is_known_thing(texts, said, foreign, known, session.project, is_local=is_local):
        return Verdict(rejected=NO_THING)
    if not all(is_readable(without_addresses(text) if is_local else text) for text in said):
        return Verdict(rejected=UNREADABLE)
    calls = " ".join(line.call or "" for line, _ in proofs)
    context = " ".join([*said, calls, *_headings(foreign, is_local=is_local)])
    is_own = is_local and is_sessions_own(texts[0])
    if not is_own and not _names_subject(texts[0], content_words(context), session.project):
        return Verdict(rejected=NOT_GROUNDED)
    shown = content_words(" ".join([calls, *(line.text for line, _ in proofs)]))
    if not _are_in(content_words(texts[2]), shown):
        return Verdict(rejected=NOT_ITS_WORDS)
    is_name = any(map(has_foreign_address, texts)) or not is_measure(
        f"{texts[0]} {texts[1]}", texts[2], thing_words(texts[0])
    )
    quarantined = FOREIGN_NAME if is_name and not is_local else None
    own = content_words(f"{texts[0]} {texts[1].replace('_', ' ')} {session.project or ''}") | _GLUE
    named = own | (shown if is_local else content_words(texts[2]))  # the sentence of others names nothing else
    if _are_in(content_words(texts[3]), named):
        return Verdict(quarantined=quarantined)
    sentence = f"{texts[0].strip()}: {texts[1].replace('_', ' ').strip()} {texts[2].strip()}"
    return Verdict(quarantined=quarantined, sentence=sentence)


def _is_known_thing(
    texts: Sequence[str],
    said: Sequence[str],
    foreign: Sequence[Proof],
    known: frozenset[str],
    project: str | None,
    *,
    is_local: bool,
) -> bool:
    """Tell whether a fact (subject, predicate, value, sentence) is about a thing, and its predicate a short one."""
    subject, predicate = texts[0], texts[1].replace("_", " ")
    if len(predicate.split()) > _MAX_PREDICATE_WORDS:
        return False
    if is_thing(subject, known, project, " ".join(said)):
        return True
    heading = " ".join(_headings(foreign, is_local=is_local))
    calls = " ".join(line.call or "" for line, _ in foreign)
    return (
        is_local
        and not mentions_person(f"{subject} {heading}", known)
        and (is_sessions_own(subject) or is_named_setting(subject, heading, calls))
    )


def _contexts(proofs: Sequence[Proof]) -> list[str]:
    """Return what stands around quotes of no person: their headings, and of words from elsewhere the paragraphs."""
    return [
        text
        for line, quote in proofs
        for text in (heading_above(line.text, quote), "" if line.is_local else paragraph_around(line.text, quote))
        if text
    ]


def _headings(proofs: Sequence[Proof], *, is_local: bool) -> list[str]:
    return [heading_above(line.text, quote) for line, quote in proofs] if is_local else []


def _names_subject(subject: str, named: frozenset[str], project: str | None) -> bool:
    """Tell whether words name a subject: at least one of its words, and each that is not just a word for things."""
    words = content_words(subject)
    return is_project(subject, project) or (
        any(has_form(word, named) for word in words)
        and all(has_thing_word(word) or _is_named(word, named) for word in subject.split())
    )


def _is_named(word: str, named: frozenset[str]) -> bool:
    """Tell whether a word is among words, whole or in all of its parts ("PostgreSQL" is "postgres", too)."""
    parts = content_words(word)
    return not parts or has_form(max(parts, key=len), named) or _are_in(parts, named)


def _objection_to_origin(fact: Mapping[str, Any], chunk: TranscriptChunk) -> str | None:
    """Return why the words of a fact are not a person's; None where they may be.

    Words that stand only in what tools or the agent said are theirs, though a person answered "yes"; so are all words
    that nobody said where nothing of the fact is a person's. Else such words are a paraphrase. Of the sentence only
    names and numbers count.
    """
    lines = (*chunk.context, *chunk.lines)
    own_text = " ".join(_own_text(line, str(fact["value"])) for line in lines)
    own = content_words(own_text)
    others = content_words(" ".join(f"{_others_text(line)} {line.call or ''}" for line in lines))
    spoken = set(re.findall(r"\w+", own_text.casefold()))
    for token in re.findall(r"\w+", f"{fact['value']} {fact['sentence']}"):  # "SendGrid", of which they say "sendgrid"
        own |= content_words(token) if token.casefold() in spoken else frozenset()
    sentence = _DATE.sub(" ", str(fact["sentence"]))
    stated = content_words(_DATE.sub(" ", str(fact["value"])))
    details = name_words(_GERMAN_NOUN.sub(r"\1", sentence)) | content_words(" ".join(numbers(sentence)))
    if any(not has_form(word, own) and word in others for word in stated | details):
        return OTHERS_WORDS
    everything = (stated | content_words(sentence)) - content_words(str(fact["subject"]))
    return NOT_ITS_WORDS if others and everything and not any(has_form(word, own) for word in everything) else None


def _others_text(line: TranscriptLine) -> str:
    """Return what a line holds that its speaker does not say themselves."""
    return line.quoted if line.trust == "user" else line.text


def _own_text(line: TranscriptLine, value: str) -> str:
    """Return what a line's speaker says in it themselves; of a choice that a value names, the question, too.

    Who chooses among offered answers has read the question: it says what the choice is about.
    """
    if line.trust != "user":
        return ""
    if line.is_choice and any(has_form(word, content_words(line.unquoted or "")) for word in content_words(value)):
        return line.text
    return f"{line.text if line.unquoted is None else line.unquoted} {line.speaker or ''}"


def _quotes_and_sentences(proofs: Sequence[Proof]) -> list[str]:
    return [text for line, quote in proofs for text in (quote, sentence_around(line.text, quote))]


def _are_in(words: frozenset[str], others: frozenset[str]) -> bool:
    return all(has_form(word, others) for word in words)
