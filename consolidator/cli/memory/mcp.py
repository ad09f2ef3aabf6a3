"""consolidator mcp: memory for other agents, over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import run
from consolidator.cli.options import OwnerOptions
from consolidator.models.principal import check_name
from consolidator.service.credentials import check_narrowing, make_viewer, parse_scopes
from consolidator.service.database import Database
from consolidator.service.viewer import OWNER_NAME
from consolidator.settings import Settings


def mcp_command(
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, record, write or admin, each given once. Without it: read and record."),
    ] = None,
    *,
    owner: OwnerOptions,
    client: Annotated[str, typer.Option(help="The name under which its records are kept.")] = OWNER_NAME,
) -> None:
    """Serve memory over MCP on standard input and output, for Claude Code, Codex, Cursor and others to start.

    Tools: recall, lookup_error, suggest_next, list_procedures, learned, explain, remember, forget, record_events. They
    are about the project of the client's roots, else of this place. `serve` offers the same over HTTP at /mcp, behind
    the token in CONSOLIDATOR_HOME or one of `consolidator token`.
    """

    from consolidator.mcp_server import build_server  # a second of loading, which no other command has to wait for

    check_narrowing(**owner.values())
    scopes = parse_scopes(scope or ("read", "record"))
    name = check_name(client)

    async def serve(database: Database, settings: Settings) -> None:
        viewer = await make_viewer(database, name, scopes, **owner.values())
        server = build_server(database, settings, scopes, lambda: viewer, directory=Path.cwd())
        await server.run_stdio_async()

    run(serve)
