"""consolidator spawn: give a task to a sub-agent of a session."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from ulid import ULID

from consolidator import Consolidator
from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, open_tools
from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line
from consolidator.errors import UsageError
from consolidator.service.amounts import parse_amount
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.spawning import ResultMode, SpawnRequest, SpawnResult, spawn


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("spawn")(spawn_command)


def spawn_command(
    session: SessionName,
    task: Annotated[str, typer.Argument(help="What to do, and what to answer with.")],
    context: Annotated[
        str | None, typer.Option(metavar="FILE", help="A text that it needs to know; - is standard input.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Its model; by default the routing policy chooses.")] = None,
    mode: Annotated[ResultMode, typer.Option(help="Its last answer, or all that it did.")] = "summary",
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of each of its answers.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Cap on its own cost, in USD.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="A tool it may use; repeat.")] = None,
    call: Annotated[str | None, typer.Option(help="Names the call: it has one sub-agent, also if repeated.")] = None,
    tools: ToolFiles = [],  # noqa: B006 - typer copies it
    mcp: McpServers = [],  # noqa: B006
    mcp_config: McpConfig = None,
    builtin: BuiltinTools = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Give a task to a sub-agent of a session, and print its answer. It sees nothing else of the session."""
    request = SpawnRequest(
        task=task, model=model, context=None if context is None else _read_text(context), tools=only, mode=mode,
        max_tokens=max_tokens, max_cost=None if max_cost is None else parse_amount(max_cost),
    )  # fmt: skip

    async def work() -> SpawnResult:
        async with AsyncExitStack() as stack:
            database, settings = await stack.enter_async_context(open_configured())
            toolbox = await stack.enter_async_context(open_tools(tools, mcp, mcp_config, builtin))
            agent = await stack.enter_async_context(Consolidator(toolbox, settings=settings, database=database))
            session_id = await find_session_id(database, session)
            return await spawn(agent.harness, session_id, request, call_id=call or f"spawn_{ULID()}")

    result = run_async(work())
    if as_json:
        print_json(result)
    else:
        print_line(result.text or str(result.reason))
        print_line(f"{result.status}: session {result.session_id}, {result.cost:f} USD", "dim")


def _read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
