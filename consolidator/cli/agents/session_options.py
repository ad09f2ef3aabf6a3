"""What a session, its agent or its child is run with: one definition of these options for all commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_pairs, parse_span, read_text
from consolidator.runtime.session.agent_defaults import Overrides, parse_amount
from consolidator.service.agents.context import STRATEGIES

Model = Annotated[str | None, typer.Option(help="A model's name, or `auto`: a policy chooses, turn by turn.")]
AddPrompt = Annotated[str | None, typer.Option("--add-prompt", help="Add to the inherited system prompt.")]
ToolNames = Annotated[
    list[str] | None, typer.Option("--tool", metavar="NAME", help="The only tools it may use; repeat.")
]
Strategy = Annotated[str | None, typer.Option(help=f"The strategy of its contexts: {', '.join(STRATEGIES)}.")]
Budget = Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts.")]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Cap on the cost of one session, in USD.")]
Threshold = Annotated[
    float | None,
    typer.Option("--compaction-threshold", help="Share of the budget above which a session is compacted, 0.1 to 1."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """The model, the prompt, the tools and the context of a session."""

    model: Model = None
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None
    template: Annotated[
        str | None, typer.Option(metavar="FILE", help="A template of the system prompt, with $name for parameters.")
    ] = None
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="A parameter of the template; repeat.")
    ] = None
    tool: ToolNames = None
    strategy: Strategy = None
    budget: Budget = None
    max_cost: MaxCost = None

    def values(self) -> dict[str, Any]:
        """Return the options as a request has them. Raises UsageError for what no session could run with."""
        return {
            "model": self.model,
            "system": self.system,
            "template": None if self.template is None else read_text(self.template),
            "parameters": parse_pairs(self.parameter, "parameter"),
            "tools": None if self.tool is None else tuple(self.tool),
            "strategy": self.strategy,
            "budget": self.budget,
            "max_cost": None if self.max_cost is None else parse_amount(self.max_cost),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(PromptOptions):
    """What a new session is run with, or all of an agent's."""

    max_steps: Annotated[int | None, typer.Option(min=1, help="Answers that the model may give in one turn.")] = None
    session_ttl: Annotated[
        str | None, typer.Option(help="A session ends so long after a person's last message, such as 7d.")
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options as a request has them. Raises UsageError for what no session could run with."""
        more = {"max_steps": self.max_steps, "session_ttl_seconds": parse_seconds(self.session_ttl)}
        return PromptOptions.values(self) | more


def parse_seconds(span: str | None) -> int | None:
    """Parse a time to live such as "7d" into seconds."""
    return None if span is None else int(parse_span(span).total_seconds())


At = Annotated[int | None, typer.Option(help="After this event (seq); by default the latest at which nothing is open.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions(PromptOptions):
    """What a child of a session does differently."""

    add_prompt: AddPrompt = None
    compaction_threshold: Threshold = None

    def to_overrides(self) -> Overrides:
        """Return what the child does differently. Raises UsageError for what no session could run with."""
        patch = None if self.add_prompt is None else {"append": self.add_prompt}
        return Overrides(prompt_patch=patch, compaction_threshold=self.compaction_threshold, **self.values())
