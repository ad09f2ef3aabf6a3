"""consolidator summary: a session's summary as a prompt would hold it."""

from __future__ import annotations

from typing import Any

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line
from consolidator.service.memory.session_summary import summarize_session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("summary")(summary_command)


def summary_command(session: SessionName, as_json: AsJson = False) -> None:
    """Print a session's summary as a prompt would hold it: tools, errors, approvals, sub-agents."""

    async def work() -> dict[str, Any]:
        async with open_configured() as (database, _):
            return await summarize_session(database, session)

    summary = run_async(work())
    if as_json:
        print_json(summary)
    else:
        print_line(summary["text"])
