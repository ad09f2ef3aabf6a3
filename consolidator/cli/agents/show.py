"""consolidator session show: a session's row, its state, its summary, or the whole."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from consolidator.cli.common import SessionName, run
from consolidator.cli.output import emit, format_usd, print_line, print_table
from consolidator.service.sessions.state import SessionState, read_state, summarize_session


def show_command(
    session: SessionName,
    part: Annotated[
        Literal["details", "state", "summary", "whole"],
        typer.Option(
            help="details: its row; state: what its tools have set; summary: as a prompt would hold it; whole: its "
            "latest messages, notes, open calls, children and checkpoints at one moment."
        ),
    ] = "details",
    context: Annotated[bool, typer.Option(help="details: include the size of its next context.")] = True,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="whole: how many messages at most.")] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="whole: only messages before this event.")] = None,
) -> None:
    """Show a session: what it is for, what it is doing, its totals, its context's use, and what it began with."""
    if part == "state":
        emit(run(lambda database, _: read_state(database, session)), _print_state_and_totals)
    elif part == "summary":
        summary = run(lambda database, _: summarize_session(database, session))
        emit(summary, lambda summary: str(summary["text"]))
    elif part == "whole":
        from consolidator.cli.agents.session import show_whole  # it loads what builds contexts

        show_whole(session, before, limit)
    else:
        from consolidator.cli.agents.session import show_details

        show_details(session, with_context=context)


def _print_state_and_totals(state: SessionState) -> None:
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
