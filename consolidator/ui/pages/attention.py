"""Attention: all that waits for a person: calls, statements to review, and what waits on other pages."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from starlette.responses import Response

from consolidator.errors import UsageError
from consolidator.runtime.turn import sessions as runtime
from consolidator.service.memory import facts
from consolidator.ui.view import Entry, PageModule, PageRequest, fit_texts, redirect, route

STATEMENTS, SESSIONS = 20, 20  # on a page
CALLS_KB = 90  # that the arguments of its calls take
MAX_ARGUMENTS = 40  # that are shown of one call
_DONE = {"granted": "Granted", "denied": "Denied", "settled": "Settled", "accepted": "Accepted"}
_DONE |= {"rejected": "Rejected", "reopened": "It waits again"}


async def show_attention(page: PageRequest) -> Response:
    """List the sessions in which calls wait, the latest first."""
    services, viewer = page.services, page.viewer
    after = page.read_moment("attention")
    page_rows = await runtime.list_attention(services.database, after=after, limit=SESSIONS + 1, viewer=viewer)
    rows = page_rows[:SESSIONS]
    position = [rows[-1].last_event_at.isoformat(), rows[-1].id] if len(page_rows) > SESSIONS else None
    after = page.read_moment("statements", "statements")
    calls = [(row, [(call, _show_call(attention)) for call, attention in row.attention.items()]) for row in rows]
    waiting = await facts.list_quarantined(services.database, after=after, limit=STATEMENTS, viewer=viewer)
    page.state.badge = await services.badge.load(services.database, viewer, anew=True)
    return page.show(
        "attention.html",
        sessions=calls,
        most=fit_texts([text for _, shown in calls for _, call in shown for _, text in call["arguments"]], CALLS_KB),
        statements=waiting,
        more=page.next_address("attention", position),
        first_page=page.first_address(),
        more_statements=page.next_address("statements", waiting.position, "statements"),
        first_statements=page.first_address("statements"),
        done=_DONE.get(page.query_params.get("done", "")),
        done_statement=page.query_params.get("statement", "")[:200],
        done_session=page.query_params.get("session", "")[:200],
        is_driven=services.is_driving,
    )


def _show_call(attention: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked about a call, its arguments as lines of text."""
    arguments = _read_arguments(attention.get("arguments"))
    items = arguments.items() if isinstance(arguments, dict) else [("", arguments)]
    shown = [
        (str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))
        for name, value in items
    ]
    left_out = max(len(shown) - MAX_ARGUMENTS, 0)
    return {
        "kind": attention.get("kind"),
        "tool": attention.get("tool"),
        "arguments": shown[:MAX_ARGUMENTS],
        "left_out": left_out,
    }


def _read_arguments(arguments: Any) -> Any:
    """Return arguments that a model wrote as JSON; what is none stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments


async def decide(page: PageRequest) -> Response:
    """Allow or deny a call that waits for approval."""
    form = page.form_fields
    allow = _choose(form, "decision", "grant", "deny") == "grant"
    session = await runtime.decide_approval(
        page.database,
        form.get("call", ""),
        allow=allow,
        reason=form.get("reason", "").strip()[:2000] or None,
        session_id=form.get("session") or None,
        viewer=page.viewer,
    )
    return redirect(f"/attention?done={'granted' if allow else 'denied'}&session={session}")


async def resolve(page: PageRequest) -> Response:
    """Record how a call went whose outcome is unknown."""
    form = page.form_fields
    outcome: Literal["ok", "failed"] = "ok" if _choose(form, "outcome", "ok", "failed") == "ok" else "failed"
    session = await runtime.resolve_call(
        page.database, form.get("call", ""), outcome, session_id=form.get("session") or None, viewer=page.viewer
    )
    return redirect(f"/attention?done=settled&session={session}")


async def review(page: PageRequest) -> Response:
    """Let a statement that waits be believed, reject it, or have one that was rejected wait again."""
    form, database, viewer = page.form_fields, page.database, page.viewer
    decision = _choose(form, "decision", "accept", "reject", "reopen")
    if decision == "reopen":
        await facts.reopen_review(database, form.get("statement", ""), viewer=viewer)
        return redirect("/attention?done=reopened")
    accept = decision == "accept"
    candidate = await facts.review_candidate(database, form.get("statement", ""), accept=accept, viewer=viewer)
    fact = await facts.find_believed(database, candidate, viewer=viewer) if accept else None
    if fact is not None:
        return redirect(f"/memory/{quote(fact.id)}?accepted=1")
    return redirect(f"/attention?done={'accepted' if accept else 'rejected'}&statement={quote(candidate.id)}")


def _choose(form: dict[str, str], name: str, *choices: str) -> str:
    """Return what a form says, which is never guessed."""
    if form.get(name) not in choices:
        raise UsageError(f"choose {' or '.join(choices)}; nothing was changed")
    return form[name]


ATTENTION = PageModule(
    Entry("/attention", "Waits for you"),
    (
        route("/attention", show_attention),
        route("/attention/decide", decide, methods=["POST"]),
        route("/attention/resolve", resolve, methods=["POST"]),
        route("/attention/review", review, methods=["POST"]),
    ),
)
