"""What a person decides about a statement that waits, and where it leads: to where it can be taken back."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from consolidator.service.memory import facts
from consolidator.ui.view import PageRequest, redirect


async def decide(page: PageRequest, statement_id: str, *, accept: bool) -> Response:
    """Let a statement be believed, or reject it; lead to the fact that it became, or to a word with an undo."""
    database, viewer = page.database, page.viewer
    candidate = await facts.review_candidate(database, statement_id, accept=accept, viewer=viewer)
    fact = await facts.find_believed(database, candidate, viewer=viewer) if accept else None
    if fact is not None:
        return redirect(f"/memory/{quote(fact.id)}?accepted=1")
    return redirect(f"/attention?done={'accepted' if accept else 'rejected'}&statement={quote(candidate.id)}")


async def reopen(page: PageRequest, statement_id: str) -> Response:
    """Have a statement that was rejected wait again."""
    await facts.reopen_review(page.database, statement_id, viewer=page.viewer)
    return redirect("/attention?done=reopened")
