"""Why recall answers what it answers: for each line what found it, and what was found and refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from consolidator.database import Database
from consolidator.memory.recall.block import RecallItem, estimate_tokens
from consolidator.memory.recall.fusion import Reason, explain_items, spell_words
from consolidator.memory.recall.relevance import MANY_WORDS as MANY_WORDS
from consolidator.memory.recall.relevance import MIN_ANSWER_COVERAGE as MIN_ANSWER_COVERAGE
from consolidator.memory.recall.relevance import MIN_COVERAGE_OF_MANY as MIN_COVERAGE_OF_MANY
from consolidator.memory.recall.relevance import MIN_FACT_COVERAGE as MIN_FACT_COVERAGE
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET, RecallResult, recall
from consolidator.service.memory.recall import MIN_COSINE as MIN_COSINE
from consolidator.settings import Settings

Fate = Literal["answered", "refused", "over budget"]
MAX_REFUSED = 20  # lines that are shown of what is no answer


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """A line of an answer, or one that was found and is in none."""

    item: RecallItem
    fate: Fate
    reason: Reason | None  # None for a solution and a procedure, which are found by their words alone


@dataclass(frozen=True, slots=True)
class ExplainedAnswer:
    """An answer as an agent gets it, with the reasons of its lines."""

    block: str  # "" where nothing is known
    tokens: int
    token_budget: int
    lines: list[ExplainedLine]  # of the block, in its order
    refused: list[ExplainedLine]  # found, but not in the block: the floor, or the budget
    refused_count: int  # with those that are not shown
    words: tuple[str, ...]  # of the question, those that are weighed, the most telling first
    spelled: Mapping[str, str]  # these words, which are stems, as the question has them
    nearest: float  # cosine of the document nearest to the question; 0 without an embedding model
    has_answer: bool  # whether the facts and turns that were found passed the floor of relevance


async def explain_recall(
    database: Database,
    query: str,
    scope: MemoryScope = MemoryScope(),
    *,
    token_budget: int = DEFAULT_TOKEN_BUDGET,
    settings: Settings | None = None,
    viewer: Viewer = OWNER,
) -> ExplainedAnswer:
    """Return what `recall` answers to a query, and why; nothing is counted as recalled."""
    viewer.check_may("read")
    answer = await recall(
        database, query, scope, token_budget=token_budget, settings=settings, viewer=viewer, occasion="page"
    )
    ranked = answer.ranked
    refused = answer.left_out if ranked.has_answer else [*answer.left_out, *ranked.items]
    shown = [item for item in [*answer.items, *refused[:MAX_REFUSED]] if item.kind in ("fact", "episode")]
    reasons = explain_items(shown, ranked.turns, ranked.facts, ranked.channels, ranked.question, ranked.words)
    weights = ranked.question.weights
    return ExplainedAnswer(
        block=answer.block,
        tokens=estimate_tokens(answer.block),
        token_budget=token_budget,
        lines=[ExplainedLine(item, "answered", reasons.get(item.citation)) for item in answer.items],
        refused=[
            ExplainedLine(item, _fate(answer, item), reasons.get(item.citation)) for item in refused[:MAX_REFUSED]
        ],
        refused_count=len(refused),
        words=tuple(sorted(weights, key=lambda word: (-weights[word], word))),
        spelled=spell_words(query, weights),
        nearest=max((channel.cosine for channel in ranked.channels), default=0.0),
        has_answer=ranked.has_answer,
    )


def _fate(answer: RecallResult, item: RecallItem) -> Fate:
    left_out = {other.citation for other in answer.left_out}
    return "over budget" if item.citation in left_out else "refused"
