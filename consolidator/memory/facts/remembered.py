"""Reads what memory was asked to remember, to receive and to forget: one candidate or correction an event.

What a person asks holds whatever it says: no rule has to recognise it. Where one does, it names the attribute, so that
a later statement takes an earlier one's place. The scope is the session's own: its project, else its peer, else its
agent; an event cannot name another.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.candidates import (
    ACCEPTED_EXTRACTOR,
    COUNTED_PREDICATES,
    REMEMBERED_EXTRACTOR,
    TRUST_RANK,
    Candidate,
    FactExtractor,
    SessionContext,
)
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_norm, is_order
from consolidator.memory.facts.reconcile import normalize_value
from consolidator.memory.facts.statements import Statement, find_statements
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.sentences import split_sentences
from consolidator.memory.text.words import has_unspaced
from consolidator.models.event import Event
from consolidator.models.fact import CorrectionRow
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of

STATED, FORGOTTEN, RESTORED = "fact_stated", "fact_forgotten", "fact_restored"  # decisions
RECEIVED, RECEIVED_EXTRACTOR = "memory_received", "received:1"
MAX_STATEMENT_CHARS = 400
_TRUST = {Role.USER: "user", Role.OPERATOR: "user", Role.AGENT: "agent"}


def read_statement(event: Event, session: SessionContext, redact: Callable[[str], str]) -> Candidate | None:
    """Return what an event asks to remember, as a candidate; None for another event, or where nobody may ask it."""
    role, words = role_of(event.principal), event.data.get("statement")
    if not _is_decision(event, STATED) or role not in _TRUST or not isinstance(words, str):
        return None
    statement = clean_statement(words, redact)[:MAX_STATEMENT_CHARS]
    if not statement:
        return None
    accepted = _read_attribute(event) if role is not Role.AGENT else None
    meaning = _find_meaning(statement) if accepted is None else accepted[1]
    extractor = REMEMBERED_EXTRACTOR if accepted is None else ACCEPTED_EXTRACTOR
    level, _, _ = owner_of_session(session)
    return FactExtractor(session, extractor).propose(
        event,
        level=level,
        subject="user" if accepted is None else accepted[0],
        predicate=meaning.predicate,
        value=meaning.value,
        sentence=as_sentence(statement),
        kind=meaning.kind,
        confidence="explicit",
        trust=_TRUST[role],
        quote=statement,
        single_valued=meaning.single_valued,
    )


def read_received(event: Event, session: SessionContext, redact: Callable[[str], str]) -> Candidate | None:
    """Return what an event received of another installation's memory; None for another event, or of another door.

    Only `memory import` writes these events: by the bundle's signature it says whether a person has to look first.
    What is hostile, commands a memory, or is a norm that no person stated is held whoever signed it.
    """
    if not _is_decision(event, RECEIVED) or role_of(event.principal) is not Role.USER:
        return None
    names = ("subject", "predicate", "value", "sentence", "quote", "kind")
    texts = {name: clean_statement(str(event.data.get(name) or ""), redact) for name in names}
    if not all(texts.values()) or texts["predicate"] in COUNTED_PREDICATES:
        return None
    told, held, trust = f"{texts['sentence']}\n{texts['quote']}", event.data.get("held"), event.data.get("trust")
    if (harm := text_harm(told)) is not None:
        held = f"a command that {harm}"
    elif commands_memory(told) or (trust not in ("person", "user") and is_norm(texts["sentence"])):
        held = held or INSTRUCTION
    is_known = trust in TRUST_RANK and not held  # else nothing proves that a person typed it
    return FactExtractor(session, RECEIVED_EXTRACTOR).propose(
        event,
        **texts,
        level=owner_of_session(session)[0],
        confidence="explicit",
        trust=("user" if trust == "person" else trust) if is_known else "agent",
        single_valued=event.data.get("single_valued") is True,
        quarantined=str(held) if held else None,
    )


def _read_attribute(event: Event) -> tuple[str, Statement] | None:
    """Return the subject and meaning of what a person accepts; None where they say something of their own."""
    words = [event.data.get(name) for name in ("subject", "predicate", "value")]
    if not all(isinstance(word, str) and word for word in words):
        return None
    subject, predicate, value = map(str, words)
    return subject, Statement(predicate, value, value, "constraint", "work")


def read_forgetting(event: Event, session: SessionContext) -> CorrectionRow | None:
    """Return what an event asks to forget, or takes back; None for another event, or where nobody may ask it."""
    role, is_undone = role_of(event.principal), _is_decision(event, RESTORED)
    if not (is_undone or _is_decision(event, FORGOTTEN)) or role not in _TRUST or (is_undone and role is Role.AGENT):
        return None
    words = [event.data.get(name) for name in ("subject", "predicate", "value", "fact_id")]
    if not all(isinstance(word, str) for word in words):
        return None
    subject, predicate, value, fact_id = map(str, words)
    level, project, peer = owner_of_session(session)
    return CorrectionRow(
        session.agent, level, project, peer, subject, predicate, value, fact_id, False, event.occurred_at, is_undone
    )


def owner_of_session(session: SessionContext) -> tuple[str, str | None, str | None]:
    """Return the level, project and peer that what is remembered in a session belongs to."""
    if session.project is not None:
        return "project", session.project, None
    return ("agent", None, None) if session.peer is None else ("peer", None, session.peer)


def clean_statement(text: str, redact: Callable[[str], str]) -> str:
    """Return a statement on one line, redacted, without characters that nobody sees."""
    return redact(" ".join(strip_invisible(text).split()))


def as_sentence(statement: str) -> str:
    """Return a statement as a sentence; a name in small letters at its beginning stays as it is."""
    begins = statement[:1].upper() + statement[1:] if re.match(r"[^\W\d_]+(?=[\s,'’]|$)", statement) else statement
    return begins if begins[-1:] in ".!?…。！？" or has_unspaced(begins[-1:]) else f"{begins}."


def _is_decision(event: Event, decision: str) -> bool:
    return event.type is EventType.POLICY_DECISION and event.data.get("decision") == decision


def _find_meaning(statement: str) -> Statement:
    """Return the attribute and value that a rule finds where it reads the whole statement; else the words."""
    if len(list(split_sentences(statement))) == 1:
        for stated in find_statements(statement, at_work=True):
            if stated.rejected is None and normalize_value(statement).endswith(normalize_value(stated.value)):
                return stated
    kind = "constraint" if is_order(statement) or is_norm(statement) else "project"
    return Statement("remember", statement, statement, kind, "work")
