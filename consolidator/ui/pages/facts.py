"""Facts and rules: find them, see what they rest on, correct, forget, accept and dismiss them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import Response

from consolidator.errors import UsageError
from consolidator.models.fact import ChainedFactRow, FactRow
from consolidator.models.memory_filter import FactFilter
from consolidator.service.memory import facts, remember, rules
from consolidator.service.memory.explain import explain, find_places
from consolidator.service.memory.facts import FactChain, load_fact_chain
from consolidator.service.memory.learned import find_first_fact
from consolidator.service.memory.lessons import LESSON_PREFIX
from consolidator.ui.view import Entry, PageModule, PageRequest, go_back, make_filter, redirect, route

FILTERS = ("query", "agent", "project", "peer", "kind", "trust", "as_of", "valid_at", "include_superseded", "flagged")
KINDS = ("preference", "profile", "environment", "project", "decision", "constraint", "relation", "observation")
QUOTES = 100  # of one fact on its page
TRUST = ("person", "user", "agent", "tool")
_WHY = {
    "withdrawn": "a person corrected it",
    "forgotten": "a person had it forgotten",
    "replaced": "somebody said otherwise",
    "revision": "another revision reads it otherwise",
}  # that a fact is believed no more


@dataclass(frozen=True, slots=True)
class BelievedState:
    """What was believed for a time, and which fact takes the word that restores it."""

    fact: ChainedFactRow
    sentence: str
    since: datetime
    until: datetime | None
    why: str  # it ended
    restored_by: str | None  # the fact itself, which is taken back, or the one that is corrected; None for neither


async def show_facts(page: PageRequest) -> Response:
    """List the facts that a filter lets through."""
    database, viewer = page.database, page.viewer
    filters = page.read_filter(*FILTERS)
    for name, values in (("kind", KINDS), ("trust", TRUST)):
        if filters[name] not in (None, *values):
            raise UsageError(f"{name} is one of: {', '.join(values)}")
    of = f"facts {filters}"
    days = {name: _parse_day(filters[name]) for name in ("as_of", "valid_at")}
    selected = make_filter(FactFilter, filters | days, page.read_cursor(of, *facts.FACT_POSITION))
    rows = await facts.list_facts(database, selected, viewer=viewer)
    first = await find_first_fact(database, viewer=viewer)
    return page.show(
        "memory/facts.html",
        filters=filters,
        kinds=KINDS,
        trusts=TRUST,
        first_day=None if first is None else first.date(),
        **page.list_values(of, rows, rows.position),
    )


async def show_memory(page: PageRequest) -> Response:
    """Show a fact or a statement by its id: what it rests on, and what a person can do; lead on to what else it is."""
    database, viewer = page.database, page.viewer
    explanation = await explain(database, page.path_params["memory_id"], viewer=viewer)
    if explanation["kind"] in ("procedure", "solution"):  # each has a page of its own
        return redirect(f"/{explanation['kind']}s/{quote(explanation['row'].id, safe='')}")
    before, row = None, explanation["row"]
    chain = await load_fact_chain(database, row, viewer=viewer) if isinstance(row, FactRow) else None
    if explanation["kind"] == "fact" and (corrected := page.query_params.get("corrected")):
        replaced = (await explain(database, corrected, viewer=viewer))["row"]
        if isinstance(replaced, FactRow) and replaced.superseded_by == explanation["row"].id:
            before = replaced
    evidence = explanation["evidence"][:QUOTES]
    return page.show(
        "memory/memory.html",
        memory=explanation,
        proofs=list(zip(evidence, await find_places(database, evidence, viewer=viewer), strict=True)),
        row=row,
        before=before,
        is_accepted=page.query_params.get("accepted") == "1",
        is_rejected=explanation["kind"] == "candidate" and row.rejected == facts.REJECTED,
        chain=chain,
        states=[] if chain is None else list_states(chain),
    )


def list_states(chain: FactChain) -> list[BelievedState]:
    """Return what was believed one after the other, in the order of time."""
    current = next((fact.id for fact in reversed(chain.facts) if fact.superseded_at is None), None)
    states = []
    for fact in chain.facts:
        since = fact.recorded_at
        versions = chain.versions[fact.id]
        sentences = [*(each.sentence for each in versions), fact.sentence]
        for version, next_sentence in zip(versions, sentences[1:], strict=True):
            if version.sentence != next_sentence:
                states.append(
                    BelievedState(fact, version.sentence, since, version.until, "read otherwise since", current)
                )
                since = version.until
        why = _WHY.get("withdrawn" if fact.is_withdrawn and fact.superseded_by else fact.superseded_reason or "", "")
        restored_by = fact.id if fact.is_withdrawn else current
        states.append(BelievedState(fact, fact.sentence, since, fact.superseded_at, why, restored_by))
    return sorted(states, key=lambda state: (state.since, state.until is None))


async def forget(page: PageRequest) -> Response:
    """Stop believing a fact, or telling a lesson."""
    forgotten = await remember.forget(page.database, page.path_params["memory_id"], viewer=page.viewer)
    return go_back(page, f"/memory/{forgotten.id}", "forgotten", forgotten.id)


async def correct(page: PageRequest) -> Response:
    """Put a sentence in place of a fact or a lesson."""
    replaced = page.path_params["memory_id"]
    fact = await remember.correct(page.database, replaced, page.form_fields.get("text", ""), viewer=page.viewer)
    is_of_fact = fact.id != replaced and not replaced.startswith(LESSON_PREFIX)
    corrected = f"?corrected={replaced}" if is_of_fact else ""
    return go_back(page, f"/memory/{fact.id}{corrected}", "corrected", fact.id)


async def undo(page: PageRequest) -> Response:
    """Take back that a fact was forgotten or corrected."""
    fact = await facts.undo_change(page.database, page.path_params["memory_id"], viewer=page.viewer)
    return go_back(page, f"/memory/{fact.id}", "restored", "")


def _parse_day(text: str | None) -> datetime | None:
    """Return the end of a day "2026-03-01", or a moment in ISO form; UTC without a zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text if len(text) > 10 else f"{text}T23:59:59")
    except ValueError:
        raise UsageError(f"{text!r} is no date such as 2026-03-01") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


FACTS = PageModule(
    Entry("/facts", "Facts"),
    (
        route("/facts", show_facts),
        route("/memory/{memory_id}/forget", forget, methods=["POST"]),
        route("/memory/{memory_id}/correct", correct, methods=["POST"]),
        route("/memory/{memory_id}/undo", undo, methods=["POST"]),
        route("/memory/{memory_id}", show_memory),
    ),
    also=("/memory",),
)
PROPOSALS = 20  # on a page


async def show_rules(page: PageRequest) -> Response:
    """List the proposals."""
    database, viewer = page.database, page.viewer
    filters = page.read_filter("agent", "project")
    of = f"rules {filters}"
    proposals = await rules.list_rules(
        database,
        agent=filters["agent"],
        project=filters["project"],
        after=page.read_cursor(of, *rules.RULE_POSITION),
        limit=PROPOSALS,
        viewer=viewer,
    )
    return page.show(
        "memory/rules.html",
        filters=filters,
        **page.list_values(of, proposals, proposals.position),
    )


async def accept(page: PageRequest) -> Response:
    """Believe a proposal as a rule, in a person's words."""
    form = page.form_fields
    fact = await rules.accept_rule(
        page.database,
        page.path_params["rule_id"],
        words=form.get("words", "").strip() or None,
        everywhere=form.get("everywhere") == "1",
        viewer=page.viewer,
    )
    return redirect(f"/memory/{fact.id}")


async def dismiss(page: PageRequest) -> Response:
    """Propose something no more."""
    await rules.dismiss_rule(page.database, page.path_params["rule_id"], viewer=page.viewer)
    return go_back(page, "/rules", "dismissed", "")


RULES = PageModule(
    Entry("/rules", "Rules"),
    (
        route("/rules", show_rules),
        route("/rules/{rule_id}/accept", accept, methods=["POST"]),
        route("/rules/{rule_id}/dismiss", dismiss, methods=["POST"]),
    ),
)
