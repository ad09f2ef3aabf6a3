"""consolidator ui: open the page of memory in a browser."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import sys
import urllib.request
import webbrowser
from typing import Annotated
from urllib.parse import urlencode

import typer

from consolidator.cli.common import open_configured, read_settings, run_async, stop_on_signals
from consolidator.cli.output import AsJson, print_json, print_line, print_note
from consolidator.errors import UsageError
from consolidator.service.bearer import load_token
from consolidator.settings import Settings
from consolidator.ui.logins import make_code, prove_token

ANSWER_SECONDS = 10.0
MAX_ANSWER_BYTES = 4096


def ui_command(
    browser: Annotated[bool, typer.Option(help="Open the link in a browser, too.")] = True, as_json: AsJson = False
) -> None:
    """Open memory in a browser: a link that works once, for five minutes.

    Where `consolidator serve` runs it is that service's page; else this command serves it until Ctrl-C.
    """
    settings = read_settings()
    if settings.health_port and (address := _find_page(settings, settings.health_port)):
        _show_link(settings, address, browser=browser, as_json=as_json)
        return
    run_async(_serve_page(settings, browser=browser, as_json=as_json))


async def _serve_page(settings: Settings, *, browser: bool, as_json: bool) -> None:
    from consolidator.ui.standalone import serve_page  # a second of loading

    stop = stop_on_signals()
    with _listen(settings) as listener:
        port = listener.getsockname()[1]
        async with open_configured() as (database, _):

            def show_link() -> None:
                address = _local_address(settings.http_host, port)
                _show_link(settings, address, browser=browser, as_json=as_json)
                print_note("this serves the page: Ctrl-C ends it")

            await serve_page(database, settings, listener, stop, show_link)


def _listen(settings: Settings) -> socket.socket:
    """Return a listening socket at the service's address, or at a free port where that is taken or turned off."""
    family = socket.AF_INET6 if ":" in settings.http_host else socket.AF_INET
    for port in (settings.health_port, 0):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.http_host, port))
            listener.listen()
        except OSError as error:
            listener.close()
            reason = error.strerror
        else:
            return listener
    raise UsageError(f"cannot listen on {settings.http_host}: {reason}; CONSOLIDATOR_HTTP_HOST sets the address")


def _find_page(settings: Settings, port: int) -> str | None:
    """Return the address of the page that is served at a port; None unless it is this data directory's."""
    address = _local_address(settings.http_host, port)
    challenge = secrets.token_urlsafe(16)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address}/ui/service?challenge={challenge}", timeout=ANSWER_SECONDS) as answer:
            proof = json.loads(answer.read(MAX_ANSWER_BYTES))["proof"]
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return None
    return address if proof == prove_token(load_token(settings.home), challenge) else None


def _local_address(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _show_link(settings: Settings, address: str, *, browser: bool, as_json: bool) -> None:
    link = f"{address}/ui/login?" + urlencode({"code": make_code(load_token(settings.home))})
    if as_json:
        print_json({"url": link})
    else:
        print_line(link)
    sys.stdout.flush()  # a program that started this waits for the line
    if browser and not webbrowser.open(link):
        print_note("no browser opened: open the link in one, within five minutes")
