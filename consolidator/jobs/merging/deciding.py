"""Compares candidates that a model read with the existing facts, before they are merged.

Code decides what is clear; a model is asked about the rest, one question per scope where possible. No connection is
held while the model is asked. A candidate that cannot be asked about tonight stays undecided, and its fact stands
beside the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from consolidator.database import Connection, Database
from consolidator.errors import AnswerPending, ModelError, ModelUnavailable, OverBudget
from consolidator.jobs.merging.reconciling import candidate_of
from consolidator.jobs.merging.similar_facts import Similarities, find_similar_facts, find_similarities
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.decisions import (
    Decision,
    decided_fact_id,
    follow_moved_targets,
    keep_beside,
    own_fact_id,
)
from consolidator.memory.facts.reconcile import Scope
from consolidator.memory.facts.triage import CandidateTriage, triage_candidates
from consolidator.store.calls import scopes
from consolidator.store.facts import facts
from consolidator.store.memory import derived
from consolidator.store.search import index

if TYPE_CHECKING:
    from consolidator.jobs.model.calls import ModelCalls
    from consolidator.memory.facts.questions.merge_question import MergeQuestion

log = logging.getLogger("consolidator.jobs")
BATCH_SIZE = 200  # candidates compared at once
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
            if len(candidates) < BATCH_SIZE or not saved:
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


async def _load_undecided(conn: Connection, agent: str, limit: int = BATCH_SIZE) -> dict[str, Candidate]:
    """Return the next undecided candidates by id, the oldest first."""
    return {row.id: candidate_of(row) for row in await facts.load_undecided(conn, agent, limit)}


def _in_order(candidates: Mapping[str, Candidate], decided: Sequence[Decision]) -> list[Decision]:
    """Return decisions in the order of their candidates."""
    positions = {candidate_id: position for position, candidate_id in enumerate(candidates)}
    return sorted(decided, key=lambda decision: positions[decision.candidate_id])


async def _save_decisions(conn: Connection, candidates: Mapping[str, Candidate], decided: Sequence[Decision]) -> int:
    """Store decisions; return how many took effect."""
    new_facts = {own_fact_id(candidate) for candidate in candidates.values()}
    new_facts |= {decided_fact_id(decision, candidates[decision.candidate_id]) for decision in decided}
    values = [asdict(decision) | {"target_is_new": decision.target_id in new_facts} for decision in decided]
    return await facts.save_decisions(conn, values)
