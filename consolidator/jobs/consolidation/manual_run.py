"""A run that a person starts: which sessions it is about, and its row in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.jobs.ledger import Ledger
from consolidator.store.nights import runs

EXTRACTORS = ("facts", "procedures", "solutions")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which sessions, and what of them."""

    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only: str | None = None  # one of EXTRACTORS
    reprocess: bool = False
    words: tuple[str | None, str | None] | None = None  # since and until as they were said: "7d" is ever another moment

    @property
    def again(self) -> bool:
        """Whether this derives again what was learned already."""
        return self.reprocess or self.only is not None

    def wants(self, extractor: str) -> bool:
        """Whether an extractor is among those asked for."""
        return self.only in (None, extractor)

    def as_json(self) -> dict[str, Any]:
        """Return the choice as the ledger keeps it, to recognise it when it is resumed."""
        since, until = self.words or (
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


async def begin(ledger: Ledger, arguments: dict[str, Any], *, job: str = "backfill") -> None:
    """Give a ledger the run of a job by hand with these arguments: one that was cut short, else a new one."""
    now = ledger.database.clock.now()
    async with ledger.database.transaction() as conn:
        run = await runs.find_unfinished(conn, job=job, arguments=arguments)
        if run is None:
            run = await runs.start(
                conn, job=job, scheduled_at=now, trigger="manual", owner=ledger.owner, now=now, arguments=arguments
            )
        await runs.resume(conn, run["id"], owner=ledger.owner, now=now)
    ledger.run_id = run["id"]
