"""Turns a model's answer about a transcript chunk into candidates, and checks each fact: without a quote there is none.

The answer is data. How far a fact is believed depends on who said it, and not on what the model says about it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from consolidator.memory.facts.candidates import (
    AMONG_PEOPLE,
    COUNTED_PREDICATES,
    REDACTED_MARK,
    Candidate,
    Proposals,
    RejectedCandidate,
    SessionContext,
    owner_of_statement,
)
from consolidator.memory.facts.extraction_prompt import PROMPT_VERSION
from consolidator.memory.facts.gate import Proof, Verdict, judge_fact, least_trust
from consolidator.memory.facts.orders import is_order
from consolidator.memory.facts.people import PERSONS_NAMES
from consolidator.memory.facts.quotes import MAX_QUOTE_CHARS
from consolidator.memory.facts.relations import canonical_relation
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.negation import denies_value
from consolidator.memory.text.similarity import content_words

MAX_FACTS = 60  # of one chunk
DATE_LEFT_OUT = "a date that is none: the fact is kept without it"
_KINDS_ABOUT_WORK = frozenset({"environment", "project", "decision", "constraint"})
_MAX_CHARS = {"subject": 80, "predicate": 60, "value": 300, "sentence": 400}
_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(?:-[0-9]{2})?")
WRONG_QUOTE = "quote not in event"


@dataclass(frozen=True, slots=True)
class FactExtractor:
    """Which model extracts, from whose session, for which revision."""

    session: SessionContext
    extractor: str  # model:<name>:<prompt version>
    revision: int = 0


def model_extractor(model: str) -> str:
    """Return the `extractor` of a model's candidates."""
    return f"model:{model}:{PROMPT_VERSION}"


def read_facts(chunk: TranscriptChunk, answer: Mapping[str, Any], extractor: FactExtractor) -> Proposals:
    """Return the candidates of an answer that fits the schema, and the rejected ones with the reasons.

    A candidate's quotes are what stands in its events, even where the answer has mended marks and spaces.
    """
    proposals = Proposals()
    lines = chunk.named_lines()
    ids: set[str] = set()
    for position, fact in enumerate(map(_without_invisible, answer["facts"])):
        cited = _cited_lines(fact, lines)
        proofs = _own_words(fact, [proof for line, quote in cited if line for proof in _find_proofs(line, quote)])
        reason = _rejection(fact, cited, proofs) or _rejection_among_people(fact, proofs, extractor.session)
        reason = reason or (f"more than {MAX_FACTS} in one chunk" if position >= MAX_FACTS else None)
        verdict = Verdict(reason) if reason else judge_fact(fact, proofs, chunk, extractor.session)
        reason = verdict.rejected
        if reason is not None:
            known = [(line, quote) for line, quote in cited if line is not None]
            proposals.rejected.append(_reject(fact, known, chunk, extractor, reason))
            continue
        candidate = _make_candidate(fact, proofs, extractor, verdict)
        if candidate.id not in ids:
            ids.add(candidate.id)
            proposals.candidates.append(candidate)
            if any(fact[name] is not None and _parse_date(fact[name]) is None for name in ("valid_from", "valid_to")):
                proposals.rejected.append(_reject(fact, proofs, chunk, extractor, DATE_LEFT_OUT))
    return proposals


def _without_invisible(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fact whose texts have no characters that nobody sees."""
    return {**fact, **{name: strip_invisible(str(fact[name])) for name in _MAX_CHARS}}


def has_wrong_quote(fact: Mapping[str, Any], lines: Mapping[str, TranscriptLine]) -> bool:
    """Tell whether a fact is refused only because a quote is not in the event that it names."""
    cited = _cited_lines(fact, lines)
    return _rejection(fact, cited, [(line, quote) for line, quote in cited if line]) == WRONG_QUOTE


def _cited_lines(
    fact: Mapping[str, Any], lines: Mapping[str, TranscriptLine]
) -> list[tuple[TranscriptLine | None, str]]:
    return [(lines.get(str(cited["event"])), str(cited["quote"]).strip()) for cited in fact["evidence"]]


def _find_proofs(line: TranscriptLine, quote: str) -> list[Proof]:
    return [(line, passage) for passage in line.find_quote(quote)] if len(quote) <= MAX_QUOTE_CHARS else []


def _own_words(fact: Mapping[str, Any], proofs: Sequence[Proof]) -> list[Proof]:
    """Return the user's own words alone where these say all that the fact states: no tool's word is needed beside them.

    Else the least trusted word counts for all: "yes" beside a page's instruction is not the user's instruction.
    """
    own = [(line, quote) for line, quote in proofs if line.citable and line.trust_of(quote) == "user"]
    said = content_words(" ".join(quote for _, quote in own))
    stated = content_words(fact["value"])
    return own if stated and stated <= said else list(proofs)


def _rejection(
    fact: Mapping[str, Any], cited: Sequence[tuple[TranscriptLine | None, str]], proofs: Sequence[Proof]
) -> str | None:
    """Return why a fact of an answer makes no candidate; None where it makes one."""
    if not cited:
        return "no evidence"
    texts = [str(fact[name]) for name in _MAX_CHARS]
    if not all(text.strip() for text in texts) or any(len(fact[name]) > limit for name, limit in _MAX_CHARS.items()):
        return "empty or too long"
    for line, quote in cited:
        if line is None:
            return "cites an event that was not shown"
        if not line.citable:
            return "cites what the agent said"
        if not _find_proofs(line, quote):
            return WRONG_QUOTE
    if any(REDACTED_MARK in text for text in [*texts, *(quote for _, quote in cited)]):
        return "contains a secret"
    return None


def _rejection_among_people(fact: Mapping[str, Any], proofs: Sequence[Proof], session: SessionContext) -> str | None:
    """Return why an order that people give each other is no rule for an agent; None for anything else."""
    texts = (fact["value"], fact["sentence"], *(quote for _, quote in proofs))
    orders = fact["kind"] == "constraint" and any(map(is_order, texts))
    return AMONG_PEOPLE if orders and all(session.is_among_people(line.speaker) for line, _ in proofs) else None


def _make_candidate(
    fact: Mapping[str, Any], proofs: Sequence[Proof], extractor: FactExtractor, verdict: Verdict
) -> Candidate:
    (latest, quote), *others = sorted(proofs, key=lambda proof: (proof[0].occurred_at, proof[0].seq), reverse=True)
    trust, session = least_trust(proofs), extractor.session
    subject, predicate = _subject_of(fact["subject"], latest), _snake_case(fact["predicate"])
    value, sentence = fact["value"].strip(), verdict.sentence or fact["sentence"].strip()
    if denies_value(sentence, predicate, value):  # else "no longer lives in Bern" would reinforce "lives in Bern"
        value = f"not {value}"
    level, peer = owner_of_statement(session, about_work=fact["kind"] in _KINDS_ABOUT_WORK)
    predicate = canonical_relation(predicate)
    key = (session.session_id, str(latest.seq), extractor.extractor, str(extractor.revision), subject, predicate, value)
    return Candidate(
        id=hashlib.blake2b("\x1f".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        session_id=session.session_id,
        root_id=session.root_id,
        seq=latest.seq,
        occurred_at=latest.occurred_at,
        agent=session.agent,
        project=session.project,
        peer=peer,
        level=level,
        subject=subject,
        predicate=predicate,
        value=value,
        sentence=sentence,
        kind=fact["kind"],
        confidence="explicit" if trust == "user" else "inferred",
        trust=trust,
        quote=quote,
        extractor=extractor.extractor,
        single_valued=fact["single_valued"],
        evidence=tuple((line.seq, cited_quote) for line, cited_quote in others),
        revision=extractor.revision,
        quarantined=verdict.quarantined,
        valid_from=_parse_date(fact["valid_from"], latest.local_time.tzinfo),
        valid_to=_parse_date(fact["valid_to"], latest.local_time.tzinfo),
    )


def _subject_of(subject: str, line: TranscriptLine) -> str:
    """Return whom a fact is about: the speaker, by name where there is one, or whom the model names."""
    name = subject.strip()
    if name.casefold() in PERSONS_NAMES or (line.speaker and name.casefold() == line.speaker.casefold()):
        return line.speaker or "user"
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
    fact: Mapping[str, Any], proofs: Sequence[Proof], chunk: TranscriptChunk, extractor: FactExtractor, reason: str
) -> RejectedCandidate:
    line = proofs[0][0] if proofs else chunk.lines[0]
    return RejectedCandidate(
        session_id=extractor.session.session_id,
        seq=line.seq,
        predicate=canonical_relation(_snake_case(fact["predicate"]))[: _MAX_CHARS["predicate"]],
        reason=reason,
        quote=fact["sentence"][:MAX_QUOTE_CHARS],
        extractor=extractor.extractor,
        subject=_subject_of(fact["subject"], line)[: _MAX_CHARS["subject"]],
        occurred_at=line.occurred_at,
    )
