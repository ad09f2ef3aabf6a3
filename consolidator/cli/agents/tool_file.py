"""Loads a person's own tools: a Python file with functions that are decorated with `@tool`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consolidator.cli.common import parse_path
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime.tools.builtin import BUILTIN_GROUPS, builtin_tools
from consolidator.runtime.tools.mcp_config import read_mcp_config, start_mcp_servers
from consolidator.runtime.tools.tool import Tool
from consolidator.settings import Settings

if TYPE_CHECKING:
    from consolidator.runtime.agent import Consolidator
    from consolidator.service.database import Database

ToolFiles = Annotated[
    list[str], typer.Option("--tools", metavar="FILE", help="Python file with @tool functions; repeat.")
]
McpConfig = Annotated[
    str | None, typer.Option("--mcp-config", metavar="FILE", help='JSON file with {"mcpServers": {...}}.')
]
McpServers = Annotated[
    list[str], typer.Option("--mcp", metavar="COMMAND", help="MCP server whose tools it may use; repeat.")
]
BuiltinTools = Annotated[
    list[str], typer.Option("--builtin", metavar="GROUP", help=f"Built-in tools: {', '.join(BUILTIN_GROUPS)}; repeat.")
]


@asynccontextmanager
async def open_tools(
    files: Sequence[str], commands: Sequence[str] = (), mcp_config: str | None = None, builtin: Sequence[str] = ()
) -> AsyncIterator[list[Tool]]:
    """Yield the tools of files, of built-in groups, and of MCP servers, which run meanwhile. Raises UsageError."""
    tools = [
        *(tool for name in files for tool in load_tools(name)),
        *(builtin_tools(builtin) if builtin else ()),
    ]
    servers = [] if mcp_config is None else read_mcp_config(parse_path(mcp_config))
    async with start_mcp_servers(commands, servers) as mcp_tools:
        yield [*tools, *mcp_tools]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """The tools of what drives a session."""

    tools: ToolFiles = field(default_factory=list)
    mcp: McpServers = field(default_factory=list)
    mcp_config: McpConfig = None
    builtin: BuiltinTools = field(default_factory=list)

    def open(self) -> AbstractAsyncContextManager[list[Tool]]:
        """Return a context with the tools, in which the MCP servers run. Raises UsageError."""
        return open_tools(self.tools, self.mcp, self.mcp_config, self.builtin)

    @asynccontextmanager
    async def open_agent(self, database: Database, settings: Settings) -> AsyncIterator[Consolidator]:
        """Yield an agent with the tools, which drives sessions of a database. Raises UsageError."""
        from consolidator.runtime.agent import Consolidator  # which is not needed to name the tools

        async with self.open() as tools, Consolidator(tools, settings=settings, database=database) as agent:
            yield agent

    async def list_names(self) -> list[str] | None:
        """Return the names of the tools; None where no tools are named."""
        if not (self.tools or self.mcp or self.mcp_config or self.builtin):
            return None
        async with self.open() as tools:
            return [tool.name for tool in tools]


def load_tools(name: str) -> list[Tool]:
    """Return the tools of a file; raise UsageError if it cannot be run or has none."""
    path = parse_path(name).resolve()
    spec = importlib.util.spec_from_file_location(f"tools_of_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is not a Python file with tools")
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
