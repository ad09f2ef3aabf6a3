"""Publishes an agent's procedures and tool profiles from the sums over its digests."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from consolidator.database import Connection
from consolidator.jobs.merging.changes import Changes
from consolidator.jobs.merging.scope_sums import ALL_PROJECTS, AgentSums, update_sums
from consolidator.memory.procedures.digest import unpack_quotes
from consolidator.memory.procedures.key_sums import KeySums
from consolidator.memory.procedures.patterns import mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule, exclude_shared
from consolidator.memory.procedures.publishing import Procedure, PublishedScope, publish_scope
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
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
    """Publish what an agent's projects share, then the procedures of each project with news."""
    with _gc_paused():
        sums = await update_sums(conn, agent)
        writer = _ScopeWriter(conn, agent, provenance, changes)
        shared = PublishedScope([], {})
        if sums.has_shared_scope:
            shared = await _mine_patterns(conn, sums, ALL_PROJECTS, min_support)
        shared_before = await procedures.list_shared_symbols(conn, agent)
        await writer.save(ALL_PROJECTS, shared)
        shared_now = {procedure.symbols: procedure.worth > 0 for procedure in shared.procedures}
        projects = {scope.project for scope in changed_scopes}
        if shared_now != shared_before:  # what is shared is not published for each project, too
            projects.update(sums.by_project)
        for project in sorted(projects - {ALL_PROJECTS}):
            mined = await _mine_patterns(conn, sums, project, min_support)
            own = exclude_shared(mined.procedures, shared_now)
            await writer.save(project, PublishedScope(own, mined.profiles))
        for scope in changed_scopes:
            await scopes.mark_merged(conn, scope, sessions=len(sums.by_project.get(scope.project, [])))


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


async def _mine_patterns(conn: Connection, sums: AgentSums, project: str, min_support: int) -> PublishedScope:
    """Return the procedures and profiles of a project, or what several projects share."""
    scope_sums = await sums.load(conn, project)
    return await asyncio.to_thread(_mine_scope, sums, project, scope_sums, min_support)


def _mine_scope(sums: AgentSums, project: str, scope_sums: KeySums, min_support: int) -> PublishedScope:
    arrays = sums.by_project.get(project, [])
    if project == ALL_PROJECTS:
        arrays = [digest for digests in sums.by_project.values() for digest in digests]
    is_shared = project == ALL_PROJECTS
    rule = PublicationRule.for_scope(min_support, is_shared=is_shared, project_count=len(sums.by_project))
    patterns = mine_patterns(arrays, rule, key_sums=scope_sums)
    return publish_scope(patterns, sums.texts, rule, agent=sums.agent, project=project)


@dataclass(slots=True)
class _ScopeWriter:
    """Writes what is published of an agent's scopes, with the quotes that prove it."""

    conn: Connection
    agent: str
    provenance: Provenance
    changes: Changes
    quotes: dict[str, dict[int, str]] = field(default_factory=dict)  # by session and seq; scopes cite much the same

    async def save(self, project: str, scope: PublishedScope) -> None:
        """Publish a scope in place of what it had."""
        quotes = await self._load_quotes(scope.procedures)
        rows = [self._row(procedure, project, quotes) for procedure in scope.procedures]
        for outcome in await procedures.save_each(self.conn, rows):
            self.changes.add("procedures", outcome)
        retired = await procedures.retire_others(
            self.conn,
            self.agent,
            project or None,
            keep=[procedure.id for procedure in scope.procedures],
            provenance=self.provenance,
        )
        self.changes.add_retired("procedures", retired)
        profiles = {tool: profile.to_json() for tool, profile in scope.profiles.items()}
        await procedures.replace_tool_profiles(self.conn, self.agent, project, profiles)

    def _row(self, procedure: Procedure, project: str, quotes: Mapping[CallKey, str]) -> ProcedureRow:
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
        )

    async def _load_quotes(self, published: Iterable[Procedure]) -> dict[CallKey, str]:
        """Return what the first call of each piece of evidence was given, as the digests keep it."""
        cited = {call for procedure in published for call in procedure.evidence}
        for row in await digests.get_quotes(self.conn, sorted({session for session, _ in cited} - self.quotes.keys())):
            seqs = np.frombuffer(row.seqs, np.int64).tolist()
            self.quotes[row.session_id] = dict(zip(seqs, unpack_quotes(row.quotes), strict=True))
        return {(session, seq): self.quotes.get(session, {}).get(seq, "") for session, seq in cited}
