"""The MCP server: lets other agents ask memory and write into the log, by the functions that every front end calls.

`tools` is what a model sees and asks the service, `texts` writes compact answers, `server` serves.
"""

from __future__ import annotations

from consolidator.errors import UsageError

try:
    from consolidator.mcp_server.server import HttpMount, build_server, mount_http
except ModuleNotFoundError as error:
    raise UsageError("MCP is not installed: pip install 'consolidator[mcp]'") from error

__all__ = ["HttpMount", "build_server", "mount_http"]
