"""consolidator mcp: memory for other agents, over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.models.principal import check_name
from consolidator.service.credentials import check_narrowing, make_viewer, parse_scopes
from consolidator.service.viewer import OWNER_NAME


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp_command)


def mcp_command(
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, record, write or admin, each given once. Without it: read and record."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's memory and sessions.")] = None,
    project: Annotated[str | None, typer.Option(help="Only this project's.")] = None,
    peer: Annotated[str | None, typer.Option(help="Only this person's.")] = None,
    client: Annotated[str, typer.Option(help="The name under which its records are kept.")] = OWNER_NAME,
) -> None:
    """Serve memory over MCP on standard input and output, for Claude Code, Codex, Cursor and others to start.

    Tools: recall, lookup_error, suggest_next, list_procedures, learned, explain, remember, forget, record_events. They
    are about the project of the client's roots, else of this place. `serve` offers the same over HTTP at /mcp, behind
    the token in CONSOLIDATOR_HOME or one of `consolidator token`.
    """

    from consolidator.mcp_server import build_server  # a second of loading, which no other command has to wait for

    check_narrowing(agent=agent, project=project, peer=peer)
    scopes = parse_scopes(scope or ("read", "record"))
    name = check_name(client)

    async def work() -> None:
        async with open_configured() as (database, settings):
            viewer = await make_viewer(database, name, scopes, agent=agent, project=project, peer=peer)
            server = build_server(database, settings, scopes, lambda: viewer, directory=Path.cwd())
            await server.run_stdio_async()

    run_async(work())
