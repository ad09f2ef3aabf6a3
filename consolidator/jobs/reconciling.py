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
from consolidator.memory.reconcile import Fact, reconcile, worded
from consolidator.store import facts
from consolidator.store.queries import Row


async def reconcile_agent(conn: Driver, agent: str, stamp: dict[str, Any], changes: Changes) -> None:
    """Turn the candidates of every subject and predicate that has news into facts."""
    news = await facts.news(conn, agent)
    groups = sorted({group for one in news for group in _groups(one)})
    if groups:
        found = await facts.candidates_of(conn, agent, groups)
        believed = await _believed(conn, agent, found)
        flags = {r["id"]: r["flagged"] for r in found if r["flagged"]}
        for fact in believed:
            outcome = await facts.save_fact(conn, _fact_row(fact, flags) | stamp)
            changes.note("facts", "reinforced" if outcome == "changed" else outcome, fact.sentence)
        values = {
            "agent": agent,
            "kept": [fact.id for fact in believed],
            "subjects": [subject for subject, _ in groups],
            "predicates": [predicate for _, predicate in groups],
            "now": stamp["now"],
        }
        changes.gone("facts", await facts.drop_stale(conn, values))
    await facts.mark_reconciled(conn, agent, [one["id"] for one in news])
    await index_facts(conn, agent)


def _groups(candidate: Row) -> set[tuple[str, str]]:
    """Return the subjects and predicates that news of a candidate concerns."""
    own, moved = (candidate["subject"], candidate["predicate"]), (candidate["as_subject"], candidate["as_predicate"])
    return {own} if moved[0] is None else {own, moved}


async def _believed(conn: Driver, agent: str, found: list[Row]) -> list[Fact]:
    """Return the facts of candidates, by what was decided of each and what people said."""
    candidates = [candidate_of(r) for r in found]
    told = words_of(await facts.words(conn, agent))
    refined = {r["id"]: (r["value"], r["sentence"]) for r in found if r["operation"] == "refine"}
    believed = heeded(reconcile(candidates), candidates, told)
    return heeded(worded(believed, refined), candidates, told) if refined else believed


def candidate_of(row: Row) -> Candidate:
    """Return a stored candidate as what it counts for."""
    values = {name: row[name] for name in Candidate.__dataclass_fields__}
    if row["as_subject"] is not None:
        values |= {name: row[f"as_{name}"] for name in ("subject", "predicate", "value")}
    return Candidate(**values)


def _fact_row(fact: Fact, flags: dict[str, str]) -> dict[str, Any]:
    values = asdict(fact)
    values = {key: escape(value) if isinstance(value, str) else value for key, value in values.items()}
    flag = next((flags[one] for one in fact.evidence if one in flags), None)
    superseded = fact.superseded_by is not None
    return values | {"superseded": superseded, "evidence": list(fact.evidence), "flag": None if superseded else flag}
