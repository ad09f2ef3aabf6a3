"""Rules: proposals from what people repeat; accept or dismiss them."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.service.memory import rules
from consolidator.ui.view import Entry, PageModule, PageRequest, go_back, redirect, route

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
        "rules.html",
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


PAGE = PageModule(
    Entry("/rules", "Rules"),
    (
        route("/rules", show_rules),
        route("/rules/{rule_id}/accept", accept, methods=["POST"]),
        route("/rules/{rule_id}/dismiss", dismiss, methods=["POST"]),
    ),
)
