"""consolidator chat: a conversation in the terminal that survives its process."""

from __future__ import annotations

import getpass
import logging
import os
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.agents.terminal_chat import TerminalChat
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import progress_bar
from consolidator.cli.stdin import StdinLines
from consolidator.errors import UsageError
from consolidator.runtime.agent import Consolidator
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.memory.recall import recall_for_message
from consolidator.settings import load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What the chat's session is run with."""

    model: Annotated[str | None, typer.Option(help="The model, for this session from now on.")] = None
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None
    strategy: Annotated[
        str | None, typer.Option(help=f"What the model sees of it from now on: {', '.join(STRATEGIES)}.")
    ] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="Cap on the cost of the session, in USD.")
    ] = None


def chat_command(
    *,
    key: Annotated[
        str | None, typer.Option("--key", help="Key of the session: agent:channel:peer; else main:cli:YOU.")
    ] = None,
    options: ChatOptions,
    driver: ToolOptions,
    memory: Annotated[bool, typer.Option(help="Show the model what memory has about each message.")] = True,
) -> None:
    """Talk with an agent. Stop it in any way, even with kill -9: the next start resumes it.

    What you type while it works steers it. /help lists what else you can do: /new, /sessions, /switch, /history ...
    """
    if not (options.model or load_settings().model):
        raise UsageError(
            "no model: set CONSOLIDATOR_MODEL or use --model; docs/sessions.md shows how to try it without one"
        )

    async def talk() -> None:
        lines = StdinLines()
        async with AsyncExitStack() as stack:
            with progress_bar("starting the database"):  # the first start creates it, which takes some seconds
                database, settings = await stack.enter_async_context(open_configured())
            if "log_level" not in settings.model_fields_set:  # log lines would disturb the conversation
                logging.getLogger("consolidator").setLevel(logging.WARNING)
            chat = TerminalChat(lines, **asdict(options))
            toolbox = await stack.enter_async_context(driver.open())
            recall = partial(recall_for_message, database, settings) if memory else None
            agent = Consolidator(
                map(chat.announce_calls, toolbox), settings=settings, database=database, recall=recall, surface="chat"
            )
            await stack.enter_async_context(agent)
            await chat.run(agent, f"main:cli:{user_name()}" if key is None else key)

    run_async(talk())


def user_name() -> str:
    """Return the name of the person at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the machine does not know its user
        return Path(os.environ.get("HOME", "")).name or "user"
