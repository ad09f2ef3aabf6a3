"""Rules that people repeat: lists what waits for a word, and accepts or dismisses it. No model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.calls.harm_rules import GRAVE
from consolidator.memory.facts.candidates import session_context
from consolidator.memory.facts.instructions import as_rule, group_orders, has_words_of, is_brief, says_little
from consolidator.memory.facts.reconcile import STANDING_COUNT, fact_id, normalize_value
from consolidator.memory.facts.relations import spellings_of
from consolidator.memory.facts.remembered import (
    FORGOTTEN,
    MAX_STATEMENT_CHARS,
    STATED,
    as_sentence,
    clean_statement,
    read_forgetting,
    read_statement,
)
from consolidator.memory.solutions.fingerprint import mask_line
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import MemoryScope, Page
from consolidator.models.provenance import Provenance
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.decision_log import MemoryOwner, log_decision
from consolidator.service.memory.facts import reconcile_facts
from consolidator.service.memory.ids import read_citation
from consolidator.service.scope import narrow_scope
from consolidator.store.calls import scopes
from consolidator.store.facts import facts, rules
from consolidator.store.facts.facts import OwnedAttribute
from consolidator.store.facts.rules import AcceptedRow as AcceptedRow
from consolidator.store.facts.rules import OrderRow, RepeatedRow
from consolidator.store.facts.rules import RuleQuoteRow as RuleQuoteRow
from consolidator.store.memory import lookup
from consolidator.store.sessions import sessions

MAX_PROPOSALS = 500  # that are read at once
MAX_ORDERS = 5000  # the latest ones, of which those that are repeated are proposed
MAX_ORDERS_AT_START = 200  # likewise, where a session waits for them
RULE_POSITION = (int, str, str, str, str, str)  # the kinds of a position's values, as a cursor has them
MIN_BRIEF = 5  # sessions that gave an order of two words
MAX_QUOTES = 5  # of one proposal
MAX_ASKED, MAX_ASKED_READ = 3, 6  # proposals that a session's start tells, and that are looked at for it
MAX_ACCEPTED = 100  # rules of one block


@dataclass(frozen=True, slots=True)
class RuleProposal:
    """What people asked in several sessions, as a rule that a person may accept."""

    id: str
    rule: str
    sessions: int  # distinct ones in which it was asked; forks count as one
    agent: str
    project: str | None
    peer: str | None
    believed: bool  # whether memory believes it already
    quotes: list[RuleQuoteRow]
    withheld: str | None = None  # why it is told to no agent before a person accepts it


async def list_rules(
    database: Database,
    *,
    agent: str | None = None,
    project: str | None = None,
    after: Sequence[Any] | None = None,
    limit: int = 50,
    viewer: Viewer = OWNER,
) -> Page[RuleProposal]:
    """Return a page of what waits for a person's word, the most often asked first, with quotes of some sessions."""
    viewer.check_may("read")
    async with database.connection() as conn:
        rows = await _list_visible(conn, viewer, agent=agent, project=project, after=after)
        page = [await _propose(conn, row) for row in rows[:limit]]
    return Page(page, rows[limit - 1].position if 0 < limit < len(rows) else None)


async def list_asked(conn: Connection, agent: str, project: str) -> list[RuleProposal]:
    """Return what the owner alone asked for in several sessions of a project, of the latest orders.

    The same words each time are a program's.
    """
    asked = []
    for row in (await _list_visible(conn, OWNER, agent=agent, project=project, of_owner=True))[:MAX_ASKED_READ]:
        proposal = await _propose(conn, row, of_owner=True)
        wordings = {mask_line(quote.quote.casefold()) for quote in proposal.quotes}
        if proposal.withheld is None and len(wordings) > 1:
            asked.append(proposal)
    return asked[:MAX_ASKED]


async def count_rules(conn: Connection) -> int:
    """Return how many proposals wait for a person's word."""
    return len(await _list_visible(conn, OWNER, agent=None, project=None))


async def accept_rule(
    database: Database, rule_id: str, *, words: str | None = None, everywhere: bool = False, viewer: Viewer = OWNER
) -> FactRow:
    """Believe a proposal as a rule, in other words if some are given; return the fact.

    With `everywhere` it holds in every project of its agent, in place of the one that it was asked in. Raises NotFound
    for an id that no proposal has, and UsageError for one that several begin with, or for a hostile command.
    """
    viewer.check_may("write")
    if everywhere and (viewer.project is not None or viewer.peer is not None):
        raise UsageError("this credential is for one project or peer: it accepts no rule for every project")

    async with database.connection() as conn:
        row = await _find(conn, rule_id, viewer)
    is_widened = everywhere and row.level == "project"
    owner = MemoryOwner(row.agent) if is_widened else _owner_of(row)

    rule = clean_statement(_rule_of(row) if words is None else words, redact)
    if not rule or len(rule) > MAX_STATEMENT_CHARS:
        raise UsageError(f"a rule is one to {MAX_STATEMENT_CHARS} characters, not {len(rule)}")
    if (harm := text_harm(rule)) in GRAVE:
        raise UsageError(f"it holds a command that {harm}: what memory tells to no agent")

    decision = {"decision": STATED, "statement": rule, **_attribute(row)}
    async with database.transaction() as conn:
        await scopes.lock_agents(conn, [row.agent])
        now = database.clock.now()
        if is_widened:
            await _forget(conn, row, now, viewer)  # else the project would have it twice
        event = await log_decision(conn, owner, decision, now=now, viewer=viewer)
        candidate = read_statement(event, session_context(await sessions.get(conn, event.session_id)), redact)
        if candidate is None:
            raise UsageError("there is nothing to believe in it")
        await facts.save_candidates(conn, [asdict(candidate)], run_id="")
        await reconcile_facts(conn, row.agent, Provenance(None, "person", now))
        if is_widened:
            attributes = [OwnedAttribute("agent", "", row.subject, name) for name in spellings_of(row.predicate)]
            fact = await facts.load_fact_of(conn, row.agent, attributes, candidate.id)
        else:
            fact = await lookup.load_fact(conn, row.fact_id or _id_of(row))

    if fact is None:
        raise NotFound(f"what {rule_id!r} rests on was erased meanwhile")
    return fact


async def dismiss_rule(database: Database, rule_id: str, *, viewer: Viewer = OWNER) -> RuleProposal:
    """Propose something no more; where memory believes it, it is forgotten. Returns what was dismissed."""
    viewer.check_may("write")
    async with database.connection() as conn:
        row = await _find(conn, rule_id, viewer)
        proposal = await _propose(conn, row)
    async with database.transaction() as conn:
        await scopes.lock_agents(conn, [row.agent])
        now = database.clock.now()
        await _forget(conn, row, now, viewer)
        await reconcile_facts(conn, row.agent, Provenance(None, "person", now))
    return proposal


async def _forget(conn: Connection, row: RepeatedRow, now: datetime, viewer: Viewer) -> None:
    """Log that a proposal is neither to be proposed nor believed; the caller holds the agent's lock, and reconciles."""
    decision = {"decision": FORGOTTEN, "fact_id": row.fact_id or _id_of(row), **_attribute(row)}
    event = await log_decision(conn, _owner_of(row), decision, now=now, viewer=viewer)
    forgotten = read_forgetting(event, session_context(await sessions.get(conn, event.session_id)))
    if forgotten is not None:
        await facts.save_tombstones(conn, [(forgotten, spellings_of(forgotten.predicate))])


async def list_accepted_rules(
    database: Database, *, project: str, agent: str | None = None, viewer: Viewer = OWNER
) -> list[AcceptedRow]:
    """Return the rules that a person accepted for a project and that are believed."""
    viewer.check_may("read")
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, MemoryScope(agent, project))
        if scope.peer is not None:  # a project's rules are of all its people
            return []
        accepted = await rules.list_accepted(
            conn, scope, level="project", owner=scope.project or "", limit=MAX_ACCEPTED
        )
    return [row for row in accepted if text_harm(row.rule) not in GRAVE]


async def _list_visible(
    conn: Connection,
    viewer: Viewer,
    *,
    agent: str | None,
    project: str | None,
    after: Sequence[Any] | None = None,
    of_owner: bool = False,
) -> list[RepeatedRow]:
    """Return the proposals after a position that nobody dismissed, at most `MAX_PROPOSALS`.

    `of_owner`: only of the owner's own latest orders, and none that is believed already.
    """
    scope = await narrow_scope(conn, viewer, MemoryScope(agent, project))
    level, owner = (None, None) if scope.project is None else ("project", scope.project)
    if scope.peer is not None:  # what several people asked is for who sees them all
        level, owner = "peer", scope.peer
    limit = MAX_ORDERS_AT_START if of_owner else MAX_ORDERS
    orders = await rules.list_orders(conn, scope, level=level, owner=owner, of_owner=of_owner, limit=limit)
    rows = (
        []
        if of_owner
        else await rules.list_believed(
            conn, scope, min_sessions=STANDING_COUNT, level=level, owner=owner, limit=MAX_PROPOSALS
        )
    )
    dismissed = {
        correction.fact_id
        for agent_name in sorted({order.agent for order in orders})
        for correction in await facts.load_corrections(conn, agent_name)
        if not correction.is_stated
    }
    grouped = await asyncio.to_thread(
        lambda: list(_group_orders(orders, dismissed, in_full=of_owner))
    )  # each is compared with others
    proposed = sorted([*rows, *grouped], key=lambda row: row.order)
    start = None if after is None else rules.order_of(after)
    return [row for row in proposed if start is None or row.order > start][:MAX_PROPOSALS]


def _group_orders(
    orders: Sequence[OrderRow], dismissed: Collection[str], *, in_full: bool = False
) -> Iterator[RepeatedRow]:
    """Yield the orders that several sessions gave, in whatever words; none that a person accepted or dismissed.

    `in_full`: in words that each of its sessions has, for these are told as what a person said.
    """
    owners: dict[tuple[str, str, str, str], dict[str, OrderRow]] = {}
    for order in sorted(orders, key=lambda order: (-len(order.roots), -len(order.value), order.value)):
        owners.setdefault((order.agent, order.level, order.owner, order.subject), {})[order.value] = order
    for (agent, level, owner, subject), forms in owners.items():
        if (level, owner) != ("agent", ""):  # what is accepted for every project
            everywhere = owners.get((agent, "agent", "", subject), {}).values()
            forms |= {order.value: order for order in everywhere if order.accepted}
        proposed: dict[str, set[str]] = {}  # of a person's words the sessions: a part of them is no second rule
        for values in group_orders(forms):
            group = [forms[value] for value in values]
            first = group[0]
            roots = {root for order in group for root in order.roots}
            if roots <= proposed.get(first.words, set()):
                continue
            sessions, proposed[first.words] = len(roots), roots
            row = RepeatedRow(
                *(agent, level, owner, subject, first.predicate, first.value, None, first.words, sessions),
                last_at=max(order.last_at for order in group),
                values=tuple(values[1:]),
            )
            is_decided = any(order.accepted or _id_of(replace(row, value=order.value)) in dismissed for order in group)
            # What the imported logs of one other person repeat is that person's, until somebody else asks for it, too.
            is_of_one = len({peer for order in group for peer in order.imported_of}) < 2 and level != "peer"
            longer = {root for order in group if not is_brief(order.value) for root in order.roots}
            is_repeated = len(longer) >= STANDING_COUNT or sessions >= MIN_BRIEF
            if is_decided or not is_repeated or (is_of_one and not any(o.said_here for o in group)):
                continue
            yield from _said_in_full(row, group) if in_full else (row,)


def _said_in_full(row: RepeatedRow, group: Sequence[OrderRow]) -> Iterator[RepeatedRow]:
    """Yield a proposal in the most words that several sessions have, all of them, with these sessions alone."""
    for order in sorted(group, key=lambda order: (-len(order.value), order.value)):
        full = [each for each in group if has_words_of(each.value, order.value)]
        sessions = len({root for each in full for root in each.roots})
        if sessions >= (MIN_BRIEF if is_brief(order.value) or says_little(order.value) else STANDING_COUNT):
            values = tuple(each.value for each in full if each is not order)
            yield replace(row, value=order.value, words=order.words, sessions=sessions, values=values)
            return


async def _find(conn: Connection, rule_id: str, viewer: Viewer) -> RepeatedRow:
    """Return the proposal whose id is this or begins with it."""
    rows = await _list_visible(conn, viewer, agent=None, project=None)
    rule_id = read_citation(rule_id)
    # A start names an order by the form that it tells, which may be another than the first of all people's forms.
    named = [(row, value) for row in rows for value in (row.value, *row.values)]
    matching = [
        replace(row, value=value, values=tuple({row.value, *row.values} - {value}))
        for row, value in named
        if rule_id and (row.fact_id or _id_of(replace(row, value=value))).startswith(rule_id)
    ]
    if not matching:
        raise NotFound(f"no proposal has the id {rule_id!r}; `consolidator rules` lists them")
    if len(matching) > 1:
        raise UsageError(f"{len(matching)} proposals begin with {rule_id!r}: type more of the id")
    return matching[0]


async def _propose(conn: Connection, row: RepeatedRow, *, of_owner: bool = False) -> RuleProposal:
    names = spellings_of(row.predicate)
    quotes: Sequence[RuleQuoteRow] = await rules.load_quotes(conn, row, names, limit=MAX_QUOTES, of_owner=of_owner)
    owner = _owner_of(row)
    return RuleProposal(
        id=row.fact_id or _id_of(row),
        rule=_rule_of(row),
        sessions=row.sessions,
        agent=row.agent,
        project=owner.project,
        peer=owner.peer,
        believed=row.fact_id is not None,
        quotes=sorted(quotes, key=lambda quote: quote.occurred_at, reverse=True),
        withheld=text_harm(_rule_of(row)),
    )


def _rule_of(row: RepeatedRow) -> str:
    """Return a proposal as an order: what its sessions have in common; of some believed facts only the sentence is."""
    if row.predicate == "instruction":
        return as_sentence(as_rule(row.value))
    return as_sentence(row.value) if row.predicate == "rule" else row.words


def _owner_of(row: RepeatedRow) -> MemoryOwner:
    return MemoryOwner(
        row.agent,
        project=row.owner if row.level == "project" else None,
        peer=row.owner if row.level == "peer" else None,
    )


def _id_of(row: RepeatedRow) -> str:
    owner = _owner_of(row)
    return fact_id((row.agent, row.level, owner.project, owner.peer), row.subject, row.predicate, row.value)


def _attribute(row: RepeatedRow) -> dict[str, str]:
    return {"subject": row.subject, "predicate": row.predicate, "value": normalize_value(row.value)}
