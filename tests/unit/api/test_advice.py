"""Errors that advise a command name the route that does the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import consolidator
from consolidator.api.problems import ROUTES, describe, find_route, name_routes
from consolidator.errors import NotFound

# What only the owner of the machine does, there; texts that no error of a request has are among them.
OWNERS = ("agent", "backup", "db", "export", "install", "memory export", "run retention", "serve", "token")
ATTENTION = "consolidator session list --attention"
BOTH = "`POST /v1/sessions` or `consolidator session create`"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no run; `consolidator runs` lists them", "no run; `consolidator runs` (here `GET /v1/runs`) lists them"),
        (f"`{ATTENTION}`", f"`{ATTENTION}` (here `GET /v1/attention`)"),
        ("`consolidator forget ID`", "`consolidator forget ID` (here `POST /v1/forget`)"),
        ("`consolidator db verify` lists", "`consolidator db verify` lists"),
        (BOTH, BOTH),
        ("the consolidator sessions", "the consolidator sessions"),
    ],
)  # fmt: skip
def test_the_route_stands_beside_the_command(text: str, shown: str) -> None:
    assert name_routes(text) == shown
    assert describe(NotFound(text)) == shown


def test_every_command_that_an_error_advises_has_a_route_or_is_the_owners() -> None:
    advised = set()
    for room in ("service", "runtime", "store", "context"):
        for path in Path(consolidator.__file__).parent.joinpath(room).rglob("*.py"):
            advised |= set(re.findall(r"`consolidator ([^`]+)`", path.read_text(encoding="utf-8")))
    assert len(advised) > 15
    assert [command for command in advised if find_route(command) is None and not command.startswith(OWNERS)] == []


def test_the_routes_are_those_of_the_api() -> None:
    sources = Path(consolidator.__file__).parent.joinpath("api", "routes").glob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    declared = re.findall(r'@\w*router\.(get|post)\(\s*"([^"]+)"', re.sub(r"{\w+}", "{id}", text))
    served = {f"{method.upper()} /v1{path}" for method, path in declared}
    assert {route.partition("?")[0] for route in ROUTES.values()} <= served
