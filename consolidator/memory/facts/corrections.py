"""Applies what people told memory: a fact that a person stated outranks all others, a forgotten one stays forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from consolidator.memory.facts.candidates import EXPLICIT_EXTRACTORS, Candidate
from consolidator.memory.facts.reconcile import Attribute, Fact, attribute_of, normalize_value
from consolidator.models.fact import CorrectionRow, FactRow


@dataclass(frozen=True, slots=True)
class Corrections:
    """What people told an agent's memory."""

    forgotten: Mapping[tuple[Attribute, str], datetime]  # normalized values that are not believed again, since when
    forgotten_ids: Mapping[str, datetime]  # facts: they stay forgotten in the words that they had before a refinement
    stated: Mapping[Attribute, str]  # the id of the fact that a person stated for an attribute


def collect_corrections(rows: Sequence[CorrectionRow]) -> Corrections:
    """Return an agent's tombstones, and the facts that people stated, by attribute."""
    tombstones = sorted((row for row in rows if not row.is_stated), key=lambda row: row.at)
    return Corrections(
        forgotten={(attribute_of(row), row.value): row.at for row in tombstones},
        forgotten_ids={row.fact_id: row.at for row in tombstones},
        stated={attribute_of(row): row.fact_id for row in rows if row.is_stated},
    )


def apply_corrections(facts: Sequence[Fact], candidates: Sequence[Candidate], corrections: Corrections) -> list[Fact]:
    """Return facts with those superseded that a person told memory to forget, or stated otherwise.

    What somebody asks to remember after it was forgotten is believed again.
    """
    single_valued = {attribute_of(candidate) for candidate in candidates if candidate.single_valued}
    remembered = {
        candidate.id: candidate.occurred_at for candidate in candidates if candidate.extractor in EXPLICIT_EXTRACTORS
    }
    return [_apply(fact, single_valued, remembered, corrections) for fact in facts]


def _apply(
    fact: Fact, single_valued: set[Attribute], remembered: Mapping[str, datetime], corrections: Corrections
) -> Fact:
    attribute = attribute_of(fact)
    stated = corrections.stated.get(attribute)
    if _is_forgotten(fact, attribute, remembered, corrections):
        return replace(fact, superseded_by=stated, superseded_reason="forgotten" if stated is None else "replaced")
    if stated is not None and attribute in single_valued and fact.superseded_reason is None:
        return replace(fact, superseded_by=stated, superseded_reason="replaced")
    return fact


def _is_forgotten(
    fact: Fact, attribute: Attribute, remembered: Mapping[str, datetime], corrections: Corrections
) -> bool:
    """Tell whether a fact was forgotten, and nobody asked to remember it since."""
    times = corrections.forgotten.get((attribute, normalize_value(fact.value))), corrections.forgotten_ids.get(fact.id)
    forgotten_at = max((at for at in times if at is not None), default=None)
    return forgotten_at is not None and not any(
        remembered[cited] > forgotten_at for cited in fact.evidence if cited in remembered
    )


def is_correction(fact: FactRow, of: FactRow) -> bool:
    """Tell whether a person stated a fact in place of another one."""
    return fact.id == correction_id(of.id, fact.sentence)


def correction_id(fact_id: str, text: str) -> str:
    """Return the id of a person's correction of a fact."""
    key = "\x1f".join(["person", fact_id, text])
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
