"""consolidator session wake: sessions that a crash interrupted go on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import run
from consolidator.cli.output import emit, table
from consolidator.errors import ModelError, UsageError
from consolidator.runtime.live.driver import DUE_OUTCOMES
from consolidator.runtime.turn.wake import WakeResult, find_row
from consolidator.service.database import Database
from consolidator.service.sessions.access import find_session_id
from consolidator.settings import Settings

_WOKEN = table(
    "woken",
    "session=session_id, recovery, outcome, >calls run",
    recovery=lambda woken: woken.recovery and f"{woken.recovery.state}: {woken.recovery.action}",
    outcome=lambda woken: _outcome(woken),
    calls_run=lambda woken: woken.result.executed_tool_count if woken.result else 0,
)


def wake_command(
    session: Annotated[str | None, typer.Argument(help="A session's id, or its beginning.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every session with an open call, answer or message.")
    ] = False,
    *,
    driver: ToolOptions,
) -> None:
    """Finish what a crash left open: calls, answers, messages; say what the log ended in, and what is done about it.

    A session that another process drives is left to it; so is one with tools that are not given here.
    """
    if (session is None) == (not everything):
        raise UsageError("name a session, or say --all")

    async def wake(database: Database, settings: Settings) -> list[WakeResult]:
        async with driver.open_agent(database, settings) as agent:
            if session is None:
                return await agent.wake_all()
            session_id = await find_session_id(database, session)
            recovery = await find_row(agent.harness, session_id)
            return [WakeResult(session_id, await agent.wake(session_id), recovery=recovery)]

    results = run(wake)
    emit(results, _WOKEN, encode=lambda results: [_describe(woken) for woken in results])
    failed = [woken.session_id for woken in results if woken.result and woken.result.finish_reason == "error"]
    if failed:
        raise ModelError(
            f"the model did not answer in {', '.join(failed)}; `consolidator session events SESSION` shows why"
        )


def _describe(woken: WakeResult) -> dict[str, Any]:
    json: dict[str, Any] = {"session": woken.session_id, "left": woken.skip_reason}
    if woken.result is not None:
        json |= {"to_seq": woken.result.to_seq, "finish_reason": woken.result.finish_reason}
        json |= {"executed_tool_count": woken.result.executed_tool_count}
    if woken.recovery is not None:
        json |= asdict(woken.recovery)
    return json


def _outcome(woken: WakeResult) -> str:
    if woken.result is None:
        return f"left alone: {woken.skip_reason}"
    return DUE_OUTCOMES.get(woken.result.finish_reason, woken.result.finish_reason)
