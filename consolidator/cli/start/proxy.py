"""consolidator proxy: an endpoint in front of a model's server, for agents that leave no logs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import PlaceOption, open_configured, run_async, stop_on_signals
from consolidator.cli.output import emit, print_note
from consolidator.models.principal import check_name
from consolidator.runtime.session.agent_defaults import parse_amount
from consolidator.service.address import listen, local_address
from consolidator.service.log.exchanges import ExchangeLog
from consolidator.service.scope import find_place

_HOST = "127.0.0.1"


def proxy_command(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of this machine; 0 is a free one.")] = 8788,
    agent: Annotated[str, typer.Option(help="The name under which the sessions are kept.")] = "proxy",
    project: PlaceOption = None,
    openai: Annotated[str, typer.Option(metavar="URL", help="The server behind /v1.")] = "https://api.openai.com",
    anthropic: Annotated[
        str, typer.Option(metavar="URL", help="The server behind /v1/messages.")
    ] = "https://api.anthropic.com",
    brief: Annotated[bool, typer.Option("--brief", help="Tell each conversation what memory knows here.")] = False,
    max_cost_usd: Annotated[str | None, typer.Option(help="What all calls of a day may cost.")] = None,
) -> None:
    """Stand before a model's server: each chat completion and message becomes a session in the log, until Ctrl-C.

    Point an agent's base URL here. Keys go through and are kept nowhere; the nights learn from the sessions.
    """
    cap = None if max_cost_usd is None else parse_amount(max_cost_usd)
    run_async(_serve(port, check_name(agent), project, (openai, anthropic), brief=brief, cap=cap))


async def _serve(
    port: int, agent: str, project: str | None, servers: tuple[str, str], *, brief: bool, cap: Decimal | None
) -> None:
    from consolidator.integrations.proxy import Proxy, create_app, create_client  # a second of loading
    from consolidator.ui.app import serve_app

    stop = stop_on_signals()
    with listen(_HOST, port) as listener:
        address = local_address(_HOST, listener.getsockname()[1])
        async with open_configured() as (database, _), create_client() as client:
            place = await find_place(database, project, Path.cwd())
            exchanges = ExchangeLog(database, agent, place, cap)
            proxy = Proxy(exchanges, client, *servers, tells_brief=brief, hosts=())

            def opened() -> None:
                emit({"url": address}, f"OPENAI_BASE_URL={address}/v1\nANTHROPIC_BASE_URL={address}")
                print_note("exchanges are recorded: Ctrl-C ends it")

            await serve_app(create_app(proxy), listener, stop, opened)
