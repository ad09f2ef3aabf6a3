"""Groups whole error records, as a merge groups what is counted of stored ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TypeAlias

from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.grouping import ErrorOccurrence, FixOutcome, OccurrenceGroups, SessionRef
from consolidator.memory.solutions.solution import Solution

SourcedRecord: TypeAlias = tuple[SessionRef, ErrorRecord]
_COUNTED = [stored.name for stored in fields(ErrorOccurrence) if stored.name not in ("ref", "outcome")]


def occurrence_of(ref: SessionRef, record: ErrorRecord) -> ErrorOccurrence:
    counted = {name: getattr(record, name) for name in _COUNTED}
    return ErrorOccurrence(ref, outcome=FixOutcome.of_record(record), **counted)


def build_solutions(records: Iterable[SourcedRecord]) -> list[Solution]:
    sourced = list(records)
    by_key = {(ref.session_id, record.seq): record for ref, record in sourced}
    return OccurrenceGroups(occurrence_of(*pair) for pair in sourced).build_solutions(by_key)
