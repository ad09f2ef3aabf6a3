"""consolidator session spawn: give a task to a sub-agent of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from ulid import ULID

from consolidator.cli.agents.session_options import MaxCost, Model, ToolNames
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import SessionName, read_text, run_in
from consolidator.cli.output import emit, print_line
from consolidator.runtime.session.agent_defaults import ResultMode, SpawnRequest, SpawnResult, parse_amount
from consolidator.service.database import Database
from consolidator.service.sessions.children import spawn
from consolidator.settings import Settings


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
) -> None:
    """Give a task to a sub-agent of a session, and print its answer. It sees nothing else of the session."""
    request = options.to_request(task)

    async def spawn_in(database: Database, settings: Settings, session_id: str) -> SpawnResult:
        async with driver.open_agent(database, settings) as agent:
            return await spawn(agent.harness, session_id, request, call_id=call or f"spawn_{ULID()}")

    def show(result: SpawnResult) -> None:
        print_line(result.text or str(result.reason))
        print_line(f"{result.status}: session {result.session_id}, {result.cost:f} USD", "dim")

    emit(run_in(session, spawn_in), show)
