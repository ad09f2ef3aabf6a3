"""Names the route that does the same beside each command that an error advises: HTTP has no command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMMAND = re.compile(r"`consolidator ([^`]+)`")
ROUTES: Mapping[str, str] = {
    "agent show": "GET /v1/agents",
    "facts": "GET /v1/facts",
    "facts --all": "GET /v1/facts?include_superseded=true",
    "facts review": "GET /v1/facts/quarantined",
    "forget": "POST /v1/forget",
    "learned": "GET /v1/learned",
    "revisions": "GET /v1/revisions",
    "rules": "GET /v1/rules",
    "run": "POST /v1/runs",
    "runs": "GET /v1/runs",
    "session branch": "POST /v1/sessions/{id}/branch",
    "session checkpoint": "GET /v1/sessions/{id}/checkpoints",
    "session create": "POST /v1/sessions",
    "session list": "GET /v1/sessions",
    "session list --attention": "GET /v1/attention",
    "session replay": "GET /v1/sessions/{id}/events",
}  # by the beginning of the command


def find_route(command: str) -> str | None:
    """Return the route for a command, without its program's name; None for what only the machine's owner does there."""
    words = command.split()
    beginnings = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((ROUTES[beginning] for beginning in beginnings if beginning in ROUTES), None)


def name_routes(text: str) -> str:
    """Return an error's text with the route beside each command that it advises, unless it names the route itself."""

    def add(match: re.Match[str]) -> str:
        route = find_route(match[1])
        return match[0] if route is None or route in text else f"{match[0]} (here `{route}`)"

    return _COMMAND.sub(add, text)
