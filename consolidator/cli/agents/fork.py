"""consolidator fork: a new session that leaves another one at a message."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import typer

from consolidator.cli.agents.agent_defaults import parse_parameters, read_template
from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, list_tools
from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line
from consolidator.models.session import SessionRow
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.amounts import parse_amount
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.forks import Overrides, fork_session

Model = Annotated[str | None, typer.Option(help="Another model.")]
System = Annotated[str | None, typer.Option(help="Another system prompt.")]
Template = Annotated[str | None, typer.Option(metavar="FILE", help="A template of the system prompt.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="Of the template; repeat.")
]
AddPrompt = Annotated[str | None, typer.Option("--add-prompt", help="Add to the inherited system prompt.")]
Tools = Annotated[list[str] | None, typer.Option("--tool", metavar="NAME", help="The only tools it may use; repeat.")]
Strategy = Annotated[str | None, typer.Option(help=f"Of its contexts: {', '.join(STRATEGIES)}.")]
Budget = Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts.")]
Threshold = Annotated[
    float | None, typer.Option("--compaction-threshold", help="Share of the budget above which it is compacted.")
]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Cap on its own cost, in USD.")]
Current = Annotated[bool, typer.Option("--current", help="Let the session's key name the new one from now on.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fork")(fork_command)


def fork_command(
    session: SessionName,
    at: Annotated[
        int | None,
        typer.Option(help="The last event (seq) before its own; by default the latest at which nothing is open."),
    ] = None,
    model: Model = None,
    system: System = None,
    template: Template = None,
    parameter: Parameters = None,
    add_prompt: AddPrompt = None,
    tool: Tools = None,
    strategy: Strategy = None,
    budget: Budget = None,
    compaction_threshold: Threshold = None,
    max_cost: MaxCost = None,
    current: Current = False,
    tools: ToolFiles = [],  # noqa: B006 - typer copies it
    mcp: McpServers = [],  # noqa: B006
    mcp_config: McpConfig = None,
    builtin: BuiltinTools = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Create a session that reads another one's log up to an event as its own past. The other one is untouched.

    The tools of files and servers are those of what is to drive it: a --tool that is not among them is refused.
    """
    overrides = create_overrides(
        model=model, system=system, template=template, parameters=parameter, add_prompt=add_prompt, tools=tool,
        strategy=strategy, budget=budget, compaction_threshold=compaction_threshold, max_cost=max_cost,
    )  # fmt: skip

    async def work() -> SessionRow:
        driver_tools = await list_tools(tools, mcp, mcp_config, builtin)
        async with open_configured() as (database, settings):
            session_id = await find_session_id(database, session)
            return await fork_session(
                database, settings, session_id, at=at, overrides=overrides, is_current=current,
                driver_tools=driver_tools,
            )  # fmt: skip

    print_child(run_async(work()), as_json=as_json)


def create_overrides(
    *,
    template: str | None,
    parameters: list[str] | None,
    add_prompt: str | None,
    tools: list[str] | None,
    max_cost: float | None,
    **plain: Any,
) -> Overrides:
    """Return options as overrides. Raises UsageError for those that no session could run with."""
    cap: Decimal | None = None if max_cost is None else parse_amount(max_cost)
    return Overrides(
        template=None if template is None else read_template(template),
        parameters=parse_parameters(parameters),
        prompt_patch=None if add_prompt is None else {"append": add_prompt},
        tools=None if tools is None else tuple(tools),
        max_cost=cap,
        **plain,
    )


def print_child(child: SessionRow, *, as_json: bool) -> None:
    """Print a session that was made from another one."""
    if as_json:
        print_json(child)
        return
    print_line(f"session {child.id}: a {child.kind} of {child.parent_id} after event {child.parent_seq}", style="bold")
    if child.pending:
        print_line(f"a message before that has no answer: `consolidator wake {child.id}` answers it")
