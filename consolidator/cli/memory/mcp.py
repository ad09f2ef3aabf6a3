"""consolidator mcp: memory for other agents, over standard input and output."""

from __future__ import annotations

import typer

from consolidator.cli.common import open_configured, run_async


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp_command)


def mcp_command() -> None:
    """Serve memory over MCP on standard input and output, for Claude Code, Codex, Cursor and others to start.

    Tools: recall, lookup_error, suggest_next, list_procedures, explain, record_events. `serve` offers the same over
    HTTP at /mcp, behind the token in CONSOLIDATOR_HOME.
    """

    from consolidator.mcp_server import build_server  # a second of loading, which no other command has to wait for

    async def work() -> None:
        async with open_configured() as (database, settings):
            await build_server(database, settings).run_stdio_async()

    run_async(work())
