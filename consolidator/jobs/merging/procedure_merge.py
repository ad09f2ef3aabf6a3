"""Publishes an agent's procedures and tool profiles from the sums over its digests."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from consolidator.database import Connection
from consolidator.jobs.merging.changes import Changes
from consolidator.jobs.merging.scope_sums import (
    ALL_PROJECTS,
    AgentSums,
    group_by_person,
    has_shared_scope,
    update_sums,
    with_people_as_roots,
)
from consolidator.memory.procedures.digest import unpack_quotes
from consolidator.memory.procedures.key_sums import MIN_RECURRING_ROOTS
from consolidator.memory.procedures.patterns import DigestArrays, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule, exclude_shared
from consolidator.memory.procedures.publishing import Procedure, PublishedScope, publish_scope
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
from consolidator.models.audience import ALL, OWNER, SHARED, audience_of_only, own_audience
from consolidator.models.procedure import ProcedureRow
from consolidator.models.provenance import Provenance
from consolidator.models.scope import ScopeRow
from consolidator.store.memory import digests, procedures, scopes

CallKey = tuple[str, int]  # session and seq


async def merge_procedures(
    conn: Connection,
    agent: str,
    changed_scopes: Sequence[ScopeRow],
    provenance: Provenance,
    changes: Changes,
    *,
    min_support: int,
) -> None:
    """Publish what an agent's projects share, then the procedures of each project with news, for each audience."""
    with _gc_paused():
        sums = await update_sums(conn, agent)
        writer = _ScopeWriter(conn, agent, provenance, changes)
        changed = {scope.project for scope in changed_scopes}
        if sums.is_republished:
            changed |= sums.by_project.keys()
        for audience, by_project in _select_digests(sums, _audiences(sums, min_support)):
            projects = changed if audience.person is None else sums.news[audience.person]
            await _merge_audience(conn, sums, audience, by_project, projects, writer, min_support)
        await _delete_other_audiences(conn, sums, changed, min_support)
        for scope in changed_scopes:
            await scopes.mark_merged(conn, scope, sessions=len(sums.by_project.get(scope.project, [])))


@dataclass(frozen=True, slots=True)
class _Audience:
    """To whom something is published, and which sessions it is learned from."""

    name: str  # as `models.audience` explains
    person: str | None = None  # learn from this person's sessions alone
    counts_people: bool = False  # in place of lineage roots

    @property
    def kept_sums(self) -> str:
        """The audience whose sums are used: where only one person has sessions, those of all."""
        return ALL if self.name.startswith(ALL) else self.name


def _audiences(sums: AgentSums, min_support: int) -> list[_Audience]:
    """Return for whom an agent's scopes are published now; of single people only those who have news."""
    people = sums.people
    if len(people) <= 1:
        return [_Audience(audience_of_only(person)) for person in people or {OWNER}]
    audiences = [_Audience(ALL)]
    if len(people) >= min_support:
        audiences.append(_Audience(SHARED, counts_people=True))
    own = sorted(sums.news.keys() & _people_with_audience(sums))
    return audiences + [_Audience(own_audience(person), person) for person in own]


def _people_with_audience(sums: AgentSums) -> set[str]:
    """Return the people of whom something can recur. The owner needs no audience: all sessions are the owner's."""
    roots: dict[str, set[str]] = defaultdict(set)
    for digest in chain.from_iterable(sums.by_project.values()):
        roots[digest.peer].add(digest.root_id)
    return {person for person, of_person in roots.items() if len(of_person) >= MIN_RECURRING_ROOTS} - {OWNER}


async def _merge_audience(
    conn: Connection,
    sums: AgentSums,
    audience: _Audience,
    by_project: Mapping[str, Sequence[DigestArrays]],
    changed: Collection[str],
    writer: _ScopeWriter,
    min_support: int,
) -> None:
    """Publish what an audience's projects share, and its projects that changed."""
    projects = set(changed)
    shared = PublishedScope([], {})
    if has_shared_scope(by_project):
        shared = await _mine_patterns(conn, sums, audience, by_project, ALL_PROJECTS, min_support)
    shared_before = await procedures.list_shared_symbols(conn, sums.agent, audience.name)
    await writer.save(ALL_PROJECTS, shared, audience)
    shared_now = {procedure.symbols: procedure.worth > 0 for procedure in shared.procedures}
    if shared_now != shared_before:  # what is shared is not published for each project, too
        projects.update(by_project)
    for project in sorted(projects - {ALL_PROJECTS}):
        mined = await _mine_patterns(conn, sums, audience, by_project, project, min_support)
        own = exclude_shared(mined.procedures, shared_now)
        await writer.save(project, PublishedScope(own, mined.profiles), audience)


def _select_digests(
    sums: AgentSums, audiences: Iterable[_Audience]
) -> Iterator[tuple[_Audience, Mapping[str, Sequence[DigestArrays]]]]:
    """Yield each audience with what is learned from for it, by project."""
    by_person: dict[str, dict[str, list[DigestArrays]]] = defaultdict(dict)
    for project, of_project in sums.by_project.items():
        for person, own in group_by_person(of_project).items():
            by_person[person][project] = own
    for audience in audiences:
        if audience.counts_people:
            yield audience, {project: with_people_as_roots(own) for project, own in sums.by_project.items()}
        else:
            yield audience, sums.by_project if audience.person is None else by_person[audience.person]


async def _delete_other_audiences(conn: Connection, sums: AgentSums, changed: set[str], min_support: int) -> None:
    """Delete what people had who are not there any more, of the scopes that are published."""
    keep: list[str] = []
    if len(sums.people) > 1:
        keep = [own_audience(person) for person in sorted(_people_with_audience(sums))]
        keep += [SHARED] if len(sums.people) >= min_support else []
    for project in sorted(changed | {ALL_PROJECTS}):
        await procedures.delete_other_audiences(conn, sums.agent, project, keep=keep)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause cyclic GC during bulk allocation: each full collection scans every live object."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def _mine_patterns(
    conn: Connection,
    sums: AgentSums,
    audience: _Audience,
    by_project: Mapping[str, Sequence[DigestArrays]],
    project: str,
    min_support: int,
) -> PublishedScope:
    """Return the procedures and profiles of a project, or what several projects share."""
    is_shared = project == ALL_PROJECTS
    digests = [*chain.from_iterable(by_project.values())] if is_shared else by_project.get(project, [])
    scope_sums = await sums.load(conn, project, audience.kept_sums)
    rule = PublicationRule.for_scope(min_support, is_shared=is_shared, project_count=len(by_project))
    if audience.counts_people:  # nothing that fewer people have is even looked at
        scope_sums = scope_sums.recurring(min_support)
        rule = replace(rule, min_askers=min_support)
    name = sums.agent if audience.name.startswith(ALL) else f"{sums.agent}\x1f{audience.name}"

    def mine() -> PublishedScope:
        patterns = mine_patterns(digests, rule, key_sums=scope_sums)
        return publish_scope(patterns, sums.texts, rule, agent=name, project=project)

    return await asyncio.to_thread(mine)


@dataclass(slots=True)
class _ScopeWriter:
    """Writes what is published of an agent's scopes, with the quotes that prove it."""

    conn: Connection
    agent: str
    provenance: Provenance
    changes: Changes
    quotes: dict[str, dict[int, str]] = field(default_factory=dict)  # by session and seq; scopes cite much the same

    async def save(self, project: str, scope: PublishedScope, audience: _Audience) -> None:
        """Publish a scope in place of what it had."""
        if audience.counts_people:  # a case is one person's
            scope = replace(scope, procedures=[replace(procedure, evidence=()) for procedure in scope.procedures])
        quotes = await self._load_quotes(scope.procedures)
        rows = [self._row(procedure, project, quotes, audience) for procedure in scope.procedures]
        is_counted = audience.name.startswith(ALL)
        for outcome in await procedures.save_each(self.conn, rows):
            if is_counted:
                self.changes.add("procedures", outcome)
        retired = await procedures.retire_others(
            self.conn,
            self.agent,
            project or None,
            audience.name,
            keep=[procedure.id for procedure in scope.procedures],
            provenance=self.provenance,
        )
        if is_counted:
            self.changes.add_retired("procedures", retired)
        profiles = {tool: profile.to_json() for tool, profile in scope.profiles.items()}
        await procedures.replace_tool_profiles(self.conn, self.agent, project, audience.name, profiles)

    def _row(
        self, procedure: Procedure, project: str, quotes: Mapping[CallKey, str], audience: _Audience
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
            learned_at=self.provenance.now,
            updated_at=self.provenance.now,
            retired_at=None,
            run_id=self.provenance.run_id,
            cause=self.provenance.cause,
            audience=audience.name,
        )

    async def _load_quotes(self, published: Iterable[Procedure]) -> dict[CallKey, str]:
        """Return what the first call of each piece of evidence was given, as the digests keep it."""
        cited = {call for procedure in published for call in procedure.evidence}
        for row in await digests.get_quotes(self.conn, sorted({session for session, _ in cited} - self.quotes.keys())):
            seqs = np.frombuffer(row.seqs, np.int64).tolist()
            self.quotes[row.session_id] = dict(zip(seqs, unpack_quotes(row.quotes), strict=True))
        return {(session, seq): self.quotes.get(session, {}).get(seq, "") for session, seq in cited}
