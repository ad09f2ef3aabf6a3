"""consolidator replay: what a session's people saw, again."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json_line, sanitize
from consolidator.cli.streams import write_now
from consolidator.runtime.agent_session import VOID_NOTICE
from consolidator.service.agents.replay import replay_session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay_command)


def replay_command(
    session: SessionName,
    channel: Annotated[str | None, typer.Option(help="What this channel was shown; else the session's own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show again what a session's people saw, from the log; with --json piece by piece, byte for byte."""

    async def work() -> None:
        async with open_configured() as (database, _):
            answering, message_id = False, None
            async for item in replay_session(database, session, channel=channel):
                if as_json:
                    print_json_line(item.as_json())
                elif item.kind == "user":
                    write_now(("\n" if answering else "") + f"> {sanitize(item.text)}\n")
                elif item.kind == "void":
                    write_now(VOID_NOTICE + sanitize(item.text))
                else:
                    between = answering and message_id != item.message_id
                    write_now(("\n" if between else "") + sanitize(item.text))
                answering, message_id = item.kind != "user", item.message_id
            if answering and not as_json:
                write_now("\n")

    run_async(work())
