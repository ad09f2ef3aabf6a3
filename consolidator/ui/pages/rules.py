"""Rules: proposals from what people repeat; accept or dismiss them, and see what a file of rules would hold."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.service.clients import rules_file
from consolidator.service.memory import rules
from consolidator.ui.view import (
    Entry,
    PageModule,
    list_values,
    read_cursor,
    read_filter,
    redirect,
    services_of,
    show_page,
    viewer_of,
)

PROPOSALS = 20  # on a page


async def show_rules(request: Request) -> Response:
    """List the proposals, and for a project its accepted rules with the difference that they make in its file."""
    database, viewer = services_of(request).database, viewer_of(request)
    filters = read_filter(request, "agent", "project")
    of = f"rules {filters}"
    proposals = await rules.list_rules(
        database,
        agent=filters["agent"],
        project=filters["project"],
        after=read_cursor(request, of, *rules.RULE_POSITION),
        limit=PROPOSALS,
        viewer=viewer,
    )
    accepted, diff = [], None
    if filters["project"] is not None:
        accepted = await rules.list_accepted_rules(
            database, project=filters["project"], agent=filters["agent"], viewer=viewer
        )
        diff = await rules_file.preview_rules(accepted)
    return show_page(
        request,
        "rules.html",
        filters=filters,
        accepted=accepted,
        diff=diff,
        **list_values(request, of, proposals, proposals.position),
    )


async def accept(request: Request) -> Response:
    """Believe a proposal as a rule, in a person's words."""
    form = request.state.form
    fact = await rules.accept_rule(
        services_of(request).database,
        request.path_params["rule_id"],
        words=form.get("words", "").strip() or None,
        everywhere=form.get("everywhere") == "1",
        viewer=viewer_of(request),
    )
    return redirect(f"/memory/{fact.id}")


async def dismiss(request: Request) -> Response:
    """Propose something no more."""
    await rules.dismiss_rule(services_of(request).database, request.path_params["rule_id"], viewer=viewer_of(request))
    return redirect("/rules")


PAGE = PageModule(
    Entry("/rules", "Rules"),
    (
        Route("/rules", show_rules),
        Route("/rules/{rule_id}/accept", accept, methods=["POST"]),
        Route("/rules/{rule_id}/dismiss", dismiss, methods=["POST"]),
    ),
)
