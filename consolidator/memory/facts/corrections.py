"""Applies what people told memory: a fact that a person stated outranks all others, a forgotten one stays forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.reconcile import Attribute, Fact, attribute_of, normalize_value
from consolidator.models.fact import CorrectionRow


@dataclass(frozen=True, slots=True)
class Corrections:
    """What people told an agent's memory."""

    forgotten: frozenset[tuple[Attribute, str]]  # normalized values that are not believed again
    forgotten_ids: frozenset[str]  # facts: they stay forgotten in the words that they had before a refinement
    stated: Mapping[Attribute, str]  # the id of the fact that a person stated for an attribute


def collect_corrections(rows: Sequence[CorrectionRow]) -> Corrections:
    """Return an agent's tombstones, and the facts that people stated, by attribute."""
    return Corrections(
        forgotten=frozenset((attribute_of(row), row.value) for row in rows if not row.is_stated),
        forgotten_ids=frozenset(row.fact_id for row in rows if not row.is_stated),
        stated={attribute_of(row): row.fact_id for row in rows if row.is_stated},
    )


def apply_corrections(facts: Sequence[Fact], candidates: Sequence[Candidate], corrections: Corrections) -> list[Fact]:
    """Return facts with those superseded that a person told memory to forget, or stated otherwise."""
    single_valued = {attribute_of(candidate) for candidate in candidates if candidate.single_valued}
    return [_apply(fact, single_valued, corrections) for fact in facts]


def _apply(fact: Fact, single_valued: set[Attribute], corrections: Corrections) -> Fact:
    attribute = attribute_of(fact)
    stated = corrections.stated.get(attribute)
    if (attribute, normalize_value(fact.value)) in corrections.forgotten or fact.id in corrections.forgotten_ids:
        return replace(fact, superseded_by=stated, superseded_reason="forgotten" if stated is None else "replaced")
    if stated is not None and attribute in single_valued and fact.superseded_reason is None:
        return replace(fact, superseded_by=stated, superseded_reason="replaced")
    return fact


def correction_id(fact_id: str, text: str) -> str:
    """Return the id of a person's correction of a fact."""
    key = "\x1f".join(["person", fact_id, text])
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
