"""consolidator chat: a conversation in the terminal that survives its process."""

from __future__ import annotations

import getpass
import logging
import os
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.agents.terminal_chat import TerminalChat
from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, open_tools
from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import progress_bar
from consolidator.cli.stdin import StdinLines
from consolidator.errors import UsageError
from consolidator.runtime.agent import Consolidator
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.memory.recall import recall_for_message
from consolidator.settings import load_settings

Key = Annotated[str | None, typer.Option("--key", help="Key of the session: agent:channel:peer; else main:cli:YOU.")]
Model = Annotated[str | None, typer.Option(help="The model, for this session from now on.")]
System = Annotated[str | None, typer.Option(help="The system prompt.")]
Strategy = Annotated[str | None, typer.Option(help=f"What the model sees of it from now on: {', '.join(STRATEGIES)}.")]
Cap = Annotated[float | None, typer.Option("--max-cost", min=0, help="Cap on the cost of the session, in USD.")]
Memory = Annotated[bool, typer.Option(help="Show the model what memory knows about each message.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)


def chat(
    key: Key = None,
    tools: ToolFiles = [],  # noqa: B006 - typer copies it
    mcp: McpServers = [],  # noqa: B006
    mcp_config: McpConfig = None,
    builtin: BuiltinTools = [],  # noqa: B006
    model: Model = None,
    system: System = None,
    strategy: Strategy = None,
    max_cost: Cap = None,
    memory: Memory = True,
) -> None:
    """Talk with an agent. Stop it in any way, even with kill -9: the next start resumes it.

    What you type while it works steers it. /help lists what else you can do: /new, /sessions, /switch, /history ...
    """

    if not (model or load_settings().model):
        raise UsageError(
            "no model: set CONSOLIDATOR_MODEL or use --model; docs/sessions.md shows how to try it without one"
        )

    async def work() -> None:
        lines = StdinLines()
        async with AsyncExitStack() as stack:
            with progress_bar("starting the database"):  # the first start creates it, which takes some seconds
                database, settings = await stack.enter_async_context(open_configured())
            if "log_level" not in settings.model_fields_set:  # log lines would disturb the conversation
                logging.getLogger("consolidator").setLevel(logging.WARNING)
            chat = TerminalChat(lines, model=model, system=system, strategy=strategy, max_cost=max_cost)
            toolbox = await stack.enter_async_context(open_tools(tools, mcp, mcp_config, builtin))
            recall = partial(recall_for_message, database, settings) if memory else None
            agent = Consolidator(
                map(chat.announce_calls, toolbox), settings=settings, database=database, recall=recall, surface="chat"
            )
            await stack.enter_async_context(agent)
            await chat.run(agent, f"main:cli:{user_name()}" if key is None else key)

    run_async(work())


def user_name() -> str:
    """Return the name of the person at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the machine does not know its user
        return Path(os.environ.get("HOME", "")).name or "user"
