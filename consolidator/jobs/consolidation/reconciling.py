"""Turns the candidates of every slot that has news into facts, in the caller's transaction.

A slot is what facts of one subject and predicate are believed of somebody; what others have there is not looked at.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from consolidator.database import Connection
from consolidator.database.jsonb import escape
from consolidator.jobs.consolidation.changes import Changes
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.corrections import heeded, words_of
from consolidator.memory.facts.reconcile import Fact, reconcile, worded
from consolidator.store.memory import facts
from consolidator.store.queries import Row

_NAMED = {"flagged": "flag"}  # of a fact's columns, the values with other names


async def reconcile_agent(conn: Connection, agent: str, stamp: dict[str, Any], changes: Changes) -> None:
    """Turn the candidates of every slot that has news into facts."""
    news = await facts.news(conn, agent)
    slots = sorted({slot for one in news for slot in _slots(one)})
    touched: set[str] = set()
    if slots:
        published = await facts.published(conn, agent, slots)
        found = await facts.candidates_of(conn, agent, slots)
        believed = await _believed(conn, agent, found)
        flags = {r["id"]: r["flagged"] for r in found if r["flagged"]}
        for values in (_fact_row(fact, flags) for fact in believed):
            if _is_same(published.get(values["id"]), values):
                continue
            outcome = await facts.save_fact(conn, values | stamp)
            changes.note("facts", "reinforced" if outcome == "changed" else outcome, values["sentence"])
        kept = [fact.id for fact in believed]
        changes.gone("facts", await facts.drop_stale(conn, agent, slots, kept, stamp["now"]))
        touched = {*published, *kept}
    await facts.mark_reconciled(conn, agent, [one["id"] for one in news])
    await index_facts(conn, agent, sorted(touched))


def _slots(candidate: Row) -> set[facts.Slot]:
    """Return the slots that news of a candidate concerns: its own, and the one that it counts for."""
    whose = candidate["level"], candidate["owner"]
    own = (*whose, candidate["subject"], candidate["predicate"])
    moved = candidate["as_subject"] is not None
    return {own, (*whose, candidate["as_subject"], candidate["as_predicate"])} if moved else {own}


async def _believed(conn: Connection, agent: str, found: list[Row]) -> list[Fact]:
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


def _is_same(stored: Row | None, values: dict[str, Any]) -> bool:
    """Tell whether a fact is published as it should be."""
    return stored is not None and all(stored[name] == values[_NAMED.get(name, name)] for name in stored)


def _fact_row(fact: Fact, flags: dict[str, str]) -> dict[str, Any]:
    values = asdict(fact)
    values = {key: escape(value) if isinstance(value, str) else value for key, value in values.items()}
    flag = next((flags[one] for one in fact.evidence if one in flags), None)
    superseded = fact.superseded_by is not None
    return values | {"superseded": superseded, "evidence": list(fact.evidence), "flag": None if superseded else flag}
