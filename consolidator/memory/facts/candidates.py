"""A candidate: one statement that may become a fact, with its quote; and the session that it comes from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.audience import peer_of_stranger
from consolidator.models.event import Event
from consolidator.models.fact import Assertion, CitedCandidateRow
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow, SteerCounts, SteerOutcome, SteerRow, TaskOutcomeRow

if TYPE_CHECKING:
    from consolidator.memory.facts.questions.transcript import TranscriptLine

BACKGROUND_EVENTS = 400  # before what an agent says, in which its words may come from others, or be of what it edits
# Predicates of observations: they become a fact after the same one was seen several times, or none at all.
ENDED, TAKEN_BACK = "ended", "taken back"  # of endings: what was said before and is no longer so
ENDINGS = (ENDED, TAKEN_BACK)
ENDING_SUBJECT = "user"  # they end facts about any subject
COUNTED_PREDICATES = frozenset({"approval", "instruction", *ENDINGS})
REMEMBERED_EXTRACTOR = "remembered:1"  # what somebody asked memory to remember
ACCEPTED_EXTRACTOR = "accepted:1"  # what a person accepted of what they repeat
EXPLICIT_EXTRACTORS = frozenset({REMEMBERED_EXTRACTOR, ACCEPTED_EXTRACTOR})  # hold whatever was forgotten before
AMONG_PEOPLE = "said to another person, not to an agent"  # why an instruction is none
REDACTED_MARK = "[redacted:"  # begins what redaction puts in place of a secret
_PEER_NAMES = re.compile(r"\s*(?:,|&|\band\b)\s*")  # of a session between several people
TRUST_RANK = {"tool": 0, "agent": 1, "user": 2, "person": 3}
_TIERS = TRUST_RANK | {"person": 2}  # what a person says to memory is compared with what they say to their agent


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Whose session it is."""

    session_id: str
    root_id: str
    agent: str  # whose memory it teaches
    project: str | None = None
    peer: str | None = None
    is_subagent: bool = False
    is_imported: bool = False  # from a log that does not say which calls a person let pass

    def is_among_people(self, speaker: str | None) -> bool:
        """Tell whether a speaker talks to another person: the session's peer names both, and the agent only listens."""
        names = {name.casefold() for name in _PEER_NAMES.split(self.peer or "")}
        return speaker is not None and len(names) > 1 and speaker.casefold() in names


def session_context(session: SessionRow) -> SessionContext:
    """Return what extractors need to know of a session."""
    return SessionContext(
        session_id=session.id,
        root_id=session.root_id,
        agent=session.memory,
        project=session.project,
        peer=session.peer,
        is_subagent=session.kind == "sub-agent",
        is_imported=session.origin is not None,
    )


@dataclass(frozen=True, slots=True)
class Candidate(Assertion):
    """One statement or observation that may become a fact; it outlives its event."""

    id: str
    session_id: str
    root_id: str
    seq: int
    occurred_at: datetime
    quote: str  # verbatim in the redacted text of the event
    extractor: str
    single_valued: bool  # whether a later value replaces an earlier one
    evidence: tuple[tuple[int, str], ...] = ()  # seq and quote of each further event that proves it
    revision: int = 0  # the revision that read it; 0: it belongs to all of them, as what rules find does
    quarantined: str | None = None  # why a person has to review it first
    valid_from: datetime | None = None  # since when it is true, where its words say so
    valid_to: datetime | None = None
    is_additive: bool = False  # it replaces no other value, since nobody has decided that it may
    is_repetition: bool = False  # whether its value replaces others is for those to say that it repeats
    steer: SteerOutcome | None = None  # of the steer that it was read in
    rejected: str | None = None  # why it may not become a fact, though it looked like one


@dataclass(frozen=True, slots=True)
class Proposals:
    """What an extractor makes of some events."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FactExtractor:
    """Who extracts, from whose session, for which revision."""

    session: SessionContext
    extractor: str  # rules:1, or model:<name>:<prompt version>
    revision: int = 0

    def propose(self, said: Event | TranscriptLine, *key: str, **stated: Any) -> Candidate:
        """Return the candidate of what was said; `key` tells it from others of the same event and extractor."""
        session = self.session
        fields: dict[str, Any] = {"peer": session.peer, "single_valued": False, "revision": self.revision, **stated}
        return Candidate(
            id=hash_texts(session.session_id, str(said.seq), self.extractor, *key),
            session_id=session.session_id,
            root_id=session.root_id,
            seq=said.seq,
            occurred_at=said.occurred_at,
            agent=session.agent,
            project=session.project,
            extractor=self.extractor,
            **fields,
        )

    def reject(
        self, said: Event | TranscriptLine, predicate: str, reason: str, quote: str, subject: str = "user"
    ) -> Candidate:
        """Return what was said as what may not become a fact; it is stored so that it can be looked up."""
        return self.propose(
            said,
            *(predicate, reason, quote),
            level="agent",
            subject=subject,
            predicate=predicate,
            value="",
            sentence=quote,
            kind="rejected",
            confidence="explicit",
            trust="user",
            quote=quote,
            revision=0,
            rejected=reason,
        )


def hash_texts(*texts: str) -> str:
    """Return an id that is equal for equal texts."""
    return hashlib.blake2b("\x1f".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def owner_of_statement(session: SessionContext, *, about_work: bool) -> tuple[str, str | None]:
    """Return the level and the peer that a statement of a session belongs to.

    A speaker with neither a name nor a project is a stranger, and their statements stay theirs: otherwise the last
    customer of an agent would pass for all of them.
    """
    if about_work and session.project is not None:
        return "project", session.peer
    if session.peer is not None:
        return "peer", session.peer
    if session.project is not None:
        return "agent", None
    return "peer", peer_of_stranger(session.root_id)


def speaker_name(event: Event, redact: Callable[[str], str]) -> str | None:
    """Return the name of an event's speaker as memory has it; None where it has none."""
    speaker = event.data.get("speaker")
    name = redact(strip_invisible(speaker).strip()) if isinstance(speaker, str) else ""
    return " ".join(name.split())[:80] or None


def trust_tier(trust: str) -> int:
    """Return the tier of a trust: only statements of one tier are merged, and higher ones are believed first."""
    return _TIERS[trust]


def is_quote_in(quote: str, text: str) -> bool:
    """Tell whether a quote is in a text, regardless of white space and case."""
    quote, text = (" ".join(each.split()).casefold() for each in (quote, text))
    return bool(quote) and quote in text


_OUTCOMES: dict[str, SteerOutcome] = {"success": "succeeded", "failure": "failed"}  # any other one tells nothing


def read_steering(event: Event, session_id: str) -> SteerRow | TaskOutcomeRow | None:
    """Return the steer or the end of a task that an event is; None for all other events.

    Each is read from its one event, so that their order and the nights between are the same. Which task a steer was
    given in, and how that task ended later, tells whether the steer helped.
    """
    if event.type is EventType.USER_MESSAGE and event.data.get("mode") == "steer" and event.is_persons_word:
        return SteerRow(session_id, event.seq, hash_texts(event.task_id) if event.task_id else None)
    if event.type is EventType.TASK_END and (task := event.task_id or str(event.data.get("task_id") or "")):
        outcome = _OUTCOMES.get(str(event.data.get("outcome")), "unknown")
        return TaskOutcomeRow(session_id, event.seq, hash_texts(task), outcome)
    return None


def count_steers(candidates: Iterable[Candidate | CitedCandidateRow]) -> SteerCounts:
    """Count the steers among candidates; what several candidates read in one steer counts once."""
    outcomes = {(cited.session_id, cited.seq): cited.steer for cited in candidates if cited.steer is not None}
    values = list(outcomes.values())
    return SteerCounts(len(values), values.count("succeeded"), values.count("failed"))
