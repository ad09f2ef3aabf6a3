"""consolidator state: what a session's tools have set, and what the session adds up to."""

from __future__ import annotations

import json

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, format_usd, print_json, print_line, print_table
from consolidator.service.sessions.state import SessionState, read_state


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("state")(state_command)


def state_command(session: SessionName, as_json: AsJson = False) -> None:
    """Show a session's state: the sum of its tools' changes, its open task, its totals."""

    async def work() -> SessionState:
        async with open_configured() as (database, _):
            return await read_state(database, session)

    state = run_async(work())
    if as_json:
        print_json(state)
        return
    print_state(state)
    print_line(
        f"{state.turns} turns, {state.input_tokens:,} tokens in ({state.cached_tokens:,} cached), "
        f"{state.output_tokens:,} out, {format_usd(state.cost)}, {state.compactions} compactions, at event {state.seq}",
        "dim",
    )


def print_state(state: SessionState) -> None:
    """Print what tools have set, and the open task."""
    rows = ((name, json.dumps(value, ensure_ascii=False, default=str)) for name, value in state.state.items())
    print_table("state", ("name", "value"), rows)
    if state.open_task is not None:
        print_line(f"working at: {state.open_task.title}")
