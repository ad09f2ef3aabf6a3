"""Publishes an agent's procedures and tool profiles: of each scope with news, for each audience.

A scope (an agent in one project or in all of them, of one person or of everybody) is learned from its latest sessions
alone: `digests.MAX_SESSIONS` at most, of one project `MAX_PROJECT_SESSIONS`, with at most `MAX_CALLS` calls. So
what a merge costs, in time and memory, does not grow with the history. Which sessions these are is a function of the
digests, so that the order of nights does not matter. Nothing is kept from night to night but a cache: the texts of
recurring keys, which are costly to read from the digests, and the steps of what was selected.

What several projects share is published for the agent as a whole, and not for each of these projects, too: there it is
withheld. If what is shared changes, procedures of other projects are withheld or released, as they were learned.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from consolidator.database import Connection
from consolidator.memory.lessons.learning import LEARNING_VERSION
from consolidator.memory.procedures.digest import unpack_quotes, unpack_terms
from consolidator.memory.procedures.key_counts import (
    MIN_RECURRING_ROOTS,
    Ints,
    KeySums,
    concatenate,
    encode_json,
    hash_text,
)
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, MinedPatterns, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule, exclude_shared
from consolidator.memory.procedures.publishing import Procedure, PublishedScope, procedure_id, publish_scope
from consolidator.memory.solutions.fix_description import quote_harm
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
from consolidator.models.audience import ALL, OWNER, SHARED, audience_of_only, own_audience
from consolidator.models.digest import ScopeRow, ScopeStateRow
from consolidator.models.procedure import ProcedureRow
from consolidator.models.provenance import Changes, Provenance
from consolidator.process import gc_paused
from consolidator.store.calls import digests, procedures, scopes

ALL_PROJECTS = ""  # the scope of all that an agent does; of a digest: it belongs to no project
_TERMS_BATCH = 200  # sessions whose terms are read at once
NOTHING = PublishedScope([], {})


@dataclass(frozen=True, slots=True)
class Audience:
    """To whom something is published, and which sessions it is learned from."""

    name: str  # as `models.audience` explains
    person: str | None = None  # learn from this person's sessions alone
    counts_people: bool = False  # in place of lineage roots

    def identify(self, agent: str) -> str:
        """Return the name of an agent that this audience's procedures are identified by."""
        return agent if self.name.startswith(ALL) else f"{agent}\x1f{self.name}"


async def load_digests(conn: Connection, agent: str, project: str, person: str | None) -> list[DigestArrays]:
    """Return the digests that a scope is learned from, the latest first."""
    rows = await digests.list_latest(conn, agent, None if project == ALL_PROJECTS else project, person)
    return [
        DigestArrays.unpack(row.session_id, row.root_id, row.arrays, row.last_at, row.project, row.peer) for row in rows
    ]


async def learn_scope(
    conn: Connection, agent: str, project: str, audience: Audience, latest: Sequence[DigestArrays], min_support: int
) -> PublishedScope:
    """Return what is published of a scope for an audience, and keep what the next merge of it uses."""
    is_shared = project == ALL_PROJECTS
    project_count = len({digest.project for digest in latest})
    if is_shared and project_count == 1 and latest[0].project != ALL_PROJECTS:
        learned, texts = NOTHING, KeyTexts.from_dict({})  # its only project has it all
    else:
        rule = PublicationRule.for_scope(min_support, is_shared=is_shared, project_count=project_count)
        if audience.counts_people:
            latest = [replace(digest, root_id=digest.peer, peer=f"person {digest.peer}") for digest in latest]
        mined = await asyncio.to_thread(_mine, latest, rule, min_support if audience.counts_people else 0)
        texts = await _load_texts(conn, agent, project, audience, latest, mined)
        learned = await asyncio.to_thread(
            publish_scope, mined, texts, rule, agent=audience.identify(agent), project=project
        )
    selected = np.asarray([hash_symbols(procedure.symbols) for procedure in learned.procedures], np.int64)
    packed = {**texts.pack(), "selected": selected.tobytes()}
    await scopes.save_state(conn, ScopeStateRow(agent=agent, project=project, audience=audience.name, **packed))
    return learned


def hash_symbols(symbols: Sequence[str]) -> int:
    """Return the hash of a procedure's steps."""
    return hash_text("\x1f".join(symbols))


def _mine(latest: Sequence[DigestArrays], rule: PublicationRule, min_roots: int) -> MinedPatterns:
    """Return the patterns and sums of digests; keys that fewer than `min_roots` have are not even looked at."""
    sums = KeySums.of_sessions(latest)
    return mine_patterns(latest, rule, key_sums=sums.recurring(min_roots) if min_roots else sums)


async def _load_texts(
    conn: Connection, agent: str, project: str, audience: Audience, latest: Sequence[DigestArrays], mined: MinedPatterns
) -> KeyTexts:
    """Return the texts of what recurs in digests: those that the last merge left, and what is missing from sessions."""
    recurring = await asyncio.to_thread(_find_recurring, latest, mined)
    state = await scopes.get_state(conn, agent, project, audience.name)
    texts = KeyTexts.from_dict({})
    if state is not None:
        texts = KeyTexts.unpack([{"keys": state.keys, "groups": state.groups, "texts": state.texts}]).only(recurring)
    missing = texts.missing_keys(recurring)
    if not len(missing):
        return texts
    terms = dict.fromkeys(missing.tolist(), "")  # "": the key has no text, and none is looked for again
    sessions = await asyncio.to_thread(_find_sessions_with, latest, missing)
    for first in range(0, len(sessions), _TERMS_BATCH):
        rows = await digests.get_terms(conn, sessions[first : first + _TERMS_BATCH])
        await asyncio.to_thread(_fill_texts, terms, list(rows.values()))
    return texts.plus(await asyncio.to_thread(KeyTexts.from_dict, terms))


def _find_recurring(latest: Sequence[DigestArrays], mined: MinedPatterns) -> Ints:
    """Return what needs a text: recurring keys and symbols of patterns."""
    symbols = {symbol for pattern in mined.patterns for symbol in pattern.symbols}
    return np.unique(np.concatenate([mined.key_sums.recurring().keys, np.asarray([*symbols], np.int64)]))


def _find_sessions_with(latest: Iterable[DigestArrays], missing: Ints) -> list[str]:
    """Return sessions that together have all missing keys, each with a key that those before it have not."""
    unseen = np.ones(len(missing), np.bool_)
    sessions = []
    for digest in latest:
        present = concatenate([digest.keys, digest.sequence])
        at = np.minimum(np.searchsorted(missing, present), len(missing) - 1)
        at = at[(missing[at] == present) & unseen[at]]
        if len(at):
            unseen[at] = False
            sessions.append(digest.session_id)
    return sessions


def _fill_texts(terms: dict[int, str], packed: Iterable[bytes]) -> None:
    for digest_terms in packed:
        for key, text in unpack_terms(digest_terms).items():
            if terms.get(key) == "":
                terms[key] = text


VERSION = "latest-5"  # of how scopes are learned and published; an agent of another version is published again
_MAX_QUOTED = 1000  # sessions whose quotes are kept in memory

CallKey = tuple[str, int]  # session and seq
SharedSymbols = Mapping[tuple[str, ...], bool]  # by the steps of what is shared, whether it is worth telling


async def merge_procedures(
    conn: Connection, agent: str, provenance: Provenance, changes: Changes, *, min_support: int
) -> Sequence[ScopeRow]:
    """Publish what changed of an agent since it was merged, in the caller's transaction that holds its lock.

    Return which of its scopes these were.
    """
    changed = await scopes.list_changed(conn, agent)
    if not changed:
        return []
    people = await digests.list_people(conn, agent, max(2, min_support))
    form = encode_json([VERSION, LEARNING_VERSION, min_support, people if len(people) <= 1 else len(people)])
    is_republished = await scopes.get_form(conn, agent) != form
    news: dict[str, set[str]] = defaultdict(set)  # projects by person
    published = await scopes.list_of_agent(conn, agent) if is_republished else changed
    for scope in published:
        news[scope.peer].add(scope.project)
    if is_republished:
        await scopes.forget_states(conn, agent)
        await _delete_other_audiences(conn, agent, people, news, min_support)
    projects = set().union(*news.values())
    writer = _ScopeWriter(conn, agent, provenance, changes)
    with gc_paused():
        await _merge_group(conn, agent, _audiences_of_all(people, min_support), projects, writer, min_support)
        if len(people) > 1:
            for person in sorted(news.keys() - {OWNER}):
                await _merge_person(conn, agent, person, news[person], writer, min_support)
    await scopes.save_form(conn, agent, form)
    await scopes.mark_merged(conn, changed)
    return published


def _audiences_of_all(people: Sequence[str], min_support: int) -> list[Audience]:
    """Return for whom is published what everybody's sessions taught; `people` are some of those who have any."""
    if len(people) <= 1:
        return [Audience(audience_of_only(person)) for person in people or [OWNER]]
    return [Audience(ALL)] + ([Audience(SHARED, counts_people=True)] if len(people) >= min_support else [])


async def _delete_other_audiences(
    conn: Connection, agent: str, people: Sequence[str], named: Iterable[str], min_support: int
) -> None:
    """Delete what was published for audiences that the agent does not have any more."""
    audiences: set[str] = set()
    if len(people) > 1:
        audiences = {own_audience(person) for person in named} | ({SHARED} if len(people) >= min_support else set())
    for audience in set(await procedures.list_other_audiences(conn, agent)) - audiences:
        await procedures.delete_audience(conn, agent, audience)


async def _merge_person(
    conn: Connection, agent: str, person: str, projects: Collection[str], writer: _ScopeWriter, min_support: int
) -> None:
    """Publish what one of several people has: all of it if nothing could recur in their sessions before."""
    audience = Audience(own_audience(person), person)
    if len({digest.root_id for digest in await load_digests(conn, agent, ALL_PROJECTS, person)}) < MIN_RECURRING_ROOTS:
        await scopes.forget_states(conn, agent, audience=audience.name)
        await procedures.delete_audience(conn, agent, audience.name)
        return
    if await scopes.get_state(conn, agent, ALL_PROJECTS, audience.name) is None:
        projects = await scopes.list_projects_of_person(conn, agent, person)
    await _merge_group(conn, agent, [audience], projects, writer, min_support)


async def _merge_group(
    conn: Connection,
    agent: str,
    audiences: Sequence[Audience],
    changed: Collection[str],
    writer: _ScopeWriter,
    min_support: int,
) -> None:
    """Publish, for audiences that learn from the same sessions, what projects share, and each project that changed."""
    shared: dict[str, SharedSymbols] = {}  # by audience
    latest = await load_digests(conn, agent, ALL_PROJECTS, audiences[0].person)
    for audience in audiences:
        scope = await learn_scope(conn, agent, ALL_PROJECTS, audience, latest, min_support)
        before = {
            tuple(step["symbol"] for step in body["steps"]): worth > 0
            for body, worth in await procedures.list_shared(conn, agent, audience.name)
        }
        await writer.save(ALL_PROJECTS, scope, audience)
        now = {procedure.symbols: procedure.worth > 0 for procedure in scope.procedures}
        shared[audience.name] = now
        changes = await _find_affected(conn, agent, audience, changed, before, now)
        released = await procedures.release(conn, changes.own, changes.worthless, writer.provenance)
        retired = await procedures.withhold(conn, changes.shared, changes.worthless, writer.provenance)
        if audience.name.startswith(ALL):
            writer.changes.add("procedures", "added", released)
            writer.changes.add("procedures", "retired", retired)
    del latest
    for project in sorted(set(changed) - {ALL_PROJECTS}):
        latest = await load_digests(conn, agent, project, audiences[0].person)
        for audience in audiences:
            scope = await learn_scope(conn, agent, project, audience, latest, min_support)
            await writer.save(project, scope, audience, shared[audience.name])
        del latest


@dataclass(slots=True)
class _AffectedProcedures:
    """The procedures of projects whose steps have come to be shared, or not to be, or to be worth more or less."""

    shared: list[str] = field(default_factory=list)  # ids of those that are worth telling for all projects
    worthless: list[str] = field(default_factory=list)  # of those that are shared, but not worth telling
    own: list[str] = field(default_factory=list)  # of those that are shared no more


async def _find_affected(
    conn: Connection,
    agent: str,
    audience: Audience,
    learned: Collection[str],
    before: SharedSymbols,
    now: SharedSymbols,
) -> _AffectedProcedures:
    """Return what changes for procedures of projects other than those that are `learned` now."""
    affected = _AffectedProcedures()
    differing = [symbols for symbols in before.keys() | now.keys() if before.get(symbols) != now.get(symbols)]
    if not differing:
        return affected
    by_hash = {hash_symbols(symbols): symbols for symbols in differing}
    hashes = np.asarray(list(by_hash), np.int64)
    for project, packed in (await scopes.list_selected(conn, agent, audience.name)).items():
        if project in learned:
            continue
        selected = np.frombuffer(packed, np.int64)
        for steps in selected[np.isin(selected, hashes)].tolist():
            symbols = by_hash[steps]
            is_worthy = now.get(symbols)
            group = affected.own if is_worthy is None else affected.shared if is_worthy else affected.worthless
            group.append(procedure_id(audience.identify(agent), project, symbols))
    return affected


@dataclass(slots=True)
class _ScopeWriter:
    """Writes what is published of an agent's scopes, with the quotes that prove it."""

    conn: Connection
    agent: str
    provenance: Provenance
    changes: Changes
    quotes: dict[str, dict[int, str]] = field(default_factory=dict)  # by session and seq; scopes cite much the same

    async def save(
        self, project: str, scope: PublishedScope, audience: Audience, shared: SharedSymbols | None = None
    ) -> None:
        """Publish a scope in place of what it had; withhold what is `shared` by all projects."""
        if audience.counts_people:  # a case is one person's
            scope = replace(scope, procedures=[replace(procedure, evidence=()) for procedure in scope.procedures])
        quotes = await self._load_quotes(scope.procedures)
        own = {procedure.id for procedure in exclude_shared(scope.procedures, shared or {})}
        selected = [self._row(procedure, project, quotes, audience) for procedure in scope.procedures]
        rows = [row for row in selected if row.id in own]
        is_counted = audience.name.startswith(ALL)
        for outcome in await procedures.save_each(self.conn, rows):
            if is_counted:
                self.changes.add("procedures", outcome)
        ids = [row.id for row in rows]
        retired = await procedures.retire_others(
            self.conn, self.agent, project or None, audience.name, ids, self.provenance
        )
        if is_counted:
            self.changes.add("procedures", "retired", retired)
        if project != ALL_PROJECTS:
            withheld = [row for row in selected if row.id not in own]
            await procedures.replace_withheld(self.conn, self.agent, project, audience.name, withheld)
        profiles = {tool: profile.to_json() for tool, profile in scope.profiles.items()}
        await procedures.replace_tool_profiles(self.conn, self.agent, project, audience.name, profiles)

    def _row(
        self, procedure: Procedure, project: str, quotes: Mapping[CallKey, str], audience: Audience
    ) -> ProcedureRow:
        evidence = [[session, seq, quotes[session, seq]] for session, seq in procedure.evidence]
        return ProcedureRow(
            id=procedure.id,
            agent=self.agent,
            project=project or None,
            title=strip_invisible(procedure.title),
            support=procedure.support,
            rank=procedure.rank,
            worth=procedure.worth,
            body=strip_invisible_in({**procedure.to_json(), "evidence": evidence}),
            audience=audience.name,
            **self.provenance.columns(),
        )

    async def _load_quotes(self, published: Iterable[Procedure]) -> dict[CallKey, str]:
        """Return what the first call of each piece of evidence was given, as the digests keep it."""
        cited = {call for procedure in published for call in procedure.evidence}
        if len(self.quotes) > _MAX_QUOTED:
            self.quotes.clear()
        for row in await digests.get_quotes(self.conn, sorted({session for session, _ in cited} - self.quotes.keys())):
            seqs = np.frombuffer(row.seqs, np.int64).tolist()
            self.quotes[row.session_id] = dict(zip(seqs, unpack_quotes(row.quotes), strict=True))
        quoted = {(session, seq): self.quotes.get(session, {}).get(seq, "") for session, seq in cited}
        return {call: "" if quote_harm(quote) else quote for call, quote in quoted.items()}
