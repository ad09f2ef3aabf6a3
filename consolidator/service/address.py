"""Where a home's service listens, and whether what answers there is this home's."""

from __future__ import annotations

import http.client
import json
import logging
import secrets
import socket
import urllib.request
from ipaddress import ip_address
from typing import Any

from consolidator.errors import UsageError
from consolidator.service.credentials import load_token, prove_token
from consolidator.settings import Settings

log = logging.getLogger("consolidator.serve")
ANSWER_SECONDS = 10.0
_MAX_ANSWER_BYTES = 4096
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, so that no other process can take the port; 0 is a free one.

    Raises UsageError where another process has it, or the host is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY; else the next small piece waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        advice = "CONSOLIDATOR_HEALTH_PORT chooses another port, CONSOLIDATOR_HTTP_HOST another address"
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; {advice}") from error
    if not ip_address(host).is_loopback:
        log.warning("%s is reached from other machines, without encryption: put a proxy with TLS before it", host)
    return listener


def local_address(host: str, port: int) -> str:
    """Return the address at which this machine reaches a listening host and port."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def find_service(settings: Settings) -> str | None:
    """Return the address of the page that is served at the settings' port; None unless it is this home's.

    It proves that it has the home's token, which is not sent to it.
    """
    if not settings.health_port:
        return None
    address, challenge = local_address(settings.http_host, settings.health_port), secrets.token_urlsafe(16)
    try:
        proof = read_json(f"{address}/ui/service?challenge={challenge}")["proof"]
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return None
    return address if proof == prove_token(load_token(settings.home), challenge) else None


def read_json(address: str) -> Any:
    """Return what a service on this machine answers, past any proxy. Raises OSError, ValueError or HTTPException."""
    with _DIRECT.open(address, timeout=ANSWER_SECONDS) as answer:
        return json.loads(answer.read(_MAX_ANSWER_BYTES))
