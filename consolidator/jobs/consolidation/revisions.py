"""Reads the log again with another model or prompt, as a revision of the facts.

A draft changes no fact. Once it is promoted, its candidates count wherever it has read, in place of those that other
revisions read there; these can be restored until retention deletes them.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import psycopg

from consolidator.database import Connection, Database
from consolidator.jobs.consolidation.pipeline import load_memory_report, merge_agents
from consolidator.jobs.consolidation.session_window import ReadWindow, WatermarkMoved, WindowReader
from consolidator.jobs.ledger import BackfillFilter, JobContext, Ledger, Unit, recorded_run, resume_or_start_run
from consolidator.jobs.merging.deciding import CandidateDecider, decide_by_code
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.jobs.model.extraction import FactReader, fit_question, open_model_calls
from consolidator.memory.facts.fact_diff import diff_facts
from consolidator.memory.facts.questions.extraction_prompt import PROMPT_VERSION
from consolidator.models.provenance import Changes, Provenance
from consolidator.models.session import SessionRow
from consolidator.store.calls import scopes
from consolidator.store.facts import facts, revisions
from consolidator.store.memory import derived
from consolidator.store.nights import runs

MAX_LISTED_EVENTS = 20  # events that a unit's note names


class DraftReader(WindowReader):
    """Reads sessions for a draft, window by window; an interrupted one resumes after the last window it saved."""

    has_background = False
    sets_aside = False  # a draft leaves no dead letters: its unit's note names the events

    async def find_place(self, conn: Connection, session: SessionRow) -> int | None:
        """Return the last event that the draft has read; None for a session that is no evidence."""
        reach = await revisions.get_reach(conn, self.reader.revision, session.id)
        return None if session.simulated else max(reach or 0, session.pruned_to)

    async def save(self, conn: Connection, unit: Unit, window: ReadWindow) -> None:
        """Store the candidates, which do not count before the draft is promoted."""
        session, read, revision = window.session, window.read, self.reader.revision
        if not window.count:
            return
        reach = await revisions.get_reach(conn, revision, session.id)
        if max(reach or 0, session.pruned_to) != window.after or not await revisions.advance_reach(
            conn, revision, session.id, after=window.first - 1, before=reach, upto=window.upto
        ):
            raise WatermarkMoved
        proposed = [asdict(candidate) for candidate in read.candidates]
        rejected = [asdict(candidate) | {"revision": revision} for candidate in read.rejected]
        await facts.save_candidates(conn, proposed + rejected, run_id=unit.run_id, active=False)
        if read.failed_events:
            seqs = ", ".join(str(seq) for seq in sorted(read.failed_events)[:MAX_LISTED_EVENTS])
            await runs.set_note(
                conn, unit.run_id, unit.kind, unit.name, f"the model gave no valid answer for events {seqs}"
            )


async def read_again(job: JobContext, choice: BackfillFilter, model: str) -> dict[str, Any]:
    """Read sessions again with a model into a draft, in the ledger; return the report, and a comparison with the facts.

    The same command goes on with it where it was interrupted.
    """
    arguments = {**choice.to_json(), "prompt": PROMPT_VERSION}  # another prompt has a draft of its own
    database = job.database
    async with database.transaction() as conn:
        chosen = await derived.list_sessions(conn, **choice.bounds(), include_learned=True)
        draft = await revisions.open_draft(conn, model=model, choice=arguments, now=database.clock.now())
    ledger = job.become(Ledger)
    await resume_or_start_run(ledger, {**arguments, "model": model})
    job.started(len(chosen))
    by_model = job.settings.model_copy(update={"extract_model": model, "batch": False})
    async with recorded_run(ledger), open_model_calls(database, by_model, ledger.run_id, stop=job.stop) as calls:
        assert calls is not None
        reader = FactReader(calls, model, draft, fit_question(calls.settings, model))
        await ledger.add_units("draft", [session.id for session in chosen])
        await ledger.run_phase(0, DraftReader(database, reader, job.stop).run)
        report = await ledger.finish({"revision": draft, "calls": await calls.report()})
    return {"run": ledger.run_id, "job": "backfill", **report, **await compare_revision(database, draft)}


async def compare_revision(database: Database, revision: int) -> dict[str, Any]:
    """Return which facts promoting a draft would add, lose and change; writes nothing.

    No model is asked about near duplicates, so some additions may turn out to repeat existing facts.
    """
    async with database.connection() as conn:
        row = await revisions.get(conn, revision)
    async with database.transaction() as conn:
        agents = {*await revisions.list_agents(conn, revision), *await scopes.list_agents_with_news(conn)}
        await scopes.lock_agents(conn, agents)
        before = await revisions.list_believed(conn)
        await revisions.activate_candidates(conn, revision)
        for agent in sorted(agents.intersection(await scopes.list_agents_with_news(conn))):
            await decide_by_code(conn, agent)
            await reconcile_agent(conn, agent, Provenance("rehearsal", "run", database.clock.now()), Changes())
        after = await revisions.list_believed(conn)
        raise psycopg.Rollback
    return {"revision": revision, "model": row.model, "status": row.status, **asdict(diff_facts(before, after))}


async def promote_revision(job: JobContext, revision: int) -> dict[str, Any]:
    """Promote a draft and merge what changed; return the run's report."""
    async with job.database.transaction() as conn:
        await revisions.promote(conn, revision, job.database.clock.now())
    return await _merge_in_run(job, {"promoted": revision})


async def restore_revision(job: JobContext) -> dict[str, Any]:
    """Undo the last promotion and merge what changed; return the run's report."""
    since = job.database.clock.now() - timedelta(days=job.settings.retention_days)
    async with job.database.transaction() as conn:
        restored = await revisions.restore(conn, since=since)
    return await _merge_in_run(job, {"restored": restored})


async def _merge_in_run(job: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
    """Merge what changed in a run of its own; if it is killed, the next night merges the rest."""
    ledger = job.become(Ledger)
    await resume_or_start_run(ledger, arguments)
    async with (
        recorded_run(ledger),
        open_model_calls(job.database, job.settings, ledger.run_id, stop=job.stop) as calls,
    ):
        await merge_agents(ledger, CandidateDecider(job.database, calls))
        report = {**arguments, **await load_memory_report(ledger)}
        if calls:
            report["model"] = await calls.report()
        return {"run": ledger.run_id, "job": "backfill", **await ledger.finish(report)}
