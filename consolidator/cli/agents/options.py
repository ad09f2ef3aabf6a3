"""What a session, its agent or its child is run with, and the tools of what drives it: options of several commands."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consolidator.cli.common import parse_pairs, parse_path
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime.session.agent_defaults import Overrides, parse_amount
from consolidator.runtime.tools.builtin import BUILTIN_GROUPS, builtin_tools
from consolidator.runtime.tools.mcp_config import McpServerConfig, read_mcp_config, start_mcp_servers
from consolidator.runtime.tools.tool import Tool
from consolidator.settings import Settings

Model = Annotated[str | None, typer.Option(help="A model's name, or `auto`: a policy chooses, turn by turn.")]
AddPrompt = Annotated[str | None, typer.Option("--add-prompt", help="Add to the inherited system prompt.")]
ToolNames = Annotated[
    list[str] | None, typer.Option("--tool", metavar="NAME", help="The only tools it may use; repeat.")
]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Cap on the cost of one session, in USD.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """Options of a request, by the names that it has for them."""

    def values(self) -> dict[str, Any]:
        """Return the options as a request has them. Raises UsageError for what no session could run with."""
        values = asdict(self)
        for option, (name, parse) in _PARSED.items():
            if option in values:
                value = values.pop(option)
                values[name] = None if value is None else parse(value)
        return values

    def to_overrides(self) -> Overrides:
        """Return what a child does differently. Raises UsageError for what no session could run with."""
        values = self.values()
        return Overrides(**{each.name: values[each.name] for each in fields(Overrides) if each.name in values})


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions(RequestOptions):
    """The model, the prompt and the tools of a session; its agent's defaults decide the rest."""

    model: Model = None
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None
    tool: ToolNames = None
    max_cost: MaxCost = None


_PARSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "parameter": ("parameters", partial(parse_pairs, what="parameter")),
    "tool": ("tools", tuple),
    "max_cost": ("max_cost", parse_amount),
    "add_prompt": ("prompt_patch", lambda text: {"append": text}),
}  # the options that a request calls otherwise, or has parsed
At = Annotated[int | None, typer.Option(help="After this event (seq); by default the latest at which nothing is open.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions(PromptOptions):
    """What a child of a session does differently."""

    add_prompt: AddPrompt = None


if TYPE_CHECKING:
    from consolidator.runtime.agent import Consolidator
    from consolidator.service.database import Database

_MCP = "mcp:"  # before the command of a server


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """The tools of what drives a session."""

    tools: Annotated[
        list[str],
        typer.Option(
            metavar="SOURCE",
            help="A Python file with @tool functions, a JSON file with mcpServers, an MCP server as `mcp:COMMAND`, or "
            f"built-in ones: {', '.join(BUILTIN_GROUPS)}; repeat.",
        ),
    ] = field(default_factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[list[Tool]]:
        """Yield the tools; the MCP servers run meanwhile. Raises UsageError."""
        tools: list[Tool] = []
        servers: list[McpServerConfig] = []
        commands = [source.removeprefix(_MCP) for source in self.tools if source.startswith(_MCP)]
        for source in self.tools:
            if source in BUILTIN_GROUPS:
                tools += builtin_tools([source])
            elif source.endswith(".json"):
                servers += read_mcp_config(parse_path(source))
            elif not source.startswith(_MCP):
                tools += load_tools(source)
        async with start_mcp_servers(commands, servers) as mcp_tools:
            yield [*tools, *mcp_tools]

    @asynccontextmanager
    async def open_agent(self, database: Database, settings: Settings) -> AsyncIterator[Consolidator]:
        """Yield an agent with the tools, which drives sessions of a database. Raises UsageError."""
        from consolidator.runtime.agent import Consolidator  # which is not needed to name the tools

        async with self.open() as tools, Consolidator(tools, settings=settings, database=database) as agent:
            yield agent

    async def list_names(self) -> list[str] | None:
        """Return the names of the tools; None where no tools are named."""
        if not self.tools:
            return None
        async with self.open() as tools:
            return [tool.name for tool in tools]


def load_tools(name: str) -> list[Tool]:
    """Return the tools of a file; raise UsageError if it cannot be run or has none."""
    path = parse_path(name).resolve()
    spec = importlib.util.spec_from_file_location(f"tools_of_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(
            f"{path} is not a Python file with tools, a .json file with mcpServers, `mcp:COMMAND`, or "
            f"one of {', '.join(BUILTIN_GROUPS)}"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic resolves the type hints of its functions there
    if str(path.parent) not in sys.path:  # the file imports modules from its own folder
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except ConsolidatorError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    tools = {value.name: value for value in vars(module).values() if isinstance(value, Tool)}
    if not tools:
        raise UsageError(f"{path} has no tools: decorate functions with @tool (from consolidator import tool)")
    return list(tools.values())
