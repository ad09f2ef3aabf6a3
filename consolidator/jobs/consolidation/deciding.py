"""Compares what a model read with what is believed, before it is merged: by code, and one question for the rest.

No connection is held while the model is asked. What it cannot be asked tonight stays undecided, beside what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from consolidator.database import Connection, Database
from consolidator.errors import Awaited, ModelError, ModelUnavailable, OverBudget
from consolidator.jobs.consolidation.reconciling import candidate_of
from consolidator.jobs.consolidation.similar_facts import Vectors, resembling
from consolidator.jobs.model.calls import Calls
from consolidator.llm.client import Request
from consolidator.memory.facts import decisions
from consolidator.memory.facts.candidates import Candidate
from consolidator.memory.facts.decisions import Decision, Question
from consolidator.memory.facts.reconcile import Scope
from consolidator.store.memory import digests, facts, rederive
from consolidator.store.search import index

log = logging.getLogger("consolidator.jobs")
LOT = 200  # candidates compared at once
MOST = 4000  # candidates of one agent compared in one night
PURPOSE = "reconcile"


@dataclass(slots=True)
class Deciding:
    """How a run decides what candidates mean for the facts there are; without a model, by code alone."""

    database: Database
    calls: Calls | None = None
    model: str | None = None
    vectors: Vectors | None = None

    async def agent(self, agent: str) -> int:
        """Decide an agent's candidates, lot by lot in the order of what happened; return how many were decided."""
        done = 0
        while done < MOST:
            async with self.database.connection() as conn:
                if await index.is_rebuilding(conn):  # what a candidate repeats might not be found
                    log.warning("recall's index is being built anew: what a model read is compared after that")
                    return done
                erased = await rederive.erased_so_far(conn)
                found = await _next(conn, agent)
            sorted_ = await self._sorted(agent, list(found.values()))
            decided = [one for scope in sorted_.values() for one in scope.decided]
            answered: list[Decision] = []
            for scope in sorted_.values():
                for question in decisions.questions(scope.unclear) if self.calls else ():
                    answered += await self._asked(self.calls, question)
            wanted = decisions.settled(found, _in_order(found, decided + answered))
            if not wanted:
                return done
            async with self.database.transaction() as conn:
                await digests.lock_agent(conn, agent)
                if await rederive.erased_so_far(conn) != erased:
                    continue  # what was decided may speak in the words of who is gone
                written = await write(conn, found, wanted)
            done += written
            if len(found) < LOT or not written:
                return done
        return done

    async def _sorted(self, agent: str, candidates: Sequence[Candidate]) -> dict[Scope, decisions.Sorted]:
        """Return what code makes of candidates; what their words do not settle is compared by vector, too."""
        async with self.database.connection() as conn:
            known = await resembling(conn, agent, candidates)
        found = decisions.sort(candidates, known)
        open_ = {one.candidate for scope in found.values() for one in scope.decided if one.operation == "add"}
        open_ |= {one.candidate.id for scope in found.values() for one in scope.unclear}
        near = await self._near([one for one in candidates if one.id in open_])
        if not any(near.values()):
            return found
        async with self.database.connection() as conn:
            known = await resembling(conn, agent, candidates, near)
        return decisions.sort(candidates, known, near)

    async def _near(self, candidates: Sequence[Candidate]) -> dict[str, dict[str, float]]:
        """Return what candidates are near to by vector; no connection is held while the model is asked."""
        if self.calls is None:
            return {}
        if self.vectors is None:
            self.vectors = Vectors(self.calls)
        return await self.vectors.near(candidates)

    async def _asked(self, calls: Calls | None, question: Question) -> list[Decision]:
        """Ask a question, in halves where the whole has no answer; nothing where the model is out of reach."""
        assert calls is not None
        assert self.model is not None
        request = Request(
            PURPOSE,
            self.model,
            decisions.SYSTEM,
            question.render(),
            "decisions",
            decisions.SCHEMA,
            decisions.MAX_TOKENS,
        )
        try:
            answer = await calls.ask(request)
        except (ModelUnavailable, OverBudget, Awaited):
            return []
        except ModelError as error:
            return await self._halved(calls, question, error)
        return decisions.read_answer(question, answer, self.model)

    async def _halved(self, calls: Calls, question: Question, error: ModelError) -> list[Decision]:
        asked = question.unclear
        if len(asked) == 1:
            return [decisions.kept(asked[0].candidate, f"no answer of the model: {error}", by=self.model or "")]
        middle = len(asked) // 2
        return [
            decision
            for half in (asked[:middle], asked[middle:])
            for decision in await self._asked(calls, Question(half))
        ]


async def decide_by_code(conn: Connection, agent: str) -> None:
    """Decide what is clear of an agent's candidates, in the caller's transaction and without a model."""
    found = await _next(conn, agent, MOST)
    sorted_ = decisions.sort(found.values(), await resembling(conn, agent, list(found.values())))
    decided = [one for scope in sorted_.values() for one in scope.decided]
    await write(conn, found, decisions.settled(found, _in_order(found, decided)))


async def _next(conn: Connection, agent: str, limit: int = LOT) -> dict[str, Candidate]:
    """Return the next candidates by id."""
    return {row["id"]: candidate_of(row) for row in await facts.undecided(conn, agent, limit)}


def _in_order(found: Mapping[str, Candidate], decided: Sequence[Decision]) -> list[Decision]:
    """Return decisions in the order in which their candidates were found."""
    place = {name: number for number, name in enumerate(found)}
    return sorted(decided, key=lambda one: place[one.candidate])


async def write(conn: Connection, found: Mapping[str, Candidate], decided: Sequence[Decision]) -> int:
    """Write decisions down; return how many hold."""
    own = {decisions.own_fact(one) for one in found.values()}
    own |= {decisions.made(one, found[one.candidate]) for one in decided}
    values = [asdict(one) | {"own": one.target in own} for one in decided]
    return await facts.decide(conn, values)
