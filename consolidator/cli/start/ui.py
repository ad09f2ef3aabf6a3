"""consolidator ui and mcp: memory in a browser, and for other agents over standard input and output."""

from __future__ import annotations

import socket
import sys
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from consolidator.cli.common import (
    OwnerOptions,
    open_configured,
    read_settings,
    run_async,
    run_configured,
    stop_on_signals,
)
from consolidator.cli.output import emit, print_note
from consolidator.errors import UsageError
from consolidator.models.principal import check_name
from consolidator.models.viewer import OWNER_NAME
from consolidator.service.address import find_service, listen, local_address
from consolidator.service.credentials import check_narrowing, load_token, make_viewer, parse_scopes
from consolidator.service.database import Database
from consolidator.settings import Settings
from consolidator.ui.logins import make_code


def ui_command(browser: Annotated[bool, typer.Option(help="Open the link in a browser, too.")] = True) -> None:
    """Open memory in a browser: a link that works once, for five minutes.

    Where `consolidator serve` runs it is that service's page; else this command serves it until Ctrl-C.
    """
    settings = read_settings()
    if address := find_service(settings):
        _show_link(settings, address, browser=browser)
        return
    run_async(_serve_page(settings, browser=browser))


async def _serve_page(settings: Settings, *, browser: bool) -> None:
    from consolidator.ui.app import serve_page  # a second of loading

    stop = stop_on_signals()
    with _listen(settings) as listener:
        port = listener.getsockname()[1]
        async with open_configured() as (database, _):

            def show_link() -> None:
                address = local_address(settings.http_host, port)
                _show_link(settings, address, browser=browser)
                print_note("this serves the page: Ctrl-C ends it")

            await serve_page(database, settings, listener, stop, show_link)


def _listen(settings: Settings) -> socket.socket:
    """Return a listening socket at the service's address, or at a free port where that is taken or turned off."""
    try:
        return listen(settings.http_host, settings.health_port)
    except UsageError:
        return listen(settings.http_host, 0)


def _show_link(settings: Settings, address: str, *, browser: bool) -> None:
    link = f"{address}/ui/login?" + urlencode({"code": make_code(load_token(settings.home))})
    emit({"url": link}, link)
    sys.stdout.flush()  # a program that started this waits for the line
    if browser and not webbrowser.open(link):
        print_note("no browser opened: open the link in one, within five minutes")


def mcp_command(
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, record, write or admin, each given once. Without it: read and record."),
    ] = None,
    *,
    owner: OwnerOptions,
    client: Annotated[str, typer.Option(help="The name under which its records are kept.")] = OWNER_NAME,
) -> None:
    """Serve memory over MCP on standard input and output, for Claude Code, Codex, Cursor and others to start.

    Tools: recall, lookup_error, suggest_next, list_procedures, learned, explain, remember, forget, record_events. They
    are about the project of the client's roots, else of this place. `serve` offers the same over HTTP at /mcp, behind
    the token in CONSOLIDATOR_HOME or one of `consolidator token`.
    """

    from consolidator.mcp_server import build_server  # a second of loading, which no other command has to wait for

    check_narrowing(**owner.values())
    scopes = parse_scopes(scope or ("read", "record"))
    name = check_name(client)

    async def serve(database: Database, settings: Settings) -> None:
        viewer = await make_viewer(database, name, scopes, **owner.values())
        server = build_server(database, settings, scopes, lambda: viewer, directory=Path.cwd())
        await server.run_stdio_async()

    run_configured(serve)
