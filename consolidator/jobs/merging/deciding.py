"""Compares candidates that a model read with the existing facts, before they are merged.

The facts that a candidate may be about are those of its attribute, those that share its words, those near it by vector,
and those that a person told memory to forget. Each list is bounded, so the cost follows the candidates, not the number
of facts. Code decides what is clear; a model is asked about the rest, one question per scope where possible. No
connection is held while the model is asked. A candidate that cannot be asked about tonight stays undecided, and its
fact stands beside the others.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from consolidator.database import Connection, Database
from consolidator.errors import AnswerPending, ModelError, ModelUnavailable, OverBudget
from consolidator.jobs.indexing.embeddings import BATCH_SIZE, MAX_TEXT_LENGTH
from consolidator.jobs.merging.reconciling import candidate_of
from consolidator.llm.static_vectors import WORDS_ONLY
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.reconcile import Scope, scope_of
from consolidator.memory.facts.triage import (
    CandidateTriage,
    Decision,
    decided_fact_id,
    follow_moved_targets,
    keep_beside,
    own_fact_id,
    triage_candidates,
)
from consolidator.memory.recall.postings import FACT
from consolidator.memory.recall.ranking import CorpusStatistics, Hits, TermPostings
from consolidator.memory.text.similarity import content_words
from consolidator.memory.text.words import word_key
from consolidator.models.fact import ExistingFact
from consolidator.store.calls import scopes
from consolidator.store.facts import facts
from consolidator.store.facts.facts import OwnedAttribute, Owner
from consolidator.store.memory import derived
from consolidator.store.search import index, scope_sizes, vectors

if TYPE_CHECKING:
    from consolidator.jobs.model.calls import ModelCalls
    from consolidator.memory.facts.questions.merge_question import MergeQuestion


MAX_SEARCH_WORDS = 24  # words of a candidate's sentence that are searched for
MAX_WORD_MATCHES = 20  # facts that share a candidate's words
MAX_VECTOR_MATCHES = 3  # facts near a candidate by vector
MIN_COSINE = 0.6  # from here two sentences may say the same, so that a model is asked about them
Similarities = Mapping[str, Mapping[str, float]]  # candidate id -> fact id -> cosine
Vector = npt.NDArray[np.float32]


async def find_similar_facts(
    conn: Connection, agent: str, candidates: Sequence[Candidate], similarities: Similarities | None = None
) -> dict[str, list[ExistingFact]]:
    """Return the facts that each candidate may be about, by candidate id; `similarities` add those near by vector."""
    if not candidates:
        return {}
    attributes = {
        candidate.id: OwnedAttribute(*_owner_of(candidate), candidate.subject, candidate.predicate)
        for candidate in candidates
    }
    matches: defaultdict[str, dict[str, None]] = defaultdict(dict)  # fact ids in the order found, each once
    of_attributes = await facts.match_attributes(conn, agent, list(attributes.values()), ids=list(attributes))
    for candidate_id, fact_id in (*of_attributes, *await _match_words(conn, agent, candidates)):
        matches[candidate_id][fact_id] = None
    forgotten = await facts.load_forgotten(conn, agent, sorted({_owner_of(candidate) for candidate in candidates}))
    for candidate in candidates:
        near = (similarities or {}).get(candidate.id, ())
        matches[candidate.id] |= dict.fromkeys([*near, *forgotten.get(_owner_of(candidate), ())])
    existing = await facts.load_comparable(conn, sorted({fact_id for ids in matches.values() for fact_id in ids}))
    return {
        candidate_id: [existing[fact_id] for fact_id in ids if fact_id in existing]
        for candidate_id, ids in matches.items()
    }


def _owner_of(candidate: Candidate) -> Owner:
    """Return whose a candidate's fact is."""
    _, level, project, peer = scope_of(candidate)
    return Owner(level, project or peer or "")


def _search_scope(candidate: Candidate) -> int:
    """Return the number of the scope in which the index has a candidate's fact."""
    agent, _, project, peer = scope_of(candidate)
    return scope_sizes.SearchScope(agent, project, peer).number


async def _match_words(conn: Connection, agent: str, candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    """Return (candidate id, fact id) for the facts of a candidate's scope that share most of its content words."""
    by_scope: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_scope[_search_scope(candidate)].append(candidate)
    extents = await scope_sizes.load_fact_extents(conn, agent, list(by_scope))
    best: list[tuple[str, list[int]]] = []
    for scope, extent in extents.items():
        keys = {
            candidate.id: [
                word_key(FACT, word) for word in sorted(content_words(candidate.sentence))[:MAX_SEARCH_WORDS]
            ]
            for candidate in by_scope[scope]
        }
        searched = sorted({key for candidate_keys in keys.values() for key in candidate_keys})
        by_word = {
            word: TermPostings(word, count, np.frombuffer(refs, dtype=">i8").astype(np.int64))
            for word, refs, count in await index.search_words(conn, searched, [scope])
        }
        statistics = CorpusStatistics(extent.facts, extent.fact_words)
        for candidate_id, candidate_keys in keys.items():
            hits = Hits.from_terms([by_word[key] for key in candidate_keys if key in by_word], statistics)
            if hits is not None:
                best.append((candidate_id, hits.rank_documents(MAX_WORD_MATCHES).tolist()))
    ids = await index.load_fact_ids(conn, sorted({number for _, numbers in best for number in numbers}))
    return [(candidate_id, ids[number]) for candidate_id, numbers in best for number in numbers if number in ids]


async def find_similarities(calls: ModelCalls, candidates: Sequence[Candidate]) -> Similarities:
    """Return the facts near to each of an agent's candidates: stored ones, and those that other candidates make.

    Empty where no embedding model is configured. Raises ModelError if it does not answer.
    """
    model = calls.settings.embed_model
    if model is None or model == WORDS_ONLY or not candidates:
        return {}
    embedded: dict[str, Vector] = {}  # of length 1
    for start in range(0, len(candidates), BATCH_SIZE):
        batch = candidates[start : start + BATCH_SIZE]
        texts = [candidate.sentence[:MAX_TEXT_LENGTH] for candidate in batch]
        for candidate, values in zip(batch, await calls.embed(model, texts), strict=True):
            vector = np.asarray(values, dtype=np.float32)
            embedded[candidate.id] = vector / (np.linalg.norm(vector) or 1.0)
    similarities = _compare_candidates(candidates, embedded)
    scopes = {candidate.id: _search_scope(candidate) for candidate in candidates}
    async with calls.database.connection() as conn:
        extents = await scope_sizes.load_fact_extents(conn, candidates[0].agent, sorted(set(scopes.values())))
        for candidate in candidates:
            scope = scopes[candidate.id]
            extent = extents.get(scope)
            if extent is not None and extent.facts:
                exact = extent.facts <= vectors.EXACT_LIMIT
                similarities[candidate.id] |= await _compare_facts(
                    conn, model, embedded[candidate.id], scope, exact=exact
                )
    return similarities


def _compare_candidates(candidates: Sequence[Candidate], embedded: Mapping[str, Vector]) -> dict[str, dict[str, float]]:
    """Return, for each candidate, the facts that near candidates of the same scope would make, and their cosines."""
    by_scope: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_scope[_search_scope(candidate)].append(candidate)
    similarities: dict[str, dict[str, float]] = {candidate.id: {} for candidate in candidates}
    for neighbours in by_scope.values():
        matrix = np.stack([embedded[candidate.id] for candidate in neighbours])
        cosines = matrix @ matrix.T
        for row, column in zip(*np.nonzero(cosines >= MIN_COSINE), strict=True):
            if row != column:
                similarities[neighbours[row].id][own_fact_id(neighbours[column])] = float(cosines[row, column])
    return similarities


async def _compare_facts(conn: Connection, model: str, vector: Vector, scope: int, *, exact: bool) -> dict[str, float]:
    """Return the stored facts of a scope that are nearest to a vector, with their cosines, by fact id."""
    nearest = await vectors.find_nearest(
        conn, [FACT], model, vector.tolist(), [scope], exact=exact, limit=MAX_VECTOR_MATCHES
    )
    numbers = [number for number, _ in nearest.get(FACT, [])]
    ids = await index.load_fact_ids(conn, numbers)
    similarities = {}
    for number, values in (await vectors.load_fact_vectors(conn, model, numbers)).items():
        other = np.asarray(values, dtype=np.float32)
        cosine = float(vector @ other / (np.linalg.norm(other) or 1.0)) if len(other) == len(vector) else 0.0
        if cosine >= MIN_COSINE and number in ids:
            similarities[ids[number]] = cosine
    return similarities


log = logging.getLogger("consolidator.jobs")
MAX_COMPARED = 200  # candidates compared at once
MAX_CANDIDATES = 4000  # candidates of one agent compared in one night
PURPOSE = "reconcile"


@dataclass(slots=True)
class CandidateDecider:
    """Decides what a run's candidates mean for the existing facts; without a model, by code alone."""

    database: Database
    calls: ModelCalls | None = None
    has_failed: bool = False  # to compare by vector: then it is not tried again

    async def decide_agent(self, agent: str) -> int:
        """Decide an agent's candidates in batches, the oldest first; return how many were decided."""
        done = 0
        while done < MAX_CANDIDATES:
            async with self.database.connection() as conn:
                if await index.is_rebuilding(conn):  # a search might miss the fact that a candidate repeats
                    log.warning("recall's index is being rebuilt: candidates are compared in a later night")
                    return done
                erasures_before = await derived.count_erasures(conn)
                candidates = await _load_undecided(conn, agent)

            triages = await self._triage(agent, list(candidates.values()))
            decided = [decision for triage in triages.values() for decision in triage.decided]
            if self.calls is not None:
                from consolidator.memory.facts.questions.merge_question import split_questions

                for triage in triages.values():
                    for question in split_questions(triage.unclear):
                        decided += await self._ask_model(self.calls, question)

            resolved = follow_moved_targets(candidates, _in_order(candidates, decided))
            if not resolved:
                return done

            async with self.database.transaction() as conn:
                await scopes.lock_agents(conn, [agent])
                if await derived.count_erasures(conn) != erasures_before:
                    continue  # the decisions may quote the erased session
                saved = await _save_decisions(conn, candidates, resolved)
            done += saved
            if len(candidates) < MAX_COMPARED or not saved:
                return done
        return done

    async def _triage(self, agent: str, candidates: Sequence[Candidate]) -> dict[Scope, CandidateTriage]:
        """Decide by code what is clear; candidates whose words settle nothing are compared by vector, too."""
        async with self.database.connection() as conn:
            existing = await find_similar_facts(conn, agent, candidates)
        triages = triage_candidates(candidates, existing)
        unsettled = {
            decision.candidate_id
            for triage in triages.values()
            for decision in triage.decided
            if decision.operation == "add"
        }
        unsettled |= {unclear.candidate.id for triage in triages.values() for unclear in triage.unclear}
        similarities: Similarities = {}
        if self.calls is not None and not self.has_failed:
            try:
                undecided = [candidate for candidate in candidates if candidate.id in unsettled]
                similarities = await find_similarities(self.calls, undecided)
            except ModelError as error:
                self.has_failed = True
                log.warning("candidates are compared by their words alone: %s", error)
        if not any(similarities.values()):
            return triages
        async with self.database.connection() as conn:
            existing = await find_similar_facts(conn, agent, candidates, similarities)
        return triage_candidates(candidates, existing, similarities)

    async def _ask_model(self, calls: ModelCalls, question: MergeQuestion) -> list[Decision]:
        """Ask a question, in halves if the whole gets no valid answer; decide nothing if the model is unavailable."""
        from consolidator.llm.client import ModelRequest
        from consolidator.memory.facts.questions import merge_question

        assert calls.merge_model is not None
        request = ModelRequest(
            PURPOSE, calls.merge_model, merge_question.SYSTEM, question.render(), "decisions", merge_question.SCHEMA,
            merge_question.MAX_TOKENS,
        )  # fmt: skip
        try:
            answer = await calls.ask(request)
        except (ModelUnavailable, OverBudget, AnswerPending):
            return []
        except ModelError as error:
            unclear, middle = question.unclear, len(question.unclear) // 2
            if not middle:
                flag = f"no answer of the model: {error}"
                return [keep_beside(unclear[0].candidate, flag, by=calls.merge_model)]
            halves = (merge_question.MergeQuestion(half) for half in (unclear[:middle], unclear[middle:]))
            return [decision for half in halves for decision in await self._ask_model(calls, half)]
        return merge_question.read_decisions(question, answer, calls.merge_model)


async def decide_by_code(conn: Connection, agent: str) -> None:
    """Decide what is clear of an agent's candidates, in the caller's transaction and without a model."""
    candidates = await _load_undecided(conn, agent, MAX_CANDIDATES)
    existing = await find_similar_facts(conn, agent, list(candidates.values()))
    triages = triage_candidates(candidates.values(), existing)
    decided = [decision for triage in triages.values() for decision in triage.decided]
    resolved = follow_moved_targets(candidates, _in_order(candidates, decided))
    await _save_decisions(conn, candidates, resolved)


async def _load_undecided(conn: Connection, agent: str, limit: int = MAX_COMPARED) -> dict[str, Candidate]:
    """Return the next undecided candidates by id, the oldest first."""
    return {row.id: candidate_of(row) for row in await facts.load_undecided(conn, agent, limit)}


def _in_order(candidates: Mapping[str, Candidate], decided: Sequence[Decision]) -> list[Decision]:
    positions = {candidate_id: position for position, candidate_id in enumerate(candidates)}
    return sorted(decided, key=lambda decision: positions[decision.candidate_id])


async def _save_decisions(conn: Connection, candidates: Mapping[str, Candidate], decided: Sequence[Decision]) -> int:
    """Store decisions; return how many took effect."""
    new_facts = {own_fact_id(candidate) for candidate in candidates.values()}
    new_facts |= {decided_fact_id(decision, candidates[decision.candidate_id]) for decision in decided}
    values = [asdict(decision) | {"target_is_new": decision.target_id in new_facts} for decision in decided]
    return await facts.save_decisions(conn, values)
