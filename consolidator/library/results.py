"""What the library answers where the service answers with JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    dead: int  # could not be read: `consolidator retry`
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
    return Explanation(
        kind=explained["kind"],
        title=explained["title"],
        lines=list(explained["lines"]),
        evidence=[_read_quote(proof) for proof in explained["evidence"]],
        by=explained["by"],
        learned_at=explained["learned_at"],
        run_id=explained["run_id"],
    )


def read_night_report(report: Mapping[str, Any]) -> NightReport:
    """Return the report of a consolidation as typed values."""
    return NightReport(
        run=report["run"],
        status=report["status"],
        sessions=report["sessions"],
        seen=report["seen"],
        learned=report["learned"],
        nothing=report["nothing"],
        deferred=report["deferred"],
        dead=report["dead"],
        error=report.get("error"),
        report=report,
    )


def _read_quote(proof: Mapping[str, Any]) -> Quote:
    when = proof["when"]
    return Quote(
        session_id=proof["session_id"],
        seq=proof["seq"],
        quote=proof["quote"],
        origin=proof["origin"],
        log=proof["log"],
        occurred_at=datetime.fromisoformat(when) if isinstance(when, str) else when,
    )
