"""Starts MCP servers by their commands. Loading the MCP client takes a second: only callers with a server pay it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from consolidator.runtime.tools.mcp_config import McpServerConfig
from consolidator.runtime.tools.tool import Tool


@asynccontextmanager
async def start_mcp_servers(
    commands: Sequence[str], configured: Sequence[McpServerConfig] = ()
) -> AsyncIterator[list[Tool]]:
    """Start MCP servers, yield the tools of all, and stop the servers. Raises UsageError where one does not start."""
    tools: list[Tool] = []
    async with AsyncExitStack() as stack:
        if commands or configured:
            from consolidator.runtime.tools.mcp_tools import mcp_tools

            for command in commands:
                tools += await stack.enter_async_context(mcp_tools(command))
            for server in configured:
                tools += await stack.enter_async_context(mcp_tools(server.command, env=server.env, cwd=server.cwd))
        yield tools
