"""Rebuilds recall's index from episodes and facts, session by session, in the ledger; an interrupted run is resumed.

Nights can run at the same time, and recall finds what is indexed again already. After an upgrade that splits texts into
other words the next night rebuilds the index by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from consolidator.errors import Interrupted
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.indexing.indexer import restore_facts, restore_turns
from consolidator.jobs.ledger import JobContext, Ledger, Unit, record_progress, recorded_run
from consolidator.llm.static_vectors import WORDS_ONLY
from consolidator.memory.text.words import INDEX_VERSION
from consolidator.store.calls import scopes
from consolidator.store.nights import runs
from consolidator.store.search import index

log = logging.getLogger("consolidator.jobs")
JOB = "reindex"
FACTS, TURNS = 0, 1  # phases


async def rebuild_outdated(job: JobContext) -> dict[str, Any] | None:
    """Rebuild an index that another version made; return the run's report, None where the index is up to date.

    Another replica that is rebuilding it is not waited for. Vectors are left to the night.
    """
    database = job.database
    async with database.transaction() as conn:
        if await index.load_version(conn) == INDEX_VERSION:
            return None
        if await index.is_empty(conn):
            await index.save_version(conn, INDEX_VERSION)
            return None
    async with database.connection() as locked:
        if not await runs.try_lock_job(locked, JOB):
            return None
        try:
            log.info("the index was made by another version: rebuilding it")
            by_words = job.settings.model_copy(update={"embed_model": WORDS_ONLY})
            return await Reindexing(database, by_words, job.stop, progress=job.progress).run()
        finally:
            await runs.unlock_job(locked, JOB)


@dataclass(slots=True)
class Reindexing(JobContext):
    """Rebuilds the index; with `vectors` every document is embedded again, else only those without a vector."""

    vectors: bool = False

    async def run(self) -> dict[str, Any]:
        """Clear and fill the index, or resume an interrupted run; return the report. Raises Interrupted if stopped."""
        ledger = self.become(Ledger)
        ledger.run_id, units = await self._start_or_resume(ledger)
        self.started(units)
        async with recorded_run(ledger):
            await ledger.release_dead_owners()
            await ledger.run_phase(FACTS, self._restore)
            await ledger.run_phase(TURNS, self._restore)
            embedded = await embed_missing(self.database, self.settings, self.stop, run_id=ledger.run_id)
            if self.stop.is_set():
                raise Interrupted("all words are indexed again, some vectors are missing: the next night adds them")
            async with self.database.transaction() as conn:
                await index.save_version(conn, INDEX_VERSION)
                report = asdict(await index.count_documents(conn))
            finished = await ledger.finish(report if embedded is None else {**report, "vectors": embedded})
        return {"run": ledger.run_id, "job": JOB, **finished}

    async def _start_or_resume(self, ledger: Ledger) -> tuple[str, int]:
        """Return the id of the interrupted run, or of a new one with an empty index, and its number of open units."""
        now = scheduled_at = self.database.clock.now()
        owner, arguments = ledger.owner, {"vectors": self.vectors, "version": INDEX_VERSION}
        async with self.database.transaction() as conn:
            run = await runs.find_unfinished(conn, job=JOB, arguments=arguments)
            if run is None:
                await index.clear(conn, vectors=self.vectors)  # first, since it waits for nights that write to it
                while run is None or run.owner != owner:  # another replica has a run at this moment
                    run = await runs.start(
                        conn, job=JOB, scheduled_at=scheduled_at, trigger="manual", owner=owner, now=now,
                        arguments=arguments,
                    )  # fmt: skip
                    scheduled_at += timedelta(microseconds=1)
                await runs.abandon_unfinished(conn, run.id, JOB, now)
                await runs.add_units(conn, run.id, "fact_index", await index.list_agents(conn), phase=FACTS)
                await runs.add_units(conn, run.id, "turn_index", await index.list_sessions(conn), phase=TURNS)
            await runs.resume(conn, run.id, owner, now)
            return run.id, sum([await runs.count_unfinished(conn, run.id, phase=phase) for phase in (FACTS, TURNS)])

    async def _restore(self, units: Sequence[Unit]) -> None:
        for unit in units:
            is_facts = unit.kind == "fact_index"
            async with self.database.transaction(flushed=is_facts) as conn:
                if is_facts:
                    await scopes.lock_agents(conn, [unit.name])
                await (restore_facts if is_facts else restore_turns)(conn, unit.name)
                await record_progress(conn, [unit], [unit.progress()])
