"""Makes facts of the candidates of every attribute that changed, in the caller's transaction.

Only the changed attributes of the owners concerned are read, so the cost does not grow with the agent's other facts;
so are the endings of these owners, and what a new ending may be about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from consolidator.database import Connection
from consolidator.database.jsonb import escape
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.memory.facts.candidates import ENDING_SUBJECT, ENDINGS, Candidate
from consolidator.memory.facts.corrections import apply_corrections, collect_corrections
from consolidator.memory.facts.reconcile import Fact, apply_refinements, reconcile_candidates, unify_refined_values
from consolidator.memory.facts.relations import spellings_of
from consolidator.models.provenance import Changes, Provenance
from consolidator.store.facts import facts
from consolidator.store.facts.facts import LineageCandidateRow, OwnedAttribute, UnreconciledRow


async def reconcile_agent(conn: Connection, agent: str, stamp: Provenance, changes: Changes) -> None:
    """Publish and index the facts of every attribute with changed candidates; the caller holds the agent's lock."""
    unreconciled = await facts.lock_unreconciled(conn, agent)
    changed = {attribute for row in unreconciled for attribute in _attributes_of(row)}
    endings = [row.id for row in unreconciled if row.predicate in ENDINGS]
    changed |= set(await facts.load_ended_attributes(conn, agent, endings)) if endings else set()
    owners = {(attribute.level, attribute.owner) for attribute in changed}
    changed |= {OwnedAttribute(*owner, ENDING_SUBJECT, predicate) for owner in owners for predicate in ENDINGS}
    attributes = sorted(changed)
    touched: set[str] = set()
    if attributes:
        published = await facts.list_published(conn, agent, attributes)
        rows = await facts.load_candidates(conn, agent, attributes)
        believed = await _reconcile_rows(conn, agent, rows)
        flags = {row.id: row.flagged for row in rows if row.flagged}
        for outcome in await facts.save_each(conn, [_fact_values(fact, flags) for fact in believed], **asdict(stamp)):
            changes.add("facts", "reinforced" if outcome == "changed" else outcome)
        believed_ids = [fact.id for fact in believed]
        changes.add("facts", "retired", await facts.drop_unsupported(conn, agent, attributes, believed_ids, stamp.now))
        touched = {*published, *believed_ids}
    await facts.mark_reconciled(conn, agent, [row.id for row in unreconciled])
    await index_facts(conn, agent, sorted(touched))


def _attributes_of(row: UnreconciledRow) -> set[OwnedAttribute]:
    """Return the attributes that a changed candidate concerns, by every name: its own, and the one it counts for."""
    relations = {(row.subject, row.predicate)}
    if row.as_subject is not None and row.as_predicate is not None:
        relations.add((row.as_subject, row.as_predicate))
    return {
        OwnedAttribute(row.level, row.owner, subject, spelling)
        for subject, predicate in relations
        for spelling in spellings_of(predicate)
    }


async def _reconcile_rows(conn: Connection, agent: str, rows: Sequence[LineageCandidateRow]) -> list[Fact]:
    """Return the facts of candidates, with the decisions about them and people's corrections applied."""
    candidates = [candidate_of(row) for row in rows]
    corrections = collect_corrections(await facts.load_corrections(conn, agent))
    refined = {row.id: (row.value, row.sentence) for row in rows if row.operation == "refine"}
    candidates = unify_refined_values(candidates, refined)
    believed = apply_corrections(reconcile_candidates(candidates), candidates, corrections)
    return apply_corrections(apply_refinements(believed, refined), candidates, corrections) if refined else believed


def candidate_of(row: LineageCandidateRow) -> Candidate:
    """Return a stored candidate as what it counts for."""
    values = {name: getattr(row, name) for name in Candidate.__dataclass_fields__}
    if row.as_subject is not None:
        values |= {"subject": row.as_subject, "predicate": row.as_predicate, "value": row.as_value}
    return Candidate(**values)


def _fact_values(fact: Fact, flags: Mapping[str, str]) -> dict[str, Any]:
    """Return a fact's columns; `flags` are those of candidates, by id."""
    values = {key: escape(value) if isinstance(value, str) else value for key, value in asdict(fact).items()}
    flag = next((flags[candidate] for candidate in fact.evidence if candidate in flags), None)
    is_superseded = fact.superseded_reason is not None
    return values | {"evidence": list(fact.evidence), "flagged": None if is_superseded else flag}
