"""An MCP server for tests, started as a process: python -m tests.integration.runtime.mcp_test_server."""

from __future__ import annotations

import os
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

server: MCPServer[Any] = MCPServer("helper", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(first: int, second: Annotated[int, Field(description="what is added")] = 1) -> int:
    """Add two numbers."""
    return first + second


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def note(text: str, context: Context[Any, Any]) -> str:
    """Note something."""
    return f"{text} under {dict(context.request_context.meta or {}).get('consolidator/call_id')}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def drop(name: str) -> str:
    """Drop something."""
    raise ToolError(f"{name} is in use")


@server.tool(name="draw.dot")
def draw() -> Image:
    """Draw a dot."""
    return Image(data=b"dot", format="png")


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def complain(times: int) -> int:
    """Write so many lines to the standard error, and say how many bytes these were."""
    return sum(os.write(2, f"complaint {number}\n".encode()) for number in range(times))


@server.tool()
def environment() -> list[str]:
    """Name the variables the server sees."""
    return sorted(os.environ)


if __name__ == "__main__":
    server.run("stdio")
