"""MCP servers, by the commands that start them: only who has any pays the second that their client takes to load."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from consolidator.runtime.tools.tool import Tool


@asynccontextmanager
async def tools_of(commands: Sequence[str]) -> AsyncIterator[list[Tool]]:
    """Start MCP servers and yield the tools of all; end them at the end. Raises UsageError where one does not start."""
    found: list[Tool] = []
    async with AsyncExitStack() as stack:
        if commands:
            from consolidator.runtime.tools.mcp_tools import mcp_tools

            for command in commands:
                found += await stack.enter_async_context(mcp_tools(command))
        yield found
