"""consolidator cost: what models cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_moment, run
from consolidator.cli.output import Limit, Table, emit, format_usd, print_line
from consolidator.models.session import SessionRow
from consolidator.service.agents.costs import COST_GROUPINGS, Cost, load_costs
from consolidator.service.database import Database
from consolidator.service.sessions.access import find_session_id, load_session
from consolidator.settings import Settings

_COLUMNS: dict[str, str | Callable[[Cost], Any]] = {
    "calls": "calls",
    "input": "input_tokens",
    "cached": "cached_tokens",
    "output": "output_tokens",
    "USD": lambda cost: _known_cost(cost),
    "set aside": lambda cost: _amount(cost.set_aside) if cost.set_aside else "",
    "cheap": lambda cost: "" if cost.cheap_share is None else f"{cost.cheap_share:.0%}",
}


def cost_command(
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(COST_GROUPINGS)}.")] = "session",
    session: Annotated[
        str | None, typer.Option(help="Only this session (id or its beginning), its branches and sub-agents.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    limit: Limit = 50,
) -> None:
    """Show what models cost: tokens, the cached ones apart, US dollars, and how much went to a cheaper model."""

    async def load(database: Database, _: Settings) -> tuple[list[Cost], Cost, SessionRow | None]:
        row = await load_session(database, await find_session_id(database, session)) if session else None
        begin, session_id = parse_moment(since, database.clock.now()), row.id if row else None
        costs, total = await load_costs(database, by, session_id=session_id, agent=agent, limit=limit, since=begin)
        return costs, total, row

    costs, total, row = run(load)

    def show(costs: list[Cost]) -> None:
        _print_costs(by, costs, total)
        if row is not None and row.max_cost is not None:
            _print_cap(row.max_cost, row.cost, row.reserved)

    def encode(costs: list[Cost]) -> dict[str, Any]:
        return {"by": by, "costs": [cost.as_json() for cost in costs], "total": total.as_json()}

    emit(costs, show, encode=encode)


def _print_costs(by: str, costs: Sequence[Cost], total: Cost) -> None:
    Table("what models cost", {by: "name", **_COLUMNS}, right=tuple(_COLUMNS)).print([*costs, total])
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
