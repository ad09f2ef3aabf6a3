"""Extracts facts by rules: what a user states outright, and what their orders and approvals show, as candidates.

A candidate rests on one event alone, so that the candidates are the same however the log is cut into nights. Nothing
that an agent, a tool, a harness or the caller of a sub-agent says is a fact here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from consolidator.memory.calls.tool_values import describe_approval
from consolidator.memory.facts.candidates import (
    ENDING_SUBJECT,
    ENDINGS,
    REDACTED_MARK,
    Candidate,
    FactExtractor,
    Proposals,
    SessionContext,
    is_quote_in,
    owner_of_statement,
    speaker_name,
)
from consolidator.memory.facts.endings import find_ending
from consolidator.memory.facts.instructions import as_rule, find_instruction, find_wishes, is_short_turn
from consolidator.memory.facts.languages import ForeignOrder, find_foreign_orders, is_unspaced
from consolidator.memory.facts.orders import INSTRUCTION, overrides_instructions, overrides_nearby
from consolidator.memory.facts.remembered import as_sentence, read_received, read_statement
from consolidator.memory.facts.statements import Statement, find_statements
from consolidator.memory.facts.verbs import begins_order
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.memory.text.pasted import filled_in, is_template, quoted_text
from consolidator.memory.text.sentences import paragraph_around, split_sentences
from consolidator.models.event import Event
from consolidator.models.payload import EventType

RULE_EXTRACTOR = "rules:1"
MAX_CANDIDATES = 50  # of one message
MAX_REJECTED = 5  # near misses of one message that are kept, with the reason
_MAX_QUOTE_CHARS = 300
_CHOICE, MIN_ORDERS_OF_TASK = "instead of", 3  # a choice of one thing over another, among so many orders, is of a task
_NO_MORE = re.compile(r"i (?:do not|don't|don’t) want (?:you )?to ", re.IGNORECASE)  # it ends, and says what holds
_OF_ITS_TASK = "an order that does not say that it lasts: `consolidator rules` proposes it once three sessions gave it"


def propose_candidates(events: Sequence[Event], session: SessionContext, redact: Callable[[str], str]) -> Proposals:
    """Return the candidates of events."""
    proposals = Proposals()
    if session.is_subagent:  # its user is an agent
        return proposals
    source = FactExtractor(session, RULE_EXTRACTOR)
    for event in events:
        if event.type is EventType.USER_MESSAGE:
            _read_message(event, source, redact, proposals)
        elif event.type in (EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED):
            _read_approval(event, source, redact, events, proposals)
        elif (stated := read_statement(event, session, redact) or read_received(event, session, redact)) is not None:
            proposals.candidates.append(stated)
    return proposals


def _read_message(event: Event, source: FactExtractor, redact: Callable[[str], str], proposals: Proposals) -> None:
    if not event.is_persons_word:
        return
    session = source.session
    text = filled_in(redact(strip_recalled(strip_invisible(str(event.data.get("text", ""))))))
    name = speaker_name(event, redact)
    subject = name or "user"
    among_people = session.is_among_people(name)
    counts_instructions = session.project is not None and not among_people and is_short_turn(text)
    quoted = quoted_text(text)
    ids: set[str] = set()
    rejected: list[Candidate] = []
    for statement, quote in _find_quoted_statements(
        text, session, name, among_people=among_people, counts_instructions=counts_instructions
    ):
        reason = statement.rejected or _rejection(statement, quote, text)
        if reason is None and quoted and is_quote_in(quote, quoted):
            reason = "quoted from elsewhere"
        if reason is None and is_template(text, quoted):
            reason = "introduces a template"
        whose = ENDING_SUBJECT if statement.predicate in ENDINGS else subject
        candidate = _make_candidate(event, source, statement, quote, subject=whose)
        if reason is None and candidate.id not in ids and len(ids) >= MAX_CANDIDATES:
            reason = f"more than {MAX_CANDIDATES} in one message"
        if reason is not None:
            rejected.append(source.reject(event, statement.predicate, reason, quote, subject))
        elif candidate.id not in ids:
            ids.add(candidate.id)
            proposals.candidates.append(candidate)
    proposals.rejected.extend(rejected[:MAX_REJECTED])


def _find_quoted_statements(
    text: str, session: SessionContext, name: str | None, *, among_people: bool, counts_instructions: bool
) -> Iterator[tuple[Statement, str]]:
    """Yield the statements of a message, each with its quote, what it takes back, and instructions."""
    at_work, who = session.project is not None, name or "the user"
    sentences = list(split_sentences(text))
    orders_given = sum(begins_order(sentence.lower().split()) is not None for sentence in sentences)
    for sentence in sentences:
        quote, states_fact = sentence[:_MAX_QUOTE_CHARS], False
        ending = None if among_people else find_ending(sentence)
        clauses: tuple[str, ...] = (sentence,)
        if ending is not None:
            clauses = ending.says or (sentence,) * (_NO_MORE.match(sentence) is not None)
            says = f"No longer: {ending.old}."
            for about in ending.about:
                yield Statement(ending.predicate, ending.old, says, "project", about), quote
        for clause in clauses:
            for statement in find_statements(clause, at_work=at_work, who=who, among_people=among_people):
                if statement.rule == _CHOICE and orders_given >= MIN_ORDERS_OF_TASK and statement.rejected is None:
                    statement = replace(statement, rejected="among the orders of one task")
                states_fact = states_fact or statement.rejected is None
                yield statement, quote
        if states_fact or not counts_instructions:
            continue
        foreign = list(find_foreign_orders(sentence))
        for lasting in (order for order in foreign if order.kind != "order"):
            yield _state_foreign(lasting), quote
        orders = [order.clause for order in foreign if order.kind == "order"]
        if not foreign and not is_unspaced(sentence):
            orders = [order for order in (find_instruction(sentence), *find_wishes(sentence)) if order is not None]
        for order in orders:
            yield Statement("instruction", order, as_sentence(as_rule(order)), "constraint", "work"), quote
        if orders:
            yield Statement("instruction", orders[0], quote, "constraint", "work", rejected=_OF_ITS_TASK), quote


def _state_foreign(order: ForeignOrder) -> Statement:
    """Return what an order that says that it lasts states, in the words of its writer."""
    if order.kind == "answers":
        sentence = as_sentence(order.clause)
        return Statement("language of answers", order.language, sentence, "preference", "person", single_valued=True)
    return Statement("rule", order.clause, as_sentence(order.clause), "constraint", "work")


def _rejection(statement: Statement, quote: str, text: str) -> str | None:
    if REDACTED_MARK in statement.value or REDACTED_MARK in statement.predicate:
        return "contains a secret"
    is_ending = statement.predicate in ENDINGS  # "forget the rule about X" is no attack on its reader
    if (not is_ending and overrides_instructions(quote)) or overrides_nearby(paragraph_around(text, quote)):
        return INSTRUCTION
    return None if is_quote_in(quote, text) else "quote not in event"


def _read_approval(
    event: Event, source: FactExtractor, redact: Callable[[str], str], around: Sequence[Event], proposals: Proposals
) -> None:
    call = describe_approval(event, around)
    if call is None or not event.is_persons_word:
        return
    answer = "granted" if event.type is EventType.APPROVAL_GRANTED else "denied"
    if answer == "denied" and source.session.is_imported:
        return  # it may have run in between
    operation = redact(strip_invisible(call))
    reason = event.data.get("reason")
    words = ""
    if isinstance(reason, str):
        words = redact(strip_invisible(strip_recalled(reason)).strip())[:_MAX_QUOTE_CHARS]
    if REDACTED_MARK in operation:
        proposals.rejected.append(source.reject(event, "approval", "contains a secret", words))
        return
    sentence = f"The user {answer} {operation}."
    statement = Statement("approval", f"{answer}:{operation}", sentence, "preference", "work", confidence="inferred")
    quote = words or strip_invisible(str(event.data.get("tool") or operation))[:_MAX_QUOTE_CHARS]
    proposals.candidates.append(_make_candidate(event, source, statement, quote, subject="user"))


def _make_candidate(
    event: Event, source: FactExtractor, statement: Statement, quote: str, *, subject: str
) -> Candidate:
    level, peer = owner_of_statement(source.session, about_work=statement.about == "work")
    key = [subject, statement.predicate, statement.value]
    key += [level] if statement.predicate in ENDINGS else []  # one for each level
    return source.propose(
        event,
        *key,
        peer=peer,
        level=level,
        subject=subject,
        predicate=statement.predicate,
        value=statement.value,
        sentence=statement.sentence,
        kind=statement.kind,
        confidence=statement.confidence,
        trust="user",
        quote=quote,
        single_valued=statement.single_valued,
    )
