"""Recall: a question, its answer as an agent gets it, and for each line why."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory import recall_reasons
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET
from consolidator.ui.view import Entry, PageModule, PageRequest, route

MAX_TOKENS = 20_000  # that a page shows of an answer
FLOOR = {
    "most": recall_reasons.MIN_ANSWER_COVERAGE,
    "fact": recall_reasons.MIN_FACT_COVERAGE,
    "many": recall_reasons.MANY_WORDS,
    "some": recall_reasons.MIN_COVERAGE_OF_MANY,
    "cosine": recall_reasons.MIN_COSINE,
}


async def show_recall(page: PageRequest) -> Response:
    """Show a question's answer, or what can be asked."""
    services, viewer = page.services, page.viewer
    filters = page.read_filter("query", "agent", "project", "peer", "tokens")
    answer = None
    if filters["query"] is not None:
        answer = await recall_reasons.explain_recall(
            services.database,
            filters["query"],
            MemoryScope(filters["agent"], filters["project"], filters["peer"]),
            token_budget=_read_tokens(filters["tokens"]),
            settings=services.settings,
            viewer=viewer,
        )
    return page.show("recall.html", filters=filters, answer=answer, floor=FLOOR, tokens=DEFAULT_TOKEN_BUDGET)


def _read_tokens(text: str | None) -> int:
    if text is None:
        return DEFAULT_TOKEN_BUDGET
    if not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= MAX_TOKENS:
        raise UsageError(f"an answer takes between 1 and {MAX_TOKENS:,} tokens, not {text[:40]!r}")
    return int(text)


PAGE = PageModule(Entry("/recall", "Ask"), (route("/recall", show_recall),))
