"""Turns a model's answer about a transcript chunk into candidates, and checks each fact: without a quote there is none.

The answer is data. How far a fact is believed depends on who said it, and not on what the model says about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from consolidator.memory.facts.candidates import (
    AMONG_PEOPLE,
    COUNTED_PREDICATES,
    REDACTED_MARK,
    Candidate,
    FactExtractor,
    Proposals,
    SessionContext,
    owner_of_statement,
)
from consolidator.memory.facts.orders import is_order
from consolidator.memory.facts.questions.extraction_prompt import KINDS, PROMPT_VERSION
from consolidator.memory.facts.questions.gate import NOT_PERSONS, PASSED_ON, PERSONS_NAMES, Verdict, judge_fact
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.facts.quotes import MAX_QUOTE_CHARS
from consolidator.memory.facts.relations import canonical_relation
from consolidator.memory.observations.observation import KnownObservation
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.negation import denies_value

MAX_FACTS = 40  # of one question
DATE_LEFT_OUT = "a date that is none: the fact is kept without it"
_KINDS_ABOUT_WORK = frozenset({"environment", "project", "decision", "constraint"})
_MAX_CHARS = {"subject": 80, "predicate": 60, "value": 300, "sentence": 400}
_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(?:-[0-9]{2})?")
WRONG_QUOTE = "quote not in event"


def model_extractor(model: str) -> str:
    """Return the `extractor` of a model's candidates."""
    return f"model:{model}:{PROMPT_VERSION}"


def read_facts(chunk: TranscriptChunk, answer: Mapping[str, Any], extractor: FactExtractor) -> Proposals:
    """Return the candidates of an answer that fits the schema, and the rejected ones with the reasons.

    A candidate's quote is what stands in its event, even where the answer has mended marks and spaces.
    """
    proposals = Proposals()
    lines = chunk.named_lines()
    ids: set[str] = set()
    for position, stated in enumerate(answer["facts"]):
        fact = {**stated, **{name: strip_invisible(str(stated[name])) for name in _MAX_CHARS}}
        line = lines.get(str(fact["line"]))
        quotes = _find_quotes(line, str(fact["quote"]))
        reason = _rejection(fact, line, quotes, extractor.session)
        reason = reason or (f"more than {MAX_FACTS} in one question" if position >= MAX_FACTS else None)
        verdict = Verdict(reason)
        if line is not None and not reason:
            verdicts = [judge_fact(fact, line, quote, chunk, extractor.session) for quote in quotes]
            verdict = max(verdicts, key=lambda each: (each.rejected is not None, each.quarantined is not None))
        if line is None or verdict.rejected:
            proposals.rejected.append(_reject(fact, line, chunk, extractor, verdict.rejected or ""))
            continue
        candidate = _make_candidate(fact, line, quotes, extractor, verdict)
        if candidate.id not in ids:
            ids.add(candidate.id)
            proposals.candidates.append(candidate)
            if any(fact[name] is not None and _parse_date(fact[name]) is None for name in ("valid_from", "valid_to")):
                proposals.rejected.append(_reject(fact, line, chunk, extractor, DATE_LEFT_OUT))
    return proposals


def has_wrong_quote(stated: Mapping[str, Any], lines: Mapping[str, TranscriptLine], part: str = "facts") -> bool:
    """Tell whether a fact or observation of an answer is refused because its quote is not in the line that it names.

    A fact quotes a person's line, an observation any other.
    """
    line = lines.get(str(stated["line"]))
    is_citable = line is not None and line.kind != "E" and line.is_persons is (part == "facts")
    return is_citable and not _find_quotes(line, str(stated["quote"]))


def state_again(answer: Mapping[str, Any], known: Sequence[KnownObservation]) -> dict[str, Any]:
    """Return an answer in which a known fact that is said again is stated: it is judged as any other."""
    facts = {item.name: item for item in known if item.kind in KINDS}
    again = [
        {
            "about": "speaker" if item.subject.casefold() in PERSONS_NAMES else "thing",
            **{name: cited[name] for name in ("line", "quote")},
            **{name: getattr(item, name) for name in ("subject", "predicate", "value", "sentence", "kind")},
            "single_valued": False,
            "valid_from": None,
            "valid_to": None,
        }
        for cited in answer.get("again", ())
        if (item := facts.get(str(cited["known"]))) is not None
    ]
    return {**answer, "facts": [*answer["facts"], *again]}


def is_relation(predicate: str) -> bool:
    """Tell whether an answer can name a relation."""
    return canonical_relation(_snake_case(predicate)) == canonical_relation(predicate)


def _find_quotes(line: TranscriptLine | None, quote: str) -> tuple[str, ...]:
    return line.find_quote(quote.strip()) if line is not None and len(quote) <= MAX_QUOTE_CHARS else ()


def _rejection(
    fact: Mapping[str, Any], line: TranscriptLine | None, quotes: Sequence[str], session: SessionContext
) -> str | None:
    """Return why a fact of an answer makes no candidate; None where it may make one."""
    texts = [str(fact[name]) for name in _MAX_CHARS]
    if not all(text.strip() for text in texts) or any(len(fact[name]) > limit for name, limit in _MAX_CHARS.items()):
        return "empty or too long"
    if line is None:
        return "cites a line that was not shown"
    if not line.is_persons:
        return NOT_PERSONS
    if not quotes:
        return WRONG_QUOTE
    if any(REDACTED_MARK in text for text in [*texts, *quotes]):
        return "contains a secret"
    orders = fact["kind"] == "constraint" and any(map(is_order, (fact["value"], fact["sentence"], *quotes)))
    return AMONG_PEOPLE if orders and session.is_among_people(line.speaker) else None


def _make_candidate(
    fact: Mapping[str, Any], line: TranscriptLine, quotes: Sequence[str], extractor: FactExtractor, verdict: Verdict
) -> Candidate:
    trust, session = ("tool" if verdict.quarantined == PASSED_ON else "user"), extractor.session
    subject, predicate = _subject_of(fact["subject"], line), _snake_case(fact["predicate"])
    value, sentence = fact["value"].strip(), fact["sentence"].strip()
    if denies_value(sentence, predicate, value):  # else "no longer lives in Bern" would reinforce "lives in Bern"
        value = f"not {value}"
    level, peer = owner_of_statement(session, about_work=fact["kind"] in _KINDS_ABOUT_WORK)
    predicate = canonical_relation(predicate)
    return extractor.propose(
        line,
        *(str(extractor.revision), subject, predicate, value),
        peer=peer,
        level=level,
        subject=subject,
        predicate=predicate,
        value=value,
        sentence=sentence,
        kind=fact["kind"],
        confidence="explicit" if trust == "user" and not line.is_choice else "inferred",
        trust=trust,
        quote=quotes[0],
        single_valued=fact["single_valued"],
        evidence=tuple((line.seq, quote) for quote in quotes[1:]),
        quarantined=verdict.quarantined,
        valid_from=_parse_date(fact["valid_from"], line.local_time.tzinfo),
        valid_to=_parse_date(fact["valid_to"], line.local_time.tzinfo),
    )


def _subject_of(subject: str, line: TranscriptLine | None) -> str:
    """Return whom a fact is about: the speaker, by name where there is one, or whom the model names."""
    name, speaker = subject.strip(), line.speaker if line else None
    if name.casefold() in PERSONS_NAMES or (speaker and name.casefold() == speaker.casefold()):
        return speaker or "user"
    return name


def _snake_case(predicate: str) -> str:
    """Return a predicate's name; never one of those that count approvals and steers."""
    name = re.sub(r"\W+", "_", predicate.strip().casefold()).strip("_") or "is"
    return f"stated_{name}" if name in COUNTED_PREDICATES else name


def _parse_date(text: str | None, zone: tzinfo | None = UTC) -> datetime | None:
    """Return an ISO date as a time in UTC; without an offset it is in `zone`. None where it is no date.

    A year or a month, which is all that many people tell, stands for its first day.
    """
    if text is None:
        return None
    if _YEAR_OR_MONTH.fullmatch(text):
        text += "-01-01" if len(text) == 4 else "-01"
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=zone or UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # the first and last hours of the calendar do not exist in every zone
        return None


def _reject(
    fact: Mapping[str, Any], line: TranscriptLine | None, chunk: TranscriptChunk, extractor: FactExtractor, reason: str
) -> Candidate:
    predicate = canonical_relation(_snake_case(fact["predicate"]))[: _MAX_CHARS["predicate"]]
    subject = _subject_of(fact["subject"], line)[: _MAX_CHARS["subject"]]
    return extractor.reject(line or chunk.lines[0], predicate, reason, fact["sentence"][:MAX_QUOTE_CHARS], subject)
