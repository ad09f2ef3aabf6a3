"""What a child of a session does differently, as options of commands: one definition for all that make one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from consolidator.cli.agents.agent_defaults import parse_parameters, read_template
from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, list_tools
from consolidator.cli.output import print_json, print_line
from consolidator.models.session import SessionRow
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.amounts import parse_amount
from consolidator.service.sessions.forks import Overrides

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions:
    """The options of a command that makes a child; `takes_child_options` adds them to it."""

    model: Model = None
    system: System = None
    template: Template = None
    parameter: Parameters = None
    add_prompt: AddPrompt = None
    tool: Tools = None
    strategy: Strategy = None
    budget: Budget = None
    compaction_threshold: Threshold = None
    max_cost: MaxCost = None
    current: Current = False
    tools: ToolFiles = field(default_factory=list)
    mcp: McpServers = field(default_factory=list)
    mcp_config: McpConfig = None
    builtin: BuiltinTools = field(default_factory=list)

    def to_overrides(self) -> Overrides:
        """Return what the child does differently. Raises UsageError for what no session could run with."""
        return create_overrides(
            model=self.model, system=self.system, template=self.template, parameters=self.parameter,
            add_prompt=self.add_prompt, tools=self.tool, strategy=self.strategy, budget=self.budget,
            compaction_threshold=self.compaction_threshold, max_cost=self.max_cost,
        )  # fmt: skip

    async def list_driver_tools(self) -> list[str] | None:
        """Return the names of the tools of what is to drive the child; None where that is not named."""
        return await list_tools(self.tools, self.mcp, self.mcp_config, self.builtin)


def takes_child_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `ChildOptions`, in place of its keyword parameter `options`."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name == "options":
            parameters += _list_options()
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
    names = {option.name for option in fields(ChildOptions)}

    @wraps(command)
    def expanded(**values: Any) -> None:
        options = ChildOptions(**{name: values.pop(name) for name in names})
        command(**values, options=options)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(expanded)["__signature__"] = inspect.Signature(parameters)
    return expanded


def _list_options() -> list[inspect.Parameter]:
    hints = get_type_hints(ChildOptions, include_extras=True)
    return [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default if option.default_factory is MISSING else option.default_factory(),
            annotation=hints[option.name],
        )
        for option in fields(ChildOptions)
    ]


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
