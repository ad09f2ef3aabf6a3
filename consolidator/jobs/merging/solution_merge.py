"""Publishes an agent's solutions: the error records of every fingerprint that has news, grouped again.

Fingerprints are grouped in batches, and records read in batches, so that memory does not grow with the night.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from consolidator.database import Connection
from consolidator.jobs.merging.changes import Changes
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.families import FamilyGroups
from consolidator.memory.solutions.grouping import (
    ErrorOccurrence,
    FixOutcome,
    OccurrenceGroups,
    RecordKey,
    SessionRef,
)
from consolidator.memory.solutions.solution import Solution
from consolidator.memory.text.invisible import strip_invisible, strip_invisible_in
from consolidator.models.provenance import Provenance
from consolidator.models.solution import SolutionRow
from consolidator.store.memory import error_records, solutions
from consolidator.store.memory.error_records import RecordSummary

_RECORDS_AT_ONCE = 2000  # whole records in memory at once, as far as solutions do not cite more
_SUMMARIES_AT_ONCE = 10_000  # summaries of records in memory at once, unless one fingerprint has more


async def merge_solutions(conn: Connection, agent: str, provenance: Provenance, changes: Changes) -> None:
    """Group the error records of every fingerprint that has news, and publish a solution for each group."""
    locked = await error_records.lock_unmerged(conn, agent)
    if not locked:
        return
    fix_shapes: dict[RecordKey, str] = {}
    for fingerprints in _batch_fingerprints(await error_records.count_with_news(conn, agent)):
        fix_shapes |= await _merge_fingerprints(conn, agent, fingerprints, provenance, changes)
    for families in _batch_fingerprints(await error_records.count_families_with_news(conn, agent)):
        fix_shapes |= await _merge_families(conn, agent, families, fix_shapes, provenance, changes)
    # Records that others committed meanwhile are counted, too, but stay unmerged: only locked ones cannot have changed.
    await error_records.mark_merged(conn, locked, fix_shapes)


def _batch_fingerprints(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield fingerprints in batches with at most _SUMMARIES_AT_ONCE records, or with one fingerprint."""
    batch: list[str] = []
    records = 0
    for fingerprint, count in counts.items():
        if batch and records + count > _SUMMARIES_AT_ONCE:
            yield batch
            batch, records = [], 0
        batch.append(fingerprint)
        records += count
    if batch:
        yield batch


async def _merge_fingerprints(
    conn: Connection, agent: str, fingerprints: Sequence[str], provenance: Provenance, changes: Changes
) -> dict[RecordKey, str]:
    """Publish the solutions of some fingerprints; return the shapes of fixes that were not stored yet."""
    summaries = await error_records.list_of_fingerprints(conn, agent, fingerprints)
    fix_shapes = await _load_fix_shapes(conn, summaries, {})
    groups = await asyncio.to_thread(OccurrenceGroups, _occurrences(summaries, agent, fix_shapes))
    await _publish(conn, agent, fingerprints, groups, provenance, changes)
    return fix_shapes


async def _merge_families(
    conn: Connection,
    agent: str,
    families: Sequence[str],
    read: Mapping[RecordKey, str],
    provenance: Provenance,
    changes: Changes,
) -> dict[RecordKey, str]:
    """Publish what families have in common; return the shapes of fixes that were neither stored nor read yet."""
    summaries = await error_records.list_of_families(conn, agent, families)
    fix_shapes = await _load_fix_shapes(conn, summaries, read)
    groups = await asyncio.to_thread(FamilyGroups, _occurrences(summaries, agent, {**read, **fix_shapes}))
    await _publish(conn, agent, families, groups, provenance, changes)
    return fix_shapes


async def _load_fix_shapes(
    conn: Connection, summaries: Iterable[RecordSummary], read: Mapping[RecordKey, str]
) -> dict[RecordKey, str]:
    """Return the shapes of fixes that are neither stored nor among those that were read."""
    keys = ((summary.session_id, summary.seq) for summary in summaries if summary.fix_shape is None)
    unread = [key for key in keys if key not in read]
    fix_shapes: dict[RecordKey, str] = {}
    for first in range(0, len(unread), _RECORDS_AT_ONCE):
        records = await error_records.get_each(conn, unread[first : first + _RECORDS_AT_ONCE])
        fix_shapes |= await asyncio.to_thread(_read_fix_shapes, records)
    return fix_shapes


async def _publish(
    conn: Connection,
    agent: str,
    fingerprints: Sequence[str],
    groups: OccurrenceGroups | FamilyGroups,
    provenance: Provenance,
    changes: Changes,
) -> None:
    """Publish the solutions of some fingerprints or families, and delete those that they had before."""
    cited = _parse_records(await error_records.get_each(conn, sorted(groups.cited_records())))
    published = await asyncio.to_thread(groups.build_solutions, cited)
    rows = [_solution_row(solution, provenance) for solution in published]
    for outcome in await solutions.save_each(conn, rows):
        changes.add("solutions", outcome)
    keep = [solution.id for solution in published]
    changes.add_retired("solutions", await solutions.delete_others(conn, agent, fingerprints, keep=keep))


def _read_fix_shapes(stored: Mapping[RecordKey, dict[str, Any]]) -> dict[RecordKey, str]:
    return {key: json.dumps(FixOutcome.of_record(record).to_json()) for key, record in _parse_records(stored).items()}


def _parse_records(stored: Mapping[RecordKey, dict[str, Any]]) -> dict[RecordKey, ErrorRecord]:
    return {key: ErrorRecord.from_json(record) for key, record in stored.items()}


def _occurrences(
    summaries: Sequence[RecordSummary], agent: str, fix_shapes: Mapping[RecordKey, str]
) -> Iterable[ErrorOccurrence]:
    """Yield what is counted of stored records; a fingerprint of several projects belongs to the agent as a whole."""
    projects: dict[str, set[str | None]] = defaultdict(set)
    for summary in summaries:
        projects[summary.fingerprint].add(summary.project)
    for summary in summaries:
        outcome = FixOutcome.from_json(json.loads(summary.fix_shape or fix_shapes[summary.session_id, summary.seq]))
        project = None if len(projects[summary.fingerprint]) > 1 else summary.project
        yield ErrorOccurrence(
            ref=SessionRef(summary.session_id, summary.root_id, agent, project),
            seq=summary.seq,
            fingerprint=summary.fingerprint,
            status=summary.status,
            occurred_at=summary.occurred_at,
            tool=summary.tool,
            symbol=summary.symbol,
            headline=summary.headline,
            tried=tuple(json.loads(summary.tried)) if summary.tried else (),
            fix_shape=outcome.worked,
            failed_shapes=outcome.failed,
        )


def _solution_row(solution: Solution, provenance: Provenance) -> SolutionRow:
    search = [solution.failed, solution.headline, *(fix.description for fix in solution.fixes)]
    return SolutionRow(
        id=solution.id,
        agent=solution.agent,
        project=solution.project,
        fingerprint=solution.fingerprint,
        tool=solution.tool,
        headline=strip_invisible(solution.headline),
        confirmed=solution.confirmed,
        sessions=solution.sessions,
        occurrences=solution.occurrences,
        search=strip_invisible(" ".join(search)),
        body=strip_invisible_in(solution.to_json()),
        learned_at=provenance.now,
        updated_at=provenance.now,
        retired_at=None,
        run_id=provenance.run_id,
        cause=provenance.cause,
    )
