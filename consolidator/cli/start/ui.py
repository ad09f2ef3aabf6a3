"""consolidator ui: open the page of memory in a browser."""

from __future__ import annotations

import socket
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlencode

import typer

from consolidator.cli.common import open_configured, read_settings, run_async, stop_on_signals
from consolidator.cli.output import emit, print_note
from consolidator.errors import UsageError
from consolidator.service.address import find_service, listen, local_address
from consolidator.service.credentials import load_token
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
    from consolidator.ui.standalone import serve_page  # a second of loading

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
