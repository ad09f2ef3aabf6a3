"""Turns the candidates of every subject and predicate that has news into facts, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from consolidator.database import Driver
from consolidator.database.jsonb import escape
from consolidator.jobs.changes import Changes
from consolidator.jobs.indexing import index_facts
from consolidator.memory.facts import Candidate
from consolidator.memory.person import heeded, words_of
from consolidator.memory.reconcile import Fact, reconcile
from consolidator.store import facts


async def reconcile_agent(conn: Driver, agent: str, stamp: dict[str, Any], changes: Changes) -> None:
    """Turn the candidates of every subject and predicate that has news into facts."""
    found = await facts.news_of_candidates(conn, agent)
    candidates = [Candidate(**{name: r[name] for name in Candidate.__dataclass_fields__}) for r in found]
    believed = heeded(reconcile(candidates), candidates, words_of(await facts.words(conn, agent)))
    for fact in believed:
        outcome = await facts.save_fact(conn, _fact_row(fact) | stamp)
        changes.note("facts", "reinforced" if outcome == "changed" else outcome, fact.sentence)
    groups = sorted({(c.subject, c.predicate) for c in candidates})
    if groups:
        values = {
            "agent": agent,
            "kept": [fact.id for fact in believed],
            "subjects": [subject for subject, _ in groups],
            "predicates": [predicate for _, predicate in groups],
        }
        changes.gone("facts", await facts.drop_stale(conn, values))
    await facts.mark_reconciled(conn, agent, [c.id for c in candidates])
    await index_facts(conn, agent)


def _fact_row(fact: Fact) -> dict[str, Any]:
    values = asdict(fact)
    values = {key: escape(value) if isinstance(value, str) else value for key, value in values.items()}
    return values | {"superseded": fact.superseded_by is not None, "evidence": list(fact.evidence)}
