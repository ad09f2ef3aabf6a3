"""Keeps the sums over an agent's digests from night to night, so that a night reads only the digests that changed.

A digest counts keys (hashes of what calls did, with which arguments). A sum says of each key how often it was counted,
and in how many lineage roots. Roots cannot be added up session by session, because a fork shares its parent's root. So
the change of a night is computed from all sessions of the roots with news: their sums now, minus their sums before.

Example: an agent with three sessions; s3 is a fork of s1, so both have the root r1. Last night's sums, of s1 and s2:

    s1 (r1)  a: 2, b: 1        a: 2 + 3 = 5, in 2 roots (r1, r2)
    s2 (r2)  a: 3              b: 1,         in 1 root  (r1)

Since then s1 went on to a: 4, b: 1 (its row keeps the old counts as `summed_keys` and `summed_counts`), and s3 is new,
with a: 1. The only root with news is r1, so s2 is not read:

    now   s1, s3 of r1         a: 4 + 1 = 5, in 1 root;  b: 1, in 1 root
    was   s1 of r1             a: 2,         in 1 root;  b: 1, in 1 root
    change = now - was         a: +3,        +0 roots;   b: 0, +0 roots
    sums + change              a: 5 + 3 = 8, in 2 roots; b: 1, in 1 root

Where several people have sessions, each person's are summed apart, too, in the same way. The sums of audience `shared`
count people in place of roots. What changes them is what changes each person's sums: a key that the person's sums did
not have before has one more person now. So of a person, too, only the roots with news are read.

The sums are rebuilt from all digests if a change would decrease a sum, or if a session that they include was erased,
moved to another root, or became a simulation: `lineage`, stored beside the sums, is a hash that shows it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from psycopg import Rollback

from consolidator.database import Connection
from consolidator.memory.procedures.digest import unpack_terms
from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_sums import EMPTY_SUMS, MIN_RECURRING_ROOTS, KeySums, concatenate, hash_lineage
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, task_outcome
from consolidator.models.audience import ALL, SHARED, own_audience
from consolidator.models.sums import AgentSumsRow, ScopeSumRow, SumTextRow
from consolidator.store.memory import digests, sums
from consolidator.store.memory.sums import DigestSequence, UnsummedDigest

VERSION = "kept-3"  # of the form in which sums and texts are stored; those of another version are rebuilt
ALL_PROJECTS = ""  # the scope of all that an agent does; of a digest: it belongs to no project
MAX_TEXT_PARTS = 64  # parts of an agent's texts, before they are stored as one
_TERMS_BATCH = 500  # sessions whose terms are read at once
LineageEntry = tuple[str, str, str, str, str]  # session, root, project, person, bytes of its keys


@dataclass(slots=True)
class AgentSums:
    """All of an agent's digests, their sums by scope and audience, and the texts of the keys that are summed.

    Where several people have sessions, `ALL` is what all of them count, `own_audience(person)` what one of them does,
    the owner of the machine included, and in `SHARED` the `roots` are people.
    """

    agent: str
    by_project: dict[str, list[DigestArrays]]
    texts: KeyTexts
    news: Mapping[str, frozenset[str]] = field(default_factory=dict)  # projects to publish anew, by person with news
    is_republished: bool = True  # whether all scopes are published again: everything was summed anew
    _sums: dict[tuple[str, str], KeySums] = field(default_factory=dict)  # by project and audience

    @property
    def people(self) -> frozenset[str]:
        """Whose sessions they are; "" is the owner of the machine."""
        return _people_of(chain.from_iterable(self.by_project.values()))

    @property
    def has_shared_scope(self) -> bool:
        """Whether something is published of the agent as a whole."""
        return has_shared_scope(self.by_project)

    async def load(self, conn: Connection, project: str, audience: str = ALL) -> KeySums:
        """Return the sums of a project, or of ALL_PROJECTS."""
        key = (project, audience)
        if key not in self._sums:
            row = await sums.get_scope_sum(conn, self.agent, project, audience)
            self._sums[key] = KeySums.unpack(row.keys, row.totals, row.roots) if row else EMPTY_SUMS
        return self._sums[key]

    async def save(self, conn: Connection, project: str, scope_sums: KeySums, audience: str = ALL) -> None:
        """Store the sums of a project, or of ALL_PROJECTS."""
        self._sums[project, audience] = scope_sums
        row = ScopeSumRow(agent=self.agent, project=project, audience=audience, **scope_sums.pack())
        await sums.save_scope_sum(conn, row)

    async def add(self, conn: Connection, project: str, change: KeySums, audience: str = ALL) -> None:
        """Add a change to the stored sums of a project, or of ALL_PROJECTS."""
        before = await self.load(conn, project, audience)
        await self.save(conn, project, before.plus(change), audience)


def _people_of(digests: Iterable[DigestArrays | DigestSequence]) -> frozenset[str]:
    return frozenset(digest.peer for digest in digests)


def has_shared_scope(projects: Iterable[str]) -> bool:
    """Tell whether an agent with these projects has several of them, or works outside of any."""
    distinct = set(projects)
    return len(distinct) > 1 or ALL_PROJECTS in distinct or not distinct


async def update_sums(conn: Connection, agent: str) -> AgentSums:
    """Bring an agent's sums up to date, in the caller's transaction that holds the agent's lock."""
    updated: AgentSums | None = None
    async with conn.transaction() as savepoint:
        updated = await _add_news(conn, agent)
        if updated is None:  # releases the locks on digests, so that the rebuild takes them in order
            raise Rollback(savepoint)
    return updated or await _rebuild(conn, agent)


async def _add_news(conn: Connection, agent: str) -> AgentSums | None:
    """Add the digests that changed to the stored sums; return None if the sums have to be rebuilt."""
    news = await sums.lock_unsummed(conn, agent)
    sequences = await sums.list_sequences(conn, agent)
    stored = await sums.get_agent_sums(conn, agent)
    summed = [_lineage_entry(digest, digest.size) for digest in sequences if digest.size is not None]
    if stored is None or (stored.version, stored.lineage) != (VERSION, hash_lineage(summed)):
        return None
    outcomes = {digest.session_id: task_outcome(_unpack_ints(digest.keys)) for digest in news}
    by_project: dict[str, list[DigestArrays]] = defaultdict(list)
    for digest in sequences:
        by_project[digest.project].append(_arrays(digest, outcomes.get(digest.session_id, digest.outcome)))
    if has_shared_scope(by_project) != has_shared_scope(project for _, _, project, _, _ in summed):
        return None
    people_before = _people_of(digest for digest in sequences if digest.size is not None)
    has_several_people = len(_people_of(sequences)) > 1
    if has_several_people != (len(people_before) > 1):
        return None
    texts = _unpack_texts(await sums.list_texts(conn, agent))
    result = AgentSums(agent, dict(by_project), texts, _projects_with_news(news, sequences), is_republished=False)
    if not news:
        return result
    current, previous = await _load_changed_roots(conn, news, sequences)
    shared = result.has_shared_scope
    changes = await asyncio.to_thread(_changes_by_scope, current, previous, shared)
    by_person = await asyncio.to_thread(_changes_by_person, current, previous, shared) if has_several_people else {}
    if any(change.has_decrease for scopes in (changes, *by_person.values()) for change in scopes.values()):
        return None
    for project, change in changes.items():
        await result.add(conn, project, change)
    await _add_people(conn, result, by_person)
    await _add_texts(conn, result, news)
    # Of changed digests the root as it was summed: if it has moved since then, the next night must see that.
    entries = {
        digest.session_id: _lineage_entry(digest, digest.size) for digest in sequences if digest.size is not None
    }
    entries |= {digest.session_id: _lineage_entry(digest, len(digest.keys)) for digest in news}
    in_order = [entries[digest.session_id] for digest in sequences if digest.session_id in entries]
    await _save_lineage(conn, agent, in_order)
    await sums.mark_summed(conn, outcomes)
    return result


def _projects_with_news(
    news: Sequence[UnsummedDigest], sequences: Sequence[DigestSequence]
) -> dict[str, frozenset[str]]:
    """Return the projects to publish anew for each person with news: all of them if nothing could recur before."""
    projects: dict[str, set[str]] = defaultdict(set)
    for digest in news:
        projects[digest.peer].add(digest.project)
    roots_before: dict[str, set[str]] = defaultdict(set)
    for before in sequences:
        if before.size is not None:
            roots_before[before.peer].add(before.root_id)
    for sequence in sequences:
        if sequence.peer in projects and len(roots_before[sequence.peer]) < MIN_RECURRING_ROOTS:
            projects[sequence.peer].add(sequence.project)
    return {person: frozenset(of_person) for person, of_person in projects.items()}


@dataclass(frozen=True, slots=True)
class _DigestCounts:
    """What one session counts, or counted when it was summed."""

    root_id: str
    person: str
    project: str
    keys: Ints
    counts: Ints


def _counts_of(digest: UnsummedDigest | DigestSequence, keys: bytes, counts: bytes) -> _DigestCounts:
    return _DigestCounts(digest.root_id, digest.peer, digest.project, _unpack_ints(keys), _unpack_ints(counts))


async def _load_changed_roots(
    conn: Connection, news: Sequence[UnsummedDigest], sequences: Sequence[DigestSequence]
) -> tuple[list[_DigestCounts], list[_DigestCounts]]:
    """Return what all sessions of the roots with news count, and what they counted when they were summed."""
    changed = {digest.session_id for digest in news}
    roots = {digest.root_id for digest in news}
    relatives = {
        digest.session_id: digest
        for digest in sequences
        if digest.root_id in roots and digest.session_id not in changed and digest.size is not None
    }
    rows = await sums.get_summed_counts(conn, list(relatives))
    unchanged = [_counts_of(relatives[row.session_id], row.keys, row.counts) for row in rows]
    current, previous = list(unchanged), list(unchanged)
    for digest in news:
        current.append(_counts_of(digest, digest.keys, digest.counts))
        if digest.summed_keys is not None and digest.summed_counts is not None:
            previous.append(_counts_of(digest, digest.summed_keys, digest.summed_counts))
    return current, previous


def _changes_by_scope(
    current: Sequence[_DigestCounts], previous: Sequence[_DigestCounts], shared: bool
) -> dict[str, KeySums]:
    """Return how the sums of each scope change."""
    changes = {ALL_PROJECTS: KeySums.of_sessions(current).minus(KeySums.of_sessions(previous))} if shared else {}
    for project in sorted({session.project for session in current} - {ALL_PROJECTS}):
        project_now = KeySums.of_sessions(session for session in current if session.project == project)
        project_was = KeySums.of_sessions(session for session in previous if session.project == project)
        changes[project] = project_now.minus(project_was)
    return changes


def _changes_by_person(
    current: Sequence[_DigestCounts], previous: Sequence[_DigestCounts], shared: bool
) -> dict[str, dict[str, KeySums]]:
    """Return how each person's sums of each scope change."""
    now: dict[str, list[_DigestCounts]] = defaultdict(list)
    was: dict[str, list[_DigestCounts]] = defaultdict(list)
    for by_person, sessions in ((now, current), (was, previous)):
        for session in sessions:
            by_person[session.person].append(session)
    return {person: _changes_by_scope(now[person], was[person], shared) for person in sorted(now)}


async def _add_people(conn: Connection, result: AgentSums, changes: Mapping[str, Mapping[str, KeySums]]) -> None:
    """Add what changed to the sums of each person, and to those that count people."""
    shared_changes: dict[str, KeySums] = {}
    for person, by_project in changes.items():
        for project, change in by_project.items():
            before = await result.load(conn, project, own_audience(person))
            shared_change = shared_changes.get(project, EMPTY_SUMS)
            shared_changes[project] = shared_change.plus(change.as_one_person(before))
            await result.add(conn, project, change, own_audience(person))
    for project, change in shared_changes.items():
        await result.add(conn, project, change, SHARED)


async def _rebuild(conn: Connection, agent: str) -> AgentSums:
    """Sum all of an agent's digests."""
    await sums.delete(conn, agent)
    rows = await sums.lock_unsummed(conn, agent, everything=True)
    by_project: dict[str, list[DigestArrays]] = defaultdict(list)
    for row in rows:
        keys, counts = _unpack_ints(row.keys), _unpack_ints(row.counts)
        by_project[row.project].append(_arrays(row, task_outcome(keys), keys, counts))
    projects: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        projects[row.peer].add(row.project)
    with_news = {person: frozenset(of_person) for person, of_person in projects.items()}
    result = AgentSums(agent, dict(by_project), KeyTexts.from_dict({}), with_news)
    scopes = {project: arrays for project, arrays in by_project.items() if project}
    if result.has_shared_scope:
        scopes[ALL_PROJECTS] = [digest for arrays in by_project.values() for digest in arrays]
    has_several_people = len(result.people) > 1
    for project, arrays in scopes.items():
        await result.save(conn, project, await asyncio.to_thread(KeySums.of_sessions, arrays))
        if has_several_people:
            of_people = await asyncio.to_thread(KeySums.of_sessions, with_people_as_roots(arrays))
            await result.save(conn, project, of_people, SHARED)
            for person, own in group_by_person(arrays).items():
                await result.save(
                    conn, project, await asyncio.to_thread(KeySums.of_sessions, own), own_audience(person)
                )
    await _add_texts(conn, result, rows)
    await _save_lineage(conn, agent, [_lineage_entry(row, len(row.keys)) for row in rows])
    await sums.mark_summed(
        conn, {digest.session_id: digest.outcome for arrays in by_project.values() for digest in arrays}
    )
    return result


async def _add_texts(conn: Connection, result: AgentSums, news: Sequence[UnsummedDigest]) -> None:
    """Add the texts of keys and goal words that recur now and did not before, and of new symbols, from sessions."""
    widest = ALL_PROJECTS if result.has_shared_scope else next(iter(result.by_project))
    recurring = (await result.load(conn, widest)).recurring().keys
    symbols = concatenate([_unpack_ints(digest.sequence) for digest in news])
    words = _recurring_goal_words(result.by_project)
    missing = await asyncio.to_thread(result.texts.missing_keys, np.concatenate([recurring, symbols, words]))
    if not len(missing):
        return
    terms = dict.fromkeys(missing.tolist(), "")  # "": the key has no text, and none is looked for again
    sessions = await asyncio.to_thread(_sessions_with_keys, news, missing)
    for first in range(0, len(sessions), _TERMS_BATCH):
        rows = await digests.get_terms(conn, sessions[first : first + _TERMS_BATCH])
        await asyncio.to_thread(_fill_texts, terms, [row.terms for row in rows])
    parts = await sums.list_texts(conn, result.agent) if len(result.texts) else []
    added = await asyncio.to_thread(KeyTexts.from_dict, terms)
    result.texts = result.texts.plus(added)
    if not parts or len(parts) >= MAX_TEXT_PARTS:
        await sums.save_texts(conn, SumTextRow(agent=result.agent, part=0, **result.texts.pack()))
    else:
        await sums.save_texts(conn, SumTextRow(agent=result.agent, part=parts[-1].part + 1, **added.pack()))


def _recurring_goal_words(by_project: Mapping[str, Sequence[DigestArrays]]) -> Ints:
    """Return the words that the goals of several lineage roots have."""
    roots: dict[str, set[int]] = defaultdict(set)
    for digest in chain.from_iterable(by_project.values()):
        roots[digest.root_id].update(digest.goal.tolist())
    counts = Counter(chain.from_iterable(roots.values()))
    return np.asarray([word for word, count in counts.items() if count >= MIN_RECURRING_ROOTS], np.int64)


def _sessions_with_keys(news: Sequence[UnsummedDigest], missing: Ints) -> list[str]:
    """Return sessions that together have all missing keys, each with a key that those before it have not."""
    unseen = np.ones(len(missing), np.bool_)
    sessions = []
    for digest in news:
        present = np.concatenate([_unpack_ints(packed) for packed in (digest.keys, digest.sequence, digest.goal)])
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


def _unpack_texts(rows: Iterable[SumTextRow]) -> KeyTexts:
    return KeyTexts.unpack({"keys": row.keys, "groups": row.groups, "texts": row.texts} for row in rows)


def _lineage_entry(digest: UnsummedDigest | DigestSequence, size: int | None) -> LineageEntry:
    return digest.session_id, digest.root_id, digest.project, digest.peer, str(size)


async def _save_lineage(conn: Connection, agent: str, entries: Iterable[LineageEntry]) -> None:
    await sums.save_agent_sums(conn, AgentSumsRow(agent, VERSION, hash_lineage(entries)))


def _arrays(
    digest: UnsummedDigest | DigestSequence,
    outcome: int,
    keys: Ints = EMPTY_SUMS.keys,
    counts: Ints = EMPTY_SUMS.totals,
) -> DigestArrays:
    """Return a digest as patterns are mined from it."""
    return DigestArrays(
        digest.session_id,
        digest.root_id,
        _unpack_ints(digest.sequence),
        _unpack_ints(digest.seqs),
        keys,
        counts,
        last_at=digest.last_at,
        project=digest.project,
        outcome=outcome,
        goal=_unpack_ints(digest.goal),
        peer=digest.peer,
    )


def group_by_person(digests: Iterable[DigestArrays]) -> dict[str, list[DigestArrays]]:
    """Return digests by whose they are."""
    by_person: dict[str, list[DigestArrays]] = defaultdict(list)
    for digest in digests:
        by_person[digest.peer].append(digest)
    return dict(by_person)


def with_people_as_roots(digests: Iterable[DigestArrays]) -> list[DigestArrays]:
    """Return digests with the person in place of the lineage root, so that people are counted."""
    return [replace(digest, root_id=digest.peer, peer=f"person {digest.peer}") for digest in digests]


def _unpack_ints(packed: bytes) -> Ints:
    return np.frombuffer(packed, np.int64)
