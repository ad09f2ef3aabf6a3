"""consolidator mcp: memory for other agents, over standard input and output."""

from __future__ import annotations

import typer

from consolidator.cli.common import opened, run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp_command)


def mcp_command() -> None:
    """Serve memory over MCP on standard input and output, for Claude Code, Codex, Cursor and others to start.

    Tools: recall, lookup_error, suggest_next, list_procedures, explain, record_events. `serve` offers the same over
    HTTP at /mcp, behind the token in CONSOLIDATOR_HOME.
    """

    from consolidator.mcp_server import build  # a second of loading, which no other command has to wait for

    async def work() -> None:
        async with opened() as (database, settings):
            await build(database, settings).run_stdio_async()

    run(work())
