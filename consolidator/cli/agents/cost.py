"""consolidator cost: what models cost."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, parse_moment, run_async
from consolidator.cli.output import AsJson, Limit, format_usd, print_json, print_line, print_table
from consolidator.models.session import SessionRow
from consolidator.service.agents.costs import COST_GROUPINGS, Cost, load_costs
from consolidator.service.log.sessions import load_session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cost")(cost_command)


def cost_command(
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(COST_GROUPINGS)}.")] = "session",
    session: Annotated[
        str | None, typer.Option(help="Only this session (id or its beginning), its branches and sub-agents.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show what models cost: tokens, the cached ones apart, US dollars, and how much went to a cheaper model."""

    async def work() -> tuple[list[Cost], Cost, SessionRow | None]:
        async with open_configured() as (database, _):
            row = await load_session(database, session) if session else None
            costs, total = await load_costs(
                database,
                by,
                session_id=row.id if row else None,
                agent=agent,
                limit=limit,
                since=parse_moment(since, database.clock.now()),
            )
            return costs, total, row

    costs, total, row = run_async(work())
    if as_json:
        print_json({"by": by, "costs": [cost.as_json() for cost in costs], "total": total.as_json()})
        return
    _print_costs(by, costs, total)
    if row is not None and row.max_cost is not None:
        _print_cap(row.max_cost, row.cost, row.reserved)


def _print_costs(by: str, costs: Sequence[Cost], total: Cost) -> None:
    columns = (by, "calls", "input", "cached", "output", "USD", "set aside", "cheap")
    print_table(
        "what models cost",
        columns,
        (
            (
                cost.name,
                cost.calls,
                cost.input_tokens,
                cost.cached_tokens,
                cost.output_tokens,
                _known_cost(cost),
                _amount(cost.set_aside) if cost.set_aside else "",
                "" if cost.cheap_share is None else f"{cost.cheap_share:.0%}",
            )
            for cost in [*costs, total]
        ),
        right=columns[1:],
    )
    if total.unpriced:
        print_line(f"{total.unpriced} calls went to models with an unknown price: their cost is not included.", "dim")


def _print_cap(cap: Decimal, cost: Decimal, reserved: Decimal) -> None:
    left = cap - cost - reserved
    print_line(f"cap {_amount(cap)}: {_amount(cost)} spent, {_amount(reserved)} set aside, {_amount(left)} left")


def _known_cost(cost: Cost) -> str:
    """Return what is known of a cost."""
    if not cost.unpriced:
        return _amount(cost.cost)
    return f"{_amount(cost.cost)} + ?" if cost.cost else "?"


def _amount(amount: Decimal) -> str:
    return format_usd(amount).removeprefix("$")
