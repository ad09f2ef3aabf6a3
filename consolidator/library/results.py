"""What the library answers where the service answers with JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Quote:
    """One piece of evidence: what was said or done, and where."""

    session_id: str
    seq: int
    quote: str
    origin: str | None  # the foreign name of the session, if it was imported
    log: Literal["there", "pruned", "erased"]  # whether the log still has the event
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why memory holds something: what it says, how it came about, and the quotes that it rests on."""

    kind: Literal["fact", "procedure", "solution", "candidate"]
    title: str
    lines: list[str]
    evidence: list[Quote]
    by: str  # what wrote it last, such as "by run 01K..."
    learned_at: datetime
    run_id: str | None


@dataclass(frozen=True, slots=True)
class NightReport:
    """What a night did, in events of the log: seen = learned + nothing + deferred + dead."""

    run: str
    status: str  # done | failed: a failed night left dead letters, or its model did not answer
    sessions: int
    seen: int
    learned: int
    nothing: int  # there was nothing to learn
    deferred: int  # the next night reads them
    dead: int  # could not be read: `consolidator runs --retry`
    error: str | None
    report: Mapping[str, Any]  # the whole of it, as JSON


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where recorded events are in the log."""

    session: str
    first_seq: int
    last_seq: int
    repeated: bool  # a call with this idempotency key wrote them before


def read_explanation(explained: Mapping[str, Any]) -> Explanation:
    """Return an explanation of the service as typed values."""
    evidence = [
        Quote(**_of(Quote, proof), occurred_at=datetime.fromisoformat(when) if isinstance(when, str) else when)
        for proof in explained["evidence"]
        for when in (proof["when"],)
    ]
    return Explanation(**_of(Explanation, explained) | {"evidence": evidence, "lines": list(explained["lines"])})


def read_night_report(report: Mapping[str, Any]) -> NightReport:
    """Return the report of a consolidation as typed values."""
    return NightReport(**{"error": None, **_of(NightReport, report), "report": report})


def _of(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass."""
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}
