"""The tools that a command names: of a Python file with `@tool` functions, of MCP servers, or built-in ones."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consolidator.cli.common import parse_path
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime.tools.builtin import BUILTIN_GROUPS, builtin_tools
from consolidator.runtime.tools.mcp_config import McpServerConfig, read_mcp_config, start_mcp_servers
from consolidator.runtime.tools.tool import Tool
from consolidator.settings import Settings

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
    _allow_sibling_imports(path)
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


def _allow_sibling_imports(path: Path) -> None:
    """Let the file import modules from its own folder."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
