"""What a person told memory itself: their word goes before all others, and what they had forgotten stays so. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.reconcile import Fact, normal, scope_of

FORGOTTEN = "forgotten by a person"
Slot = tuple[Any, ...]  # scope, subject and predicate of a fact


@dataclass(frozen=True, slots=True)
class Words:
    """What people told of an agent's memory."""

    forgotten: frozenset[tuple[Any, ...]]  # slots with the value that is not believed again
    stated: Mapping[Slot, str]  # slots with the id of the fact that a person stated for it


def words_of(told: Sequence[Mapping[str, Any]]) -> Words:
    """Return what tombstones and persons' facts say; a person's fact has a `stated` id."""
    forgotten = {(*slot_of(one), one["value"]) for one in told if not one["stated"]}
    return Words(frozenset(forgotten), {slot_of(one): str(one["stated"]) for one in told if one["stated"]})


def slot_of(told: Mapping[str, Any]) -> Slot:
    """Return whom and what a fact is about."""
    project = told["project"] if told["level"] == "project" else None
    peer = told["peer"] if told["level"] == "peer" else None
    return told["agent"], told["level"], project, peer, told["subject"], normal(told["predicate"])


def heeded(facts: Sequence[Fact], candidates: Sequence[Candidate], words: Words) -> list[Fact]:
    """Return facts as they are believed by people's words: the forgotten are over, the contradicted superseded."""
    single = {(*scope_of(c), c.subject, normal(c.predicate)) for c in candidates if c.single_valued}
    return [_heeded(fact, single, words) for fact in facts]


def _heeded(fact: Fact, single: set[Slot], words: Words) -> Fact:
    slot = (fact.agent, fact.level, fact.project, fact.peer, fact.subject, normal(fact.predicate))
    if (*slot, normal(fact.value)) in words.forgotten:
        return replace(fact, superseded_by=words.stated.get(slot, FORGOTTEN))
    if slot in words.stated and slot in single and fact.superseded_by is None:
        return replace(fact, superseded_by=words.stated[slot])
    return fact


def correction_id(fact: Mapping[str, Any], text: str) -> str:
    """Return the id of a person's correction of a fact."""
    key = "\x1f".join(["person", str(fact["id"]), text])
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
