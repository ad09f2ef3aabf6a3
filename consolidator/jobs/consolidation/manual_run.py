"""A run that a person starts: which sessions it is about, and its row in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.jobs.ledger import ON_RUN, Ledger
from consolidator.store.nights import runs

EXTRACTORS = ("facts", "procedures", "solutions")


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions a backfill is about, and what of them it derives."""

    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only: str | None = None  # one of EXTRACTORS
    reprocess: bool = False
    as_typed: tuple[str | None, str | None] | None = None  # since and until as typed: "7d" is another moment each time

    @property
    def rederives(self) -> bool:
        """Whether it derives again what was learned already."""
        return self.reprocess or self.only is not None

    def includes(self, extractor: str) -> bool:
        """Tell whether it derives what an extractor learns."""
        return self.only in (None, extractor)

    def to_json(self) -> dict[str, Any]:
        """Return it as the ledger keeps it, to recognise an interrupted run that the same command resumes."""
        since, until = self.as_typed or (
            None if moment is None else moment.isoformat() for moment in (self.since, self.until)
        )
        return {
            "session": self.session,
            "agent": self.agent,
            "since": since,
            "until": until,
            "only": self.only,
            "reprocess": self.reprocess,
        }


async def resume_or_start_run(ledger: Ledger, arguments: dict[str, Any], *, job: str = "backfill") -> None:
    """Give a ledger the interrupted run of a job with these arguments, or else a new one."""
    now = ledger.database.clock.now()
    async with ledger.database.transaction() as conn:
        run = await runs.find_unfinished(conn, job=job, arguments=arguments)
        if run is None:
            run = await runs.start(
                conn, job=job, scheduled_at=now, trigger="manual", owner=ledger.owner, now=now, arguments=arguments
            )
        await runs.resume(conn, run.id, ledger.owner, now)
    ledger.run_id = run.id
    ON_RUN.get()(run.id)
