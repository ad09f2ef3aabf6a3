"""consolidator next: what usually follows where a session is now."""

from __future__ import annotations

import json
from typing import Any

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, Limit, print_json, print_line, print_table, shorten
from consolidator.service.memory.suggestions import suggest_next_calls


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("next")(next_command)


def next_command(session: SessionName, limit: Limit = 5, as_json: AsJson = False) -> None:
    """Show what usually follows in a session: the next call, its arguments filled in, with confidence."""

    async def work() -> list[dict[str, Any]]:
        async with open_configured() as (database, _):
            return await suggest_next_calls(database, session, limit=limit)

    suggestions = run_async(work())
    if as_json:
        print_json(suggestions)
        return
    if not suggestions:
        print_line("no prediction: too few sessions contain this sequence")
        return
    print_table(
        "what usually follows",
        ("call", "arguments", "likely", "sure", "why"),
        (
            (
                call["symbol"],
                shorten(json.dumps(call["arguments"], ensure_ascii=False), 120),
                f"{call['likelihood']:.0%}",
                f"{call['confidence']:.0%}",
                shorten(call["why"], 100),
            )
            for call in suggestions
        ),
        right=("likely", "sure"),
    )
