"""consolidator chat: a conversation in the terminal that outlives its process. What is typed meanwhile steers it."""

from __future__ import annotations

import getpass
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import opened, run
from consolidator.cli.conversation import TerminalChat
from consolidator.cli.output import progress
from consolidator.cli.stdin import Typed
from consolidator.cli.tool_file import tools_in
from consolidator.context.build import STRATEGIES
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.harness import Recall
from consolidator.runtime.tools.mcp_servers import tools_of
from consolidator.service import recall as recall_service
from consolidator.settings import Settings, load_settings
from consolidator.store.queries import Row

Key = Annotated[str | None, typer.Option("--key", help="Whose session: agent:channel:peer; else main:cli:YOU.")]
Tools = Annotated[list[str], typer.Option("--tools", metavar="FILE", help="Python file with @tool functions; repeat.")]
Mcp = Annotated[list[str], typer.Option("--mcp", metavar="COMMAND", help="MCP server whose tools it may use; repeat.")]
Model = Annotated[str | None, typer.Option(help="The model, for this session from now on.")]
System = Annotated[str | None, typer.Option(help="What the model is told first.")]
Strategy = Annotated[str | None, typer.Option(help=f"What of it the model sees from now on: {', '.join(STRATEGIES)}.")]
Cap = Annotated[float | None, typer.Option("--max-cost", min=0, help="What the session may cost at most, in USD.")]
Memory = Annotated[bool, typer.Option(help="Show the model what memory knows of each message.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)


def chat(
    key: Key = None,
    tools: Tools = [],  # noqa: B006 - typer copies it
    mcp: Mcp = [],  # noqa: B006
    model: Model = None,
    system: System = None,
    strategy: Strategy = None,
    max_cost: Cap = None,
    memory: Memory = True,
) -> None:
    """Talk with an agent. Stop it in any way, even with kill -9: the next start goes on where it was.

    What you type while it works steers it. /help lists what else you can do: /new, /sessions, /switch, /history ...
    """

    if not (model or load_settings().model):
        raise UsageError("no model: set CONSOLIDATOR_MODEL or say --model; docs/chat.md tries it without one")

    async def work() -> None:
        typed = Typed()
        async with AsyncExitStack() as stack:
            with progress("starting the database"):  # the very first time it is made, which takes some seconds
                database, settings = await stack.enter_async_context(opened())
            if "log_level" not in settings.model_fields_set:  # notes on how it works are no part of a conversation
                logging.getLogger("consolidator").setLevel(logging.WARNING)
            talk = TerminalChat(typed, model=model, system=system, strategy=strategy, max_cost=max_cost)
            found = [one for name in tools for one in tools_in(name)]
            found += await stack.enter_async_context(tools_of(mcp))
            recall = remembered(database, settings) if memory else None
            agent = Consolidator(map(talk.announced, found), settings=settings, database=database, recall=recall)
            await stack.enter_async_context(agent)
            await talk.begin(agent, f"main:cli:{user()}" if key is None else key)

    run(work())


def user() -> str:
    """Return the name of the person at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # of a machine that does not know its user
        return Path.home().name or "user"


def remembered(database: Database, settings: Settings) -> Recall:
    """Return what asks memory about a message: what this agent learned with this person."""

    async def recall(row: Row, text: str) -> str | None:
        scope = {name: row[name] for name in ("agent", "project", "peer")}
        found = await recall_service.recall(database, text, **scope, settings=settings)
        return found.block or None

    return recall
