"""The gate of facts: a person's own words alone are believed, of whom they are about, and nothing that others said.

Whose words a line holds is known by structure; what they mean, the model states. A command to whoever reads the log
makes nothing believed that stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, overrides_instructions, overrides_nearby
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.text.sentences import paragraph_around, sentence_around
from consolidator.memory.text.similarity import content_words, has_form, name_words, numbers

PERSONS_NAMES = frozenset({"user", "the user", "me", "i"})  # how a model calls the person of a session
NOT_PERSONS = "cites what no person said"
PASSED_ON = "passed on by a person, not said by them"
NOT_ITS_WORDS = "its value is not in the words it cites"
OTHERS_WORDS = "its value is from words that are not the user's"
NOT_THE_SPEAKER = "said about somebody else than the speaker"
NOT_GROUNDED = "about somebody whom nobody named"
LOOSENS = "may have been allowed only once: it loosens a check"
_LOOSENS = re.compile(r"(?<!\S)[`'\"]?--(?:no-verify|force|insecure|skip|no-check|no-gpg-sign)\b", re.IGNORECASE)
_DATE = re.compile(r"\b\d{4}(?:-\d\d){0,2}\b")
_FULL_NAME = re.compile(r"\b[A-Z]\w+(?: [A-Z]\w+)+")
_GERMAN_NOUN = re.compile(
    r"\b((?:[Dd](?:er|ie|as|en|em|es)|[Ee]in\w{0,2}|[Ii]m|[Aa]m|[Zz]u[mr]|[Vv]om|[Bb]eim) )[A-Z](?=[a-zäöüß]+\b)"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a fact: rejected, for a person to review, or believed."""

    rejected: str | None = None
    quarantined: str | None = None


def judge_fact(
    fact: Mapping[str, Any], line: TranscriptLine, quote: str, chunk: TranscriptChunk, session: SessionContext
) -> Verdict:
    """Return what becomes of a fact of a model's answer, whose quote is in the person's line that it cites."""
    texts = [str(fact[name]) for name in ("subject", "predicate", "value", "sentence")]
    around = paragraph_around(line.text, quote)
    if any(map(overrides_instructions, [*texts, quote, sentence_around(line.text, quote)])) or overrides_nearby(around):
        return Verdict(rejected=INSTRUCTION)
    if not line.is_own(quote):
        is_command = commands_memory(line.quoted) or any(map(commands_memory, texts))
        return Verdict(rejected=INSTRUCTION) if is_command else Verdict(quarantined=PASSED_ON)
    objection = _objection_to_origin(fact, chunk) or _objection_to_subject(fact, line, quote, chunk, session)
    is_loosening = _LOOSENS.search(" ".join([*texts, quote])) is not None
    return Verdict(objection, LOOSENS if is_loosening and objection is None else None)


def _objection_to_subject(
    fact: Mapping[str, Any], line: TranscriptLine, quote: str, chunk: TranscriptChunk, session: SessionContext
) -> str | None:
    """Return why a fact is not about whom it says, by what the model states; None where it may be.

    Somebody else is named before the quote or in its sentence, or is known by name in the session.
    """
    subject = str(fact["subject"])
    speakers = {other.speaker for other in (*chunk.context, *chunk.lines) if other.speaker}
    people = frozenset().union(*map(_names, (*speakers, session.peer or "")))
    name = subject.strip().casefold()
    own = _names(line.speaker or session.peer or "")  # the peer, where no line has a name
    if name in PERSONS_NAMES or (_names(name) and _names(name) <= own):
        return NOT_THE_SPEAKER if fact["about"] == "other" else None
    if fact["about"] == "speaker" and _names(subject) & people:
        return NOT_THE_SPEAKER
    project = session.project or ""
    projects = {each.casefold() for each in (project, PurePosixPath(project).name, PureWindowsPath(project).name)}
    if fact["about"] != "other" or name in projects or name.startswith("user's "):
        return None
    sentence = sentence_around(line.text, quote)
    spoken = people | _names(line.text.partition(sentence)[0] + sentence)
    before = (other for other in (*chunk.context, *chunk.lines) if other.is_persons and other.seq < line.seq)
    spoken = spoken.union(*(_names(other.text) for other in before))
    return None if any(has_form(word, spoken) for word in _names(subject)) else NOT_GROUNDED


def _objection_to_origin(fact: Mapping[str, Any], chunk: TranscriptChunk) -> str | None:
    """Return why the words of a fact are not a person's; None where they may be.

    Words that stand only in what the agent said or others told it are theirs, though a person answered "yes"; so are
    all words where nothing of the fact is a person's. Else such words are a paraphrase. Of the sentence only names and
    numbers count.
    """
    lines = (*chunk.context, *chunk.lines)
    own_text = " ".join(_own_text(line, str(fact["value"])) for line in lines)
    own = content_words(own_text)
    agents = (f"{line.text} {line.detail or ''} {line.outcome or ''}" for line in lines if not line.is_persons)
    others_words = (words for _, words, _ in chunk.origins.told)
    others = content_words(" ".join([*agents, *(line.quoted for line in lines), *others_words]))
    spoken = set(re.findall(r"\w+", own_text.casefold()))
    for token in re.findall(r"\w+", f"{fact['value']} {fact['sentence']}"):  # "SendGrid", of which they say "sendgrid"
        own |= content_words(token) if token.casefold() in spoken else frozenset()
    sentence = _DATE.sub(" ", str(fact["sentence"]))
    stated = content_words(_DATE.sub(" ", str(fact["value"])))
    details = name_words(_GERMAN_NOUN.sub(r"\1", sentence)) | content_words(" ".join(numbers(sentence)))
    subject = content_words(str(fact["subject"]))
    for name in (subject, *map(content_words, _FULL_NAME.findall(sentence))):
        if any(has_form(word, own) for word in name):  # "GitHub Copilot", which they call "github"
            details -= name & chunk.origins.vouched
    if any(not has_form(word, own) and word in others for word in stated | details):
        return OTHERS_WORDS
    everything = (stated | content_words(sentence)) - subject
    return NOT_ITS_WORDS if everything and not any(has_form(word, own) for word in everything) else None


def _own_text(line: TranscriptLine, value: str) -> str:
    """Return what a line's speaker says in it themselves; of a choice that a value names, the question, too.

    Who chooses among offered answers has read the question: it says what the choice is about.
    """
    if not line.is_persons:
        return ""
    if line.is_choice and any(has_form(word, content_words(line.unquoted or "")) for word in content_words(value)):
        return line.text
    return f"{line.text if line.unquoted is None else line.unquoted} {line.speaker or ''}"


def _names(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w+", text.casefold()) if len(word) > 1 and word != "and")
