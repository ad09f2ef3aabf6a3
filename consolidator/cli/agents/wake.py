"""consolidator session wake and spawn: an agent with tools does what a session is waiting for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from ulid import ULID

from consolidator.cli.agents.say import read_text
from consolidator.cli.agents.session_options import MaxCost, Model, ToolNames
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import SessionName, run, run_in
from consolidator.cli.output import AsJson, Table, emit, print_line
from consolidator.database import Database
from consolidator.errors import ModelError, UsageError
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.driver import DUE_OUTCOMES
from consolidator.runtime.wake import WakeResult
from consolidator.service.amounts import parse_amount
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.spawning import ResultMode, SpawnRequest, SpawnResult, spawn
from consolidator.settings import Settings

_WOKEN = Table(
    "woken",
    {
        "session": "session_id",
        "outcome": lambda woken: _outcome(woken),
        "calls run": lambda woken: woken.result.executed_tool_count if woken.result else 0,
    },
    right=("calls run",),
)


@asynccontextmanager
async def _open_agent(driver: ToolOptions, database: Database, settings: Settings) -> AsyncIterator[Consolidator]:
    async with AsyncExitStack() as stack:
        tools = await stack.enter_async_context(driver.open())
        yield await stack.enter_async_context(Consolidator(tools, settings=settings, database=database))


def wake_command(
    session: Annotated[str | None, typer.Argument(help="A session's id, or its beginning.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every session with an open call, answer or message.")
    ] = False,
    *,
    driver: ToolOptions,
    as_json: AsJson = False,
) -> None:
    """Finish what a crash left open: calls, answers, messages. For cron or a service unit.

    A session that another process drives is left to it; so is one with tools that are not given here.
    """
    if (session is None) == (not everything):
        raise UsageError("name a session, or say --all")

    async def wake(database: Database, settings: Settings) -> list[WakeResult]:
        async with _open_agent(driver, database, settings) as agent:
            if session is None:
                return await agent.wake_all()
            session_id = await find_session_id(database, session)
            return [WakeResult(session_id, await agent.wake(session_id))]

    results = run(wake)
    emit(results, _WOKEN, as_json=as_json, encode=lambda results: [_describe(woken) for woken in results])
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
    return json


def _outcome(woken: WakeResult) -> str:
    if woken.result is None:
        return f"left alone: {woken.skip_reason}"
    return DUE_OUTCOMES.get(woken.result.finish_reason, woken.result.finish_reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """What a sub-agent knows and may use."""

    context: Annotated[
        str | None, typer.Option(metavar="FILE", help="A text that the sub-agent needs; - is standard input.")
    ] = None
    model: Model = None
    mode: Annotated[ResultMode, typer.Option(help="What it returns: its last answer, or a transcript.")] = "summary"
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of each of its answers.")] = None
    max_cost: MaxCost = None
    tool: ToolNames = None

    def to_request(self, task: str) -> SpawnRequest:
        """Return the request for a task. Raises UsageError."""
        return SpawnRequest(
            task=task,
            model=self.model,
            context=None if self.context is None else read_text(self.context),
            tools=self.tool,
            mode=self.mode,
            max_tokens=self.max_tokens,
            max_cost=None if self.max_cost is None else parse_amount(self.max_cost),
        )


def spawn_command(
    session: SessionName,
    task: Annotated[str, typer.Argument(help="What the sub-agent has to do, and what to answer with.")],
    *,
    options: SpawnOptions,
    call: Annotated[
        str | None, typer.Option(help="A name for this call: repeating it starts no second sub-agent.")
    ] = None,
    driver: ToolOptions,
    as_json: AsJson = False,
) -> None:
    """Give a task to a sub-agent of a session, and print its answer. It sees nothing else of the session."""
    request = options.to_request(task)

    async def spawn_in(database: Database, settings: Settings, session_id: str) -> SpawnResult:
        async with _open_agent(driver, database, settings) as agent:
            return await spawn(agent.harness, session_id, request, call_id=call or f"spawn_{ULID()}")

    def show(result: SpawnResult) -> None:
        print_line(result.text or str(result.reason))
        print_line(f"{result.status}: session {result.session_id}, {result.cost:f} USD", "dim")

    emit(run_in(session, spawn_in), show, as_json=as_json)
