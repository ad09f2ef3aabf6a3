"""consolidator wake, approve, deny, resolve: sessions go on after a crash, and a person's word on a call."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Annotated, Any, Literal

import typer

from consolidator.cli.common import opened, run
from consolidator.cli.output import AsJson, emit, say, short, table
from consolidator.cli.tool_file import tools_in
from consolidator.database import Database
from consolidator.errors import ConsolidatorError, ModelError, UsageError
from consolidator.runtime import sessions as people
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.tools.mcp_servers import tools_of
from consolidator.runtime.wake import Woken
from consolidator.settings import Settings
from consolidator.store.log import sessions

log = logging.getLogger("consolidator.runtime")
Tools = Annotated[list[str], typer.Option("--tools", metavar="FILE", help="Python file with @tool functions; repeat.")]
Mcp = Annotated[list[str], typer.Option("--mcp", metavar="COMMAND", help="MCP server whose tools it may use; repeat.")]
CallId = Annotated[str, typer.Argument(metavar="CALL", help="A call, by its id.")]
SAID = {"stop": "answered", "approval": "waits for a person", "idle": "nothing was open"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("wake")(wake_command)
    app.command("approve")(approve_command)
    app.command("deny")(deny_command)
    app.command("resolve")(resolve_command)


def wake_command(
    session: Annotated[str | None, typer.Argument(help="A session's id, or its beginning.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every session in which something is open.")] = False,
    tools: Tools = [],  # noqa: B006 - typer copies it
    mcp: Mcp = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Go on with what a crash left open: calls, answers, messages. What cron or a service unit runs.

    A session that another process drives is left to it; so is one with tools that are not given here.
    """
    if (session is None) == (not everything):
        raise UsageError("name a session, or say --all")

    async def work() -> list[Woken]:
        async with AsyncExitStack() as stack:
            database, settings = await stack.enter_async_context(opened())
            found = [one for name in tools for one in tools_in(name)]
            found += await stack.enter_async_context(tools_of(mcp))
            agent = await stack.enter_async_context(Consolidator(found, settings=settings, database=database))
            if session is None:
                return await agent.wake_all()
            async with database.connection() as conn:
                name = await sessions.find(conn, session)
            return [Woken(name, await agent.wake(name))]

    _tell(run(work()), as_json=as_json)


def _tell(woken: list[Woken], *, as_json: bool) -> None:
    if as_json:
        emit([_row(one) for one in woken])
    else:
        told = ((one.session_id, _outcome(one), one.result.executed_tool_count if one.result else 0) for one in woken)
        table("woken", ("session", "outcome", "calls run"), told, right=("calls run",))
    failed = [one.session_id for one in woken if one.result and one.result.finish_reason == "error"]
    if failed:
        raise ModelError(f"the model did not answer in {', '.join(failed)}; `consolidator events SESSION` says why")


def _row(one: Woken) -> dict[str, Any]:
    told: dict[str, Any] = {"session": one.session_id, "left": one.left}
    if one.result is not None:
        told |= {"to_seq": one.result.to_seq, "finish_reason": one.result.finish_reason}
        told |= {"executed_tool_count": one.result.executed_tool_count}
    return told


def _outcome(one: Woken) -> str:
    if one.result is None:
        return f"left alone: {one.left}"
    return SAID.get(one.result.finish_reason, one.result.finish_reason)


def approve_command(call: CallId) -> None:
    """Allow a call that waits for it; the session goes on at its next wake."""
    _decide(call, allow=True, reason=None)


def deny_command(
    call: CallId, reason: Annotated[str | None, typer.Option(help="What the model is told of why.")] = None
) -> None:
    """Deny a call that waits to be allowed; the model is told, and goes on at the session's next wake."""
    _decide(call, allow=False, reason=reason)


def _decide(call: str, *, allow: bool, reason: str | None) -> None:
    async def work() -> str:
        async with opened() as (database, _):
            return await people.decide(database, call, allow=allow, reason=reason)

    session = run(work())
    say(f"{'allowed' if allow else 'denied'}; `consolidator wake {session}` goes on with it")


def resolve_command(
    call: CallId, outcome: Annotated[str, typer.Argument(metavar="ok|failed", help="How it went.")]
) -> None:
    """Say how a call went of which nobody knows: its process died before the result was recorded."""
    if outcome not in ("ok", "failed"):
        raise UsageError(f"{outcome!r} is no outcome: ok or failed")
    how: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"

    async def work() -> str:
        async with opened() as (database, _):
            return await people.resolve(database, call, how)

    say(f"noted in session {run(work())}: the model reads it at its next turn")


def attention(limit: int, *, as_json: bool) -> None:
    """Print the calls that wait for a person's word."""

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _):
            found = await people.attention(database, limit=limit)
        return [
            {"session": row["id"], "key": row["key"], "call": call, **asked}
            for row in found for call, asked in row["attention"].items()
        ]  # fmt: skip

    found = run(work())
    if as_json:
        emit(found)
        return
    columns = ("call", "waits for", "tool", "arguments", "session", "key")
    waits = {"approval": "approve or deny", "uncertain": "resolve ok or failed"}
    told = (
        (one["call"], waits[one["kind"]], one["tool"], short(one.get("arguments"), 60), one["session"], one["key"])
        for one in found
    )
    table("calls that wait for a person", columns, told)


async def wake_at_start(database: Database, settings: Settings) -> None:
    """Wake what a crash left open, where there is a model to go on with."""
    if settings.model is None:
        return
    try:
        async with Consolidator(settings=settings, database=database) as agent:
            for one in await agent.wake_all():
                log.info("session %s: %s", one.session_id, _outcome(one))
    except ConsolidatorError as error:
        log.warning("sessions could not be woken: %s", error)
