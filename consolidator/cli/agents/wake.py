"""consolidator wake: sessions that a crash interrupted go on."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, open_tools
from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_table
from consolidator.errors import ModelError, UsageError
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.live.driver import DUE_OUTCOMES
from consolidator.runtime.turn.wake import WakeResult
from consolidator.service.log.sessions import find_session_id


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wake")(wake_command)


def wake_command(
    session: Annotated[str | None, typer.Argument(help="A session's id, or its beginning.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every session in which something is open.")] = False,
    tools: ToolFiles = [],  # noqa: B006 - typer copies it
    mcp: McpServers = [],  # noqa: B006
    mcp_config: McpConfig = None,
    builtin: BuiltinTools = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Finish what a crash left open: calls, answers, messages. For cron or a service unit.

    A session that another process drives is left to it; so is one with tools that are not given here.
    """
    if (session is None) == (not everything):
        raise UsageError("name a session, or say --all")

    async def work() -> list[WakeResult]:
        async with AsyncExitStack() as stack:
            database, settings = await stack.enter_async_context(open_configured())
            toolbox = await stack.enter_async_context(open_tools(tools, mcp, mcp_config, builtin))
            agent = await stack.enter_async_context(Consolidator(toolbox, settings=settings, database=database))
            if session is None:
                return await agent.wake_all()
            session_id = await find_session_id(database, session)
            return [WakeResult(session_id, await agent.wake(session_id))]

    _print_results(run_async(work()), as_json=as_json)


def _print_results(results: list[WakeResult], *, as_json: bool) -> None:
    if as_json:
        print_json([_as_json(woken) for woken in results])
    else:
        print_table(
            "woken",
            ("session", "outcome", "calls run"),
            (
                (woken.session_id, _outcome(woken), woken.result.executed_tool_count if woken.result else 0)
                for woken in results
            ),
            right=("calls run",),
        )
    failed = [woken.session_id for woken in results if woken.result and woken.result.finish_reason == "error"]
    if failed:
        raise ModelError(f"the model did not answer in {', '.join(failed)}; `consolidator events SESSION` shows why")


def _as_json(woken: WakeResult) -> dict[str, Any]:
    json: dict[str, Any] = {"session": woken.session_id, "left": woken.skip_reason}
    if woken.result is not None:
        json |= {"to_seq": woken.result.to_seq, "finish_reason": woken.result.finish_reason}
        json |= {"executed_tool_count": woken.result.executed_tool_count}
    return json


def _outcome(woken: WakeResult) -> str:
    if woken.result is None:
        return f"left alone: {woken.skip_reason}"
    return DUE_OUTCOMES.get(woken.result.finish_reason, woken.result.finish_reason)
