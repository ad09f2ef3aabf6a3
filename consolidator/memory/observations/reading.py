"""Turns what a model says that an agent found out into candidates, each with a quote of the agent's own words.

An observation says how things are, never what to do. What was told to the agent, what excuses a failure or loosens a
check is held for a person.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.candidates import REDACTED_MARK, Candidate, Proposals, RejectedCandidate, SessionContext
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_order, overrides_instructions
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.observations.origin import is_told
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.similarity import content_words

OBSERVATION = "observation"  # the kind of a candidate and of a fact
MAX_OBSERVATIONS, MAX_SENTENCE = 5, 200
HEDGED, NO_NAME, TOLD = "only a guess", "names no file, command or symbol", "told to the agent by others, not found"
EXCUSE, LOOSENING, PASSING = "excuses a failure", "loosens a check", "about the work in hand"
_NAME = re.compile(r"`([^`\n]{2,80})`|(?<![\w@])([\w@-]*[./_@:]\w[\w@./:+-]*|\w*[a-z][A-Z]\w*|[a-z]+\d\w*|--?\w[\w-]*)")
_HEDGE = re.compile(
    r"\b(?:may|might|maybe|perhaps|likely|probably|possibly|seems?|appears?|suspect|guess|assum\w+|presumably|could be"
    r"|i think|wohl|vermutlich|vielleicht|scheint|peut-etre|semble)\b|かもしれ|らしい|ようです|可能|也许|似乎",
    re.IGNORECASE,
)
_PASSING = re.compile(r"\b(?:now|currently|would|planned|will|todo|bug|for the moment|temporar\w+)\b", re.IGNORECASE)
_EXCUSE = re.compile(
    r"\b(?:expected|harmless|flak\w+|on purpose|intentional\w*|ignor\w+|broken|by design|known issue|spurious|unrelated"
    r"|benign|cosmetic|false positive|same as|equivalent|covers?|not needed|optional|absichtlich|harmlos|attendu)\b"
    r"|無視|想定|忽略|预期",
    re.IGNORECASE,
)
_LOOSENING = re.compile(
    r"\b(?:(?:is|are|be|turn\w*|switch\w*) off|disabl\w+|skip\w*|bypass\w*"
    r"|certificat\w+|tls|ssl|verif\w+|tokens?|secrets?|keys?|passwords?|credentials?"
    r"|prod(?:uction)?|sudo|root|chmod|force|trust\w*|registry|mirror|proxy|install\w*|downloads?|upload\w*|push\w*"
    r"|deploy\w*|unsafe|insecure|--no-\w+)\b|(?<!\S)-n\b|--(?:no-|force|insecure|skip)|\w://",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KnownObservation:
    """A sentence that a question shows as known: another session may show it anew, or show that it is over."""

    subject: str
    predicate: str
    value: str
    sentence: str

    @property
    def name(self) -> str:
        """By which a question and its answer call it: the same whatever else is known."""
        text = "\x1f".join((self.subject, self.predicate, self.value))
        return f"K{int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 100_000}"


def read_observations(
    chunk: TranscriptChunk,
    answer: Mapping[str, Any],
    session: SessionContext,
    extractor: str,
    revision: int,
    known: Sequence[KnownObservation] = (),
) -> Proposals:
    """Return the observations of an answer, and what it says of known ones, as candidates; none outside a project."""
    proposals = Proposals()
    if session.project is None:
        return proposals
    lines = chunk.named_lines()
    by_name = {item.name: item for item in known}

    def add(item: KnownObservation, cited: Mapping[str, Any], *, is_end: bool = False, held: str | None = None) -> None:
        line = lines.get(str(cited["line"]))
        quotes = line.find_quote(str(cited["quote"])) if line else ()
        reason = _rejection(item, quotes, line, is_end=is_end)
        if line is None or reason:
            proposals.rejected.append(_reject(item, line or chunk.lines[0], reason or "", session, extractor))
            return
        names = _names(item.sentence)
        held = held or (None if is_end else _objection(item.sentence, quotes[0], names, chunk.told))
        proposals.candidates.append(_candidate(item, line, quotes[0], session, extractor, revision, held, is_end))

    for stated in answer.get("observations", [])[:MAX_OBSERVATIONS]:
        sentence = " ".join(strip_invisible(str(stated["sentence"])).split())
        names = _names(sentence)
        predicate = f"observed_{stated['kind']}"
        add(KnownObservation(names[0] if names else session.project, predicate, sentence, sentence), stated)
    for key, is_end in (("again", False), ("ended", True)):
        for cited in answer.get(key, [])[:MAX_OBSERVATIONS]:
            item = by_name.get(str(cited["known"]))
            quote_words = content_words(str(cited["quote"]))
            if item is not None and quote_words & content_words(item.sentence):
                add(item, cited, is_end=is_end)
    return proposals


def _names(sentence: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(sentence)]


def _rejection(
    item: KnownObservation, quotes: Sequence[str], line: TranscriptLine | None, *, is_end: bool
) -> str | None:
    """Return why an observation is none."""
    if line is None or not quotes:
        return "quote not in event"
    if line.source != "agent" and not (is_end and line.trust == "user"):  # a person's word may end one
        return "not the agent's own words"
    if is_end:
        return None
    sentence = item.sentence
    if not sentence or len(sentence) > MAX_SENTENCE:
        return "empty or too long"
    if REDACTED_MARK in f"{sentence} {quotes[0]}":
        return "contains a secret"
    if not _names(sentence):
        return NO_NAME
    if any(map(overrides_instructions, (sentence, quotes[0]))) or commands_memory(sentence):
        return INSTRUCTION
    if is_order(sentence) or is_norm(sentence):
        return "says what to do"
    if _HEDGE.search(quotes[0]):
        return HEDGED
    return lesson_harm(sentence, None, None)


def _objection(sentence: str, quote: str, names: Sequence[str], told: Sequence[str]) -> str | None:
    """Return why a person has to review an observation first."""
    if is_told(quote, names, told):
        return TOLD
    for pattern, reason in ((_EXCUSE, EXCUSE), (_LOOSENING, LOOSENING), (_PASSING, PASSING)):
        if pattern.search(f"{sentence} {quote}"):
            return reason
    is_about_quote = any(name.casefold() in quote.casefold() for name in names)
    return None if is_about_quote else "names what its quote does not"


def _candidate(
    item: KnownObservation,
    line: TranscriptLine,
    quote: str,
    session: SessionContext,
    extractor: str,
    revision: int,
    held: str | None,
    is_end: bool,
) -> Candidate:
    key = (session.session_id, str(line.seq), extractor, str(revision), item.predicate, item.value, str(is_end))
    return Candidate(
        id=hashlib.blake2b("\x1f".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        session_id=session.session_id,
        root_id=session.root_id,
        seq=line.seq,
        occurred_at=line.occurred_at,
        agent=session.agent,
        project=session.project,
        peer=session.peer,
        level="project",
        subject=item.subject[:80],
        predicate=item.predicate,
        value=item.value,
        sentence=item.sentence,
        kind=OBSERVATION,
        confidence="inferred",
        trust="agent",
        quote=quote,
        extractor=extractor,
        single_valued=False,
        revision=revision,
        quarantined=held,
        valid_to=line.occurred_at if is_end else None,
    )


def _reject(
    item: KnownObservation, line: TranscriptLine, reason: str, session: SessionContext, extractor: str
) -> RejectedCandidate:
    return RejectedCandidate(
        session_id=session.session_id,
        seq=line.seq,
        predicate=item.predicate,
        reason=reason,
        quote=item.sentence[:400],
        extractor=extractor,
        subject=item.subject[:80],
        occurred_at=line.occurred_at,
    )
