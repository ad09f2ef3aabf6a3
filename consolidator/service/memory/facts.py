"""Facts: list them, and what a person tells memory about them: forget, correct, accept, reject. Nothing is deleted."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound, UsageError
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.jobs.merging.changes import Changes
from consolidator.jobs.merging.reconciling import reconcile_agent
from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.corrections import correction_id
from consolidator.memory.facts.reconcile import UNKNOWN_START, normalize_value
from consolidator.models.fact import CandidateRow, CitedCandidateRow, FactRow
from consolidator.models.provenance import Provenance
from consolidator.store.log.projects import resolve_project
from consolidator.store.memory import agent_locks, facts, lookup

__all__ = [
    "UNKNOWN_START",
    "correct_fact",
    "forget_fact",
    "list_facts",
    "list_quarantined",
    "list_rejected",
    "review_candidate",
]
MAX_CORRECTION_LENGTH = 400  # characters
UNUSED_AFTER = timedelta(days=60)  # a fact that nobody said or recalled for so long is listed after the others


async def list_facts(
    database: Database,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    superseded_too: bool = False,
    flagged: bool = False,
    as_of: datetime | None = None,
    valid_at: datetime | None = None,
    limit: int = 50,
) -> list[FactRow]:
    """Return facts, those in use and with most sessions first: as believed at `as_of`, or as true at `valid_at`."""
    async with database.connection() as conn:
        project = await resolve_project(conn, project, agent=agent, peer=peer)
        return await lookup.list_facts(
            conn,
            query=query,
            agent=agent,
            project=project,
            peer=peer,
            superseded_too=superseded_too,
            flagged=flagged,
            as_of=as_of,
            valid_at=valid_at,
            unused_since=database.clock.now() - UNUSED_AFTER if as_of is None and valid_at is None else None,
            limit=limit,
        )


async def list_rejected(
    database: Database,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    limit: int = 50,
) -> list[CandidateRow]:
    """Return the candidates that may not become facts, with the reason, the latest first."""
    async with database.connection() as conn:
        project = await resolve_project(conn, project, agent=agent, peer=peer)
        return await lookup.list_rejected(conn, query=query, agent=agent, project=project, peer=peer, limit=limit)


async def list_quarantined(database: Database, *, agent: str | None = None, limit: int = 50) -> list[CitedCandidateRow]:
    """Return the candidates that wait for a person's review, the latest first."""
    async with database.connection() as conn:
        return await facts.list_quarantined(conn, agent=agent, limit=limit)


async def forget_fact(database: Database, fact_id: str) -> FactRow:
    """Stop believing a fact, and whatever says the same later; its history stays. Return the fact as it is now."""
    async with database.transaction() as conn:
        fact = await _lock_fact(conn, fact_id)
        await _supersede_fact(conn, database, fact, superseded_by=None)
        await index_facts(conn, fact.agent, [fact_id])
        return await _lock_fact(conn, fact_id)


async def correct_fact(database: Database, fact_id: str, text: str) -> FactRow:
    """Put a person's sentence in place of a fact; no other evidence outranks it. Return the new fact."""
    sentence = redact(" ".join(text.split()))
    if not sentence or len(sentence) > MAX_CORRECTION_LENGTH:
        raise UsageError(f"a correction is a sentence of at most {MAX_CORRECTION_LENGTH} characters")
    async with database.transaction() as conn:
        fact = await _lock_fact(conn, fact_id)
        new_id = correction_id(fact.id, sentence)
        if new_id == fact_id or sentence == fact.sentence:
            return fact
        await _supersede_fact(conn, database, fact, superseded_by=new_id)
        stated = {**asdict(fact), "new_id": new_id, "sentence": escape(sentence), "now": database.clock.now()}
        await facts.save_stated_fact(conn, stated)
        await index_facts(conn, fact.agent, [fact_id, new_id])
        return await _lock_fact(conn, new_id)


async def review_candidate(database: Database, candidate_id: str, *, accept: bool) -> CandidateRow:
    """Let a candidate in quarantine be believed, or reject it for good; raise NotFound if none has this id."""
    not_quarantined = NotFound(
        f"nothing in quarantine has the id {candidate_id!r}; `consolidator facts review` lists it"
    )
    async with database.transaction() as conn:
        candidate = await facts.get_quarantined(conn, candidate_id)
        if candidate is None:
            raise not_quarantined
        await agent_locks.lock_agent(conn, candidate.agent)
        if not await facts.end_quarantine(conn, candidate_id, rejected=None if accept else "rejected by a person"):
            raise not_quarantined
        await reconcile_agent(conn, candidate.agent, Provenance(None, "review", database.clock.now()), Changes())
    return candidate


async def _lock_fact(conn: Connection, fact_id: str) -> FactRow:
    """Lock a fact's agent and return the fact, which may have changed or gone while we waited."""
    await agent_locks.lock_agent(conn, (await _load_fact(conn, fact_id)).agent)
    return await _load_fact(conn, fact_id)


async def _load_fact(conn: Connection, fact_id: str) -> FactRow:
    fact = await lookup.load_fact(conn, fact_id)
    if fact is None:
        raise NotFound(f"no fact has the id {fact_id!r}; `consolidator facts` lists them")
    return fact


async def _supersede_fact(conn: Connection, database: Database, fact: FactRow, *, superseded_by: str | None) -> None:
    """Stop believing a fact, and whatever says the same later."""
    values = asdict(fact) | {
        "value": normalize_value(fact.value),
        "predicate": normalize_value(fact.predicate),
        "superseded_by": superseded_by,
        "now": database.clock.now(),
    }
    await facts.forget_fact(conn, values)
