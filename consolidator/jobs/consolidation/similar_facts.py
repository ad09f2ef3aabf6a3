"""Finds the facts that candidates may be about: of their slots, with their words, near by vector, or forgotten.

What it costs follows the candidates: each list that is read is bounded, however many facts there are.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from consolidator.database import Connection
from consolidator.errors import ModelError
from consolidator.jobs.indexing.embeddings import BATCH, LONGEST
from consolidator.jobs.model.calls import Calls
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.decisions import Known, own_fact
from consolidator.memory.facts.reconcile import scope_of
from consolidator.memory.recall.postings import FACT
from consolidator.memory.recall.ranking import CorpusStatistics, Found, Hits
from consolidator.memory.text.similarity import terms
from consolidator.memory.text.words import key
from consolidator.store.memory import facts
from consolidator.store.memory.facts import Owner
from consolidator.store.queries import Row
from consolidator.store.search import index, vectors

log = logging.getLogger("consolidator.jobs")
WORDS = 24  # of a sentence that are looked for
ALIKE = 20  # facts with a candidate's words that are looked at
NEAREST = 3  # facts near by vector that are looked at
NEAR = 0.6  # the cosine from which two sentences may say the same; who is near is asked about, nothing more
Near = Mapping[str, Mapping[str, float]]  # by candidate: facts near it, and how near
Vector = npt.NDArray[np.float32]


def owner_of(candidate: Candidate) -> Owner:
    """Return whose a candidate's fact is."""
    _, level, project, peer = scope_of(candidate)
    return level, project or peer or ""


def _scope(candidate: Candidate) -> int:
    """Return the scope in which the index has a candidate's fact."""
    agent, _, project, peer = scope_of(candidate)
    return index.SearchScope(agent, project, peer).number


async def resembling(
    conn: Connection, agent: str, candidates: Sequence[Candidate], near: Near | None = None
) -> dict[str, list[Known]]:
    """Return what each candidate may be about, by its id."""
    if not candidates:
        return {}
    asked = {one.id: (*owner_of(one), one.subject, one.predicate) for one in candidates}
    named: defaultdict[str, dict[str, None]] = defaultdict(dict)  # in the order found, each once
    for candidate, fact in await facts.slotmates(conn, agent, asked):
        named[candidate][fact] = None
    for candidate, fact in await _worded(conn, agent, candidates):
        named[candidate][fact] = None
    forgotten = await facts.forgotten(conn, agent, sorted({owner_of(one) for one in candidates}))
    for one in candidates:
        named[one.id] |= dict.fromkeys([*(near or {}).get(one.id, ()), *forgotten.get(owner_of(one), ())])
    found = await facts.known(conn, sorted({fact for one in named.values() for fact in one}))
    return {one: [_known(found[fact]) for fact in told if fact in found] for one, told in named.items()}


def _known(row: Row) -> Known:
    stated = row["trust"] == "person"
    return Known(
        row["id"], row["subject"], row["predicate"], row["value"], row["sentence"],
        stated or bool(row["single_valued"]), row["trust"], forgotten=row["superseded_at"] is not None,
    )  # fmt: skip


async def _worded(conn: Connection, agent: str, candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    """Return (candidate, fact) for the facts of a candidate's scope that have most of what its words tell."""
    scopes: defaultdict[int, list[Candidate]] = defaultdict(list)
    for one in candidates:
        scopes[_scope(one)].append(one)
    extent = await index.extent(conn, agent, list(scopes))
    best: list[tuple[str, list[int]]] = []
    for scope, corpus in extent.items():
        asked = {one.id: [key(FACT, word) for word in sorted(terms(one.sentence))[:WORDS]] for one in scopes[scope]}
        hits = await index.search(conn, sorted({word for words in asked.values() for word in words}), [scope])
        held = {
            word: Found(word, count, np.frombuffer(refs, dtype=">i8").astype(np.int64)) for word, refs, count in hits
        }
        for name, words in asked.items():
            found = Hits.of([held[word] for word in words if word in held], CorpusStatistics(*corpus))
            if found is not None:
                best.append((name, found.best(ALIKE).tolist()))
    ids = await index.facts_called(conn, sorted({number for _, numbers in best for number in numbers}))
    return [(name, ids[number]) for name, numbers in best for number in numbers if number in ids]


@dataclass(slots=True)
class Vectors:
    """What candidates are near to by vector, where a model for vectors is set; a run that gets none asks no more."""

    calls: Calls
    given_up: bool = False

    async def near(self, candidates: Sequence[Candidate]) -> dict[str, dict[str, float]]:
        """Return the facts that an agent's candidates are near to, and what others of the same scope say."""
        model = self.calls.settings.embed_model
        if model is None or self.given_up or not candidates:
            return {}
        try:
            made = [
                np.asarray(vector, dtype=np.float32)
                for start in range(0, len(candidates), BATCH)
                for vector in await self.calls.embed(
                    model, [one.sentence[:LONGEST] for one in candidates[start : start + BATCH]]
                )
            ]
        except ModelError as error:
            self.given_up = True
            log.warning("sayings are compared by their words alone: %s", error)
            return {}
        unit = {one.id: vector / (np.linalg.norm(vector) or 1.0) for one, vector in zip(candidates, made, strict=True)}
        found = _beside(candidates, unit)
        async with self.calls.database.connection() as conn:
            extent = await index.extent(conn, candidates[0].agent, sorted({_scope(one) for one in candidates}))
            for one in candidates:
                held, _ = extent.get(_scope(one), (0, 0))
                if held:
                    exact = held <= vectors.EXACT
                    found[one.id] |= await _stored(conn, model, unit[one.id], _scope(one), exact=exact)
        return found


def _beside(candidates: Sequence[Candidate], unit: Mapping[str, Vector]) -> dict[str, dict[str, float]]:
    """Return which facts candidates would make by themselves that others of their scope are near to."""
    scopes: defaultdict[int, list[Candidate]] = defaultdict(list)
    for one in candidates:
        scopes[_scope(one)].append(one)
    found: dict[str, dict[str, float]] = {one.id: {} for one in candidates}
    for told in scopes.values():
        table = np.stack([unit[one.id] for one in told])
        cosines = table @ table.T
        for place, other in zip(*np.nonzero(cosines >= NEAR), strict=True):
            if place != other:
                found[told[place].id][own_fact(told[other])] = float(cosines[place, other])
    return found


async def _stored(conn: Connection, model: str, vector: Vector, scope: int, *, exact: bool) -> dict[str, float]:
    """Return the facts of a scope that are nearest to a vector, and how near."""
    near = await vectors.nearest(conn, [FACT], model, vector.tolist(), [scope], exact=exact, limit=NEAREST)
    numbers = near.get(FACT, [])
    ids = await index.facts_called(conn, numbers)
    found = {}
    for number, held in (await vectors.of_facts(conn, model, numbers)).items():
        other = np.asarray(held, dtype=np.float32)
        cosine = float(vector @ other / (np.linalg.norm(other) or 1.0)) if len(other) == len(vector) else 0.0
        if cosine >= NEAR and number in ids:
            found[ids[number]] = cosine
    return found
