"""Turns what sessions left into what is published: procedures and solutions summed, candidates reconciled into facts.

Sums over digests and records, free of order; can be run again. What several projects share belongs to the agent.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import numpy as np

from consolidator.database import Connection
from consolidator.database.jsonb import escape
from consolidator.jobs.consolidation.changes import Changes
from consolidator.jobs.consolidation.reconciling import reconcile_agent
from consolidator.jobs.consolidation.scope_sums import EVERYTHING, Summed, summed
from consolidator.memory.procedures.digest import unpack_quotes
from consolidator.memory.procedures.key_sums import Sums
from consolidator.memory.procedures.patterns import tally
from consolidator.memory.procedures.publishing import Procedure, Published, publish
from consolidator.memory.solutions.error_tracker import ErrorRecord
from consolidator.memory.solutions.grouping import Met, Place, SessionRef, Sightings, Solution, shape_of
from consolidator.models.provenance import Cause, Provenance
from consolidator.settings import Settings
from consolidator.store.memory import digests
from consolidator.store.queries import Row


async def merge_agent(
    conn: Connection, agent: str, *, run_id: str | None, now: datetime, settings: Settings, cause: Cause = "run"
) -> Changes:
    """Publish what has news for an agent, in the caller's transaction."""
    await digests.lock_agent(conn, agent)
    changes = Changes()
    scopes = [scope for scope in await digests.dirty_scopes(conn) if scope["agent"] == agent]
    stamp = Provenance(run_id, cause, now)
    if scopes:
        with _unswept():
            await _merge_procedures(conn, agent, scopes, stamp, settings, changes)
    await _merge_solutions(conn, agent, stamp, changes)
    await reconcile_agent(conn, agent, stamp, changes)
    return changes


async def _merge_procedures(
    conn: Connection,
    agent: str,
    scopes: Sequence[Row],
    stamp: Provenance,
    settings: Settings,
    changes: Changes,
) -> None:
    """Publish what an agent's projects share, then each project with news."""
    found = await summed(conn, agent)
    projects, quotes = found.by_project, Quotes()
    shared: Published | None = None
    if found.shared:
        shared = await _published(conn, found, EVERYTHING, settings)
    before = {tuple(steps) for steps in await digests.shared_steps(conn, agent)}
    await _save_scope(conn, agent, "", shared or Published([], {}), quotes, stamp, changes)
    taken = {_steps(procedure) for procedure in shared.procedures} if shared else set()
    # What the agent's projects have come to share, or no longer do, changes what each of them has for itself.
    dirty = {scope["project"] for scope in scopes} | (set(projects) if taken != before else set())
    for project in sorted(dirty - {EVERYTHING}):
        learned = await _published(conn, found, project, settings)
        learned = Published([p for p in learned.procedures if _steps(p) not in taken], learned.profiles)
        await _save_scope(conn, agent, project, learned, quotes, stamp, changes)
    for scope in scopes:
        await digests.mark_merged(conn, scope, sessions=len(projects.get(scope["project"], [])))


def _steps(procedure: Procedure) -> tuple[str, ...]:
    return tuple(step.symbol for step in procedure.steps)


async def _published(conn: Connection, found: Summed, project: str, settings: Settings) -> Published:
    """Return what a project has taught, or what several projects share."""
    sums = await found.sums(conn, project)
    return await asyncio.to_thread(_learned, found, project, sums, settings.min_support)


def _learned(found: Summed, project: str, sums: Sums, least: int) -> Published:
    digests = found.by_project.get(project, [])
    if project == EVERYTHING:
        digests = [digest for some in found.by_project.values() for digest in some]
    several = 2 if project == EVERYTHING and len(found.by_project) > 1 else 1
    result = tally(digests, least, min_projects=several, totals=sums)
    return publish(result, found.names, agent=found.agent, project=project)


@contextmanager
def _unswept() -> Iterator[None]:
    """Let the collector of cycles rest: so many small things at once make it look at all there is, time and again."""
    resting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if resting:
            gc.enable()


async def _save_scope(
    conn: Connection,
    agent: str,
    project: str,
    learned: Published,
    quotes: Quotes,
    stamp: Provenance,
    changes: Changes,
) -> None:
    quoted = await quotes.of(conn, learned.procedures)
    rows = [_procedure_row(one, quoted) | {"agent": agent, "project": project or None} for one in learned.procedures]
    outcomes = await digests.save_each(conn, "save_procedure", [{**values, **asdict(stamp)} for values in rows])
    for procedure, outcome in zip(learned.procedures, outcomes, strict=True):
        changes.note("procedures", outcome, f"{procedure.title} ({procedure.support} sessions)")
    kept = [procedure.id for procedure in learned.procedures]
    scope = {"agent": agent, "project": project or None, "kept": kept, **asdict(stamp)}
    changes.gone("procedures", await digests.tidy(conn, "retire_procedures", scope))
    await digests.save_profiles(conn, agent, project, {name: one.to_json() for name, one in learned.profiles.items()})


def _procedure_row(procedure: Procedure, quoted: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    evidence = [[session, seq, quoted[session, seq]] for session, seq in procedure.evidence]
    return {
        "id": procedure.id,
        "title": escape(procedure.title),
        "support": procedure.support,
        "rank": procedure.rank,
        "body": digests.jsonb({**procedure.to_json(), "evidence": evidence}),
    }


class Quotes:
    """What calls were given, as the digests keep it; read once for all scopes of an agent, which cite much the same."""

    def __init__(self) -> None:
        self._told: dict[str, dict[int, str]] = {}

    async def of(self, conn: Connection, procedures: Iterable[Procedure]) -> dict[tuple[str, int], str]:
        """Return what the first call of each piece of evidence was given."""
        cited = {place for procedure in procedures for place in procedure.evidence}
        found = await digests.quotes(conn, sorted({session for session, _ in cited} - self._told.keys()))
        for session, (seqs, quotes) in found.items():
            said = zip(np.frombuffer(seqs, np.int64).tolist(), unpack_quotes(quotes), strict=True)
            self._told[session] = dict(said)
        return {(session, seq): self._told.get(session, {}).get(seq, "") for session, seq in cited}


async def _merge_solutions(conn: Connection, agent: str, stamp: Provenance, changes: Changes) -> None:
    """Group the failed calls of every fingerprint that has news."""
    held = await digests.hold_errors(conn, agent)
    if not held:
        return
    found = await digests.news_of_errors(conn, agent)
    unshaped = [(r["session_id"], r["seq"]) for r in found if r["shape"] is None]
    records = _records(await digests.errors(conn, unshaped))
    shapes = {place: json.dumps(shape_of(record)) for place, record in records.items()}
    sightings = await asyncio.to_thread(Sightings, _met(found, agent, shapes))
    records |= _records(await digests.errors(conn, sorted(sightings.cited() - records.keys())))
    published = await asyncio.to_thread(sightings.solutions, records)
    for solution in published:
        values = _solution_row(solution) | asdict(stamp)
        changes.note("solutions", await digests.save(conn, "save_solution", values), solution.line)
    fingerprints = sorted({r["fingerprint"] for r in found})
    kept = [solution.id for solution in published]
    gone = {"agent": agent, "fingerprints": fingerprints, "kept": kept}
    changes.gone("solutions", await digests.tidy(conn, "retire_solutions", gone))
    # What others committed meanwhile is counted, too, and stays news: only what is held is as it was read.
    await digests.mark_errors_merged(conn, held, shapes)


def _records(stored: Mapping[Place, dict[str, Any]]) -> dict[Place, ErrorRecord]:
    return {place: ErrorRecord.from_json(record) for place, record in stored.items()}


def _met(found: Sequence[Row], agent: str, shapes: Mapping[Place, str]) -> Iterable[Met]:
    """Yield what is counted of stored records; a fingerprint that several projects met is the agent's as a whole."""
    projects: dict[str, set[str | None]] = defaultdict(set)
    for row in found:
        projects[row["fingerprint"]].add(row["project"])
    for row in found:
        shape = json.loads(row["shape"] or shapes[row["session_id"], row["seq"]])
        project = None if len(projects[row["fingerprint"]]) > 1 else row["project"]
        yield Met(
            ref=SessionRef(row["session_id"], row["root_id"], agent, project),
            tried=tuple(json.loads(row["tried"])) if row["tried"] else (),
            shape=None if shape is None else tuple(shape),
            **{name: row[name] for name in _COUNTED},
        )


_COUNTED = ("seq", "fingerprint", "status", "occurred_at", "tool", "symbol", "headline")


def _solution_row(solution: Solution) -> dict[str, Any]:
    said = [solution.failed, solution.headline, *(fix.description for fix in solution.fixes)]
    return {
        "id": solution.id,
        "agent": solution.agent,
        "project": solution.project,
        "fingerprint": escape(solution.fingerprint),
        "tool": escape(solution.tool),
        "headline": escape(solution.headline),
        "confirmed": solution.confirmed,
        "sessions": solution.sessions,
        "occurrences": solution.occurrences,
        "search": escape(" ".join(said)),
        "body": digests.jsonb(solution.to_json()),
    }
