"""Publishes an agent's solutions: the error records of every fingerprint that has news, grouped again."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from consolidator.database import Connection
from consolidator.jobs.merging.changes import Changes
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.grouping import (
    ErrorOccurrence,
    OccurrenceGroups,
    RecordKey,
    SessionRef,
    resolved_fix_shape,
)
from consolidator.memory.solutions.solution import Solution
from consolidator.models.provenance import Provenance
from consolidator.models.solution import SolutionRow
from consolidator.store.memory import error_records, solutions
from consolidator.store.memory.error_records import RecordSummary


async def merge_solutions(conn: Connection, agent: str, provenance: Provenance, changes: Changes) -> None:
    """Group the error records of every fingerprint that has news, and publish a solution for each group."""
    locked = await error_records.lock_unmerged(conn, agent)
    if not locked:
        return
    summaries = await error_records.list_with_news(conn, agent)
    unread = [(summary.session_id, summary.seq) for summary in summaries if summary.fix_shape is None]
    records = _parse_records(await error_records.get_each(conn, unread))
    fix_shapes = {key: json.dumps(resolved_fix_shape(record)) for key, record in records.items()}
    groups = await asyncio.to_thread(OccurrenceGroups, _occurrences(summaries, agent, fix_shapes))
    cited = sorted(groups.cited_records() - records.keys())
    records |= _parse_records(await error_records.get_each(conn, cited))
    published = await asyncio.to_thread(groups.build_solutions, records)
    rows = [_solution_row(solution, provenance) for solution in published]
    for outcome in await solutions.save_each(conn, rows):
        changes.add("solutions", outcome)
    fingerprints = sorted({summary.fingerprint for summary in summaries})
    keep = [solution.id for solution in published]
    changes.add_retired("solutions", await solutions.delete_others(conn, agent, fingerprints, keep=keep))
    # Records that others committed meanwhile are counted, too, but stay unmerged: only locked ones cannot have changed.
    await error_records.mark_merged(conn, locked, fix_shapes)


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
        shape = json.loads(summary.fix_shape or fix_shapes[summary.session_id, summary.seq])
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
            fix_shape=None if shape is None else tuple(shape),
        )


def _solution_row(solution: Solution, provenance: Provenance) -> SolutionRow:
    search = [solution.failed, solution.headline, *(fix.description for fix in solution.fixes)]
    return SolutionRow(
        id=solution.id,
        agent=solution.agent,
        project=solution.project,
        fingerprint=solution.fingerprint,
        tool=solution.tool,
        headline=solution.headline,
        confirmed=solution.confirmed,
        sessions=solution.sessions,
        occurrences=solution.occurrences,
        search=" ".join(search),
        body=solution.to_json(),
        learned_at=provenance.now,
        updated_at=provenance.now,
        retired_at=None,
        run_id=provenance.run_id,
        cause=provenance.cause,
    )
