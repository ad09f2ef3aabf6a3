"""Facts by rules: what a user states outright and what approvals show, as candidates with their quotes.

Each candidate rests on one event alone, so that however the log is cut into nights the candidates are the same. Nothing
an agent, a tool, a harness or a sub-agent's caller says is a fact here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from consolidator.memory.calls.approvals import operation
from consolidator.memory.facts.rules import Statement, statements
from consolidator.memory.text.phrasing import is_question
from consolidator.memory.text.quotations import passed_on
from consolidator.memory.text.recall_markers import without_recalled
from consolidator.memory.text.sentences import sentences
from consolidator.models.event import Event
from consolidator.models.payload import EventType

EXTRACTOR = "rules:1"
COUNTED = frozenset({"approval", "steer"})  # predicates of what is a fact only when it was shown often enough
MOST = 50  # candidates of one message
_LONGEST_QUOTE = 300
_STEER = 160  # characters of a steer that can be a standing one
_HIDDEN = "[redacted:"


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Whose session it is."""

    session_id: str
    root_id: str
    agent: str
    project: str | None = None
    peer: str | None = None
    is_subagent: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One saying or showing of something that may be a fact; it outlives its event."""

    id: str
    session_id: str
    root_id: str
    seq: int
    occurred_at: datetime
    agent: str
    project: str | None
    peer: str | None
    level: str  # peer | project | agent: whom it belongs to
    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str  # preference | profile | environment | project | decision | constraint | relation
    confidence: str  # explicit | inferred
    trust: str  # user | agent | tool
    quote: str  # verbatim in the redacted text of the event
    extractor: str
    single_valued: bool  # whether a later value takes the place of an earlier one
    evidence: tuple[tuple[int, str], ...] = ()  # seq and quote of each further event that proves it
    generation: int = 0  # of the model that read it; 0: of all, as what rules find and what a person says
    quarantined: str | None = None  # why a person has to look at it first
    valid_from: datetime | None = None  # since when it is true, where the words say so
    valid_to: datetime | None = None
    beside: bool = False  # it takes no other value's place: nobody has decided that it may


@dataclass(frozen=True, slots=True)
class Rejected:
    """What looked like a fact and may not become one."""

    session_id: str
    seq: int
    predicate: str
    reason: str
    quote: str
    extractor: str = EXTRACTOR
    subject: str = "user"


@dataclass(frozen=True, slots=True)
class Proposals:
    """What some events propose."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def propose(
    events: Sequence[Event],
    session: SessionContext,
    redact: Callable[[str], str],
    around: Sequence[Event] | None = None,
) -> Proposals:
    """Return what events propose; `around` are more events of the session, for the calls that approvals are about."""
    proposals = Proposals()
    if session.is_subagent:  # its user is an agent
        return proposals
    for event in events:
        if event.type is EventType.USER_MESSAGE:
            _from_message(event, session, redact, proposals)
        elif event.type in (EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED):
            _from_approval(event, session, redact, events if around is None else around, proposals)
    return proposals


def verify_quote(quote: str, text: str) -> bool:
    """Tell whether a quote is in a text, but for white space and case."""
    return bool(quote.strip()) and _normal(quote) in _normal(text)


def _from_message(event: Event, session: SessionContext, redact: Callable[[str], str], out: Proposals) -> None:
    if event.data.get("origin", "user") != "user":
        return
    text = redact(without_recalled(str(event.data.get("text", ""))))
    speaker = event.data.get("speaker")
    who = redact(str(speaker))[:80] if isinstance(speaker, str) and speaker.strip() else None
    found = 0
    elsewhere = passed_on(text)
    seen: set[str] = set()
    for statement, quote in _stated(text, session, who):
        refused = statement.refused or _unfit(statement, quote, text)
        if refused is None and elsewhere and verify_quote(quote, elsewhere):
            refused = "quoted from elsewhere"
        candidate = _candidate(event, session, statement, quote, subject=who or "user")
        if refused is None and candidate.id not in seen and found >= MOST:
            refused = f"more than {MOST} in one message"
        if refused is not None:
            out.rejected.append(_rejected(event, session, statement.predicate, refused, quote, subject=who or "user"))
        elif candidate.id not in seen:
            seen.add(candidate.id)
            found += 1
            out.candidates.append(candidate)
    steer = _standing(text) if event.data.get("mode") == "steer" else None
    if steer is not None:
        out.candidates.append(_candidate(event, session, _steer(steer), steer, subject=who or "user", inferred=True))


def _stated(text: str, session: SessionContext, who: str | None) -> Iterator[tuple[Statement, str]]:
    for sentence in sentences(text):
        for statement in statements(sentence, at_work=session.project is not None, who=who or "the user"):
            yield statement, sentence[:_LONGEST_QUOTE]


def _unfit(statement: Statement, quote: str, text: str) -> str | None:
    if _HIDDEN in statement.value or _HIDDEN in statement.predicate:
        return "contains a secret"
    return None if verify_quote(quote, text) else "quote not in event"


def _standing(text: str) -> str | None:
    """Return a steer that could be a standing one: a short sentence that says what to do, and does not ask."""
    said = " ".join(text.split())
    if len(said) > _STEER or len(said.split()) < 3 or _HIDDEN in said or is_question(said):
        return None
    return said


def _steer(text: str) -> Statement:
    return Statement("steer", text, f"The user steered: {text}", "preference", "work", single=False)


def _from_approval(
    event: Event, session: SessionContext, redact: Callable[[str], str], around: Sequence[Event], out: Proposals
) -> None:
    what = operation(event, around)
    if what is None:
        return
    answer = "granted" if event.type is EventType.APPROVAL_GRANTED else "denied"
    told = redact(what)
    reason = event.data.get("reason")
    statement = Statement(
        predicate="approval",
        value=f"{answer}:{told}",
        sentence=f"The user {answer} {told}.",
        kind="preference",
        about="work",
        single=False,
    )
    said = redact(reason)[:_LONGEST_QUOTE] if isinstance(reason, str) and reason.strip() else ""
    if _HIDDEN in told:
        out.rejected.append(_rejected(event, session, "approval", "contains a secret", said))
        return
    quote = said or str(event.data.get("tool") or told)[:_LONGEST_QUOTE]
    out.candidates.append(_candidate(event, session, statement, quote, subject="user", inferred=True))


def _candidate(
    event: Event, session: SessionContext, statement: Statement, quote: str, *, subject: str, inferred: bool = False
) -> Candidate:
    level, peer, single = belongs(session, work=statement.about == "work", single=statement.single)
    key = (session.session_id, str(event.seq), EXTRACTOR, subject, statement.predicate, statement.value)
    return Candidate(
        id=hashlib.blake2b("\x1f".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        session_id=session.session_id,
        root_id=session.root_id,
        seq=event.seq,
        occurred_at=event.occurred_at,
        agent=session.agent,
        project=session.project,
        peer=peer,
        level=level,
        subject=subject,
        predicate=statement.predicate,
        value=statement.value,
        sentence=statement.sentence,
        kind=statement.kind,
        confidence="inferred" if inferred else "explicit",
        trust="user",
        quote=quote,
        extractor=EXTRACTOR,
        single_valued=single,
    )


def belongs(session: SessionContext, *, work: bool, single: bool) -> tuple[str, str | None, bool]:
    """Return to whom a statement about work or a person belongs, the peer, and whether it has one value at a time.

    Who speaks with neither a name nor a project is a stranger, and what they say of themselves stays theirs: otherwise
    the last customer of an agent would pass for all of them.
    """
    if work and session.project is not None:
        return "project", session.peer, single
    if session.peer is not None:
        return "peer", session.peer, single
    if session.project is not None:
        return "agent", None, single
    return "peer", f"stranger:{session.root_id}", single


def _rejected(
    event: Event, session: SessionContext, predicate: str, reason: str, quote: str, *, subject: str = "user"
) -> Rejected:
    return Rejected(session.session_id, event.seq, predicate, reason, quote[:_LONGEST_QUOTE], subject=subject)


def _normal(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()
