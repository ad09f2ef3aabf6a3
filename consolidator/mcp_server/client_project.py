"""Which project a client works in: that of its roots, else of the server's working directory."""

from __future__ import annotations

import asyncio
import warnings
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, NoBackChannelError

from consolidator.service.database import Database
from consolidator.service.log.working_directory import find_project

ROOTS_TIMEOUT = 2.0  # seconds that a client has to say its roots
CONTEXT: ContextVar[Context[Any, Any] | None] = ContextVar("context", default=None)  # of the call


@dataclass(frozen=True, slots=True)
class ClientProject:
    """Finds the project that a call is about where it names none."""

    database: Database
    directory: Path | None  # None: a client without roots works nowhere in particular

    async def find(self) -> str | None:
        """Return the project of the first root of the client that calls, else of the server's directory."""
        context = CONTEXT.get()
        directory = (await _ask_root(context) if context is not None else None) or self.directory
        return None if directory is None else await find_project(self.database, directory)


async def _ask_root(context: Context[Any, Any]) -> Path | None:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            async with asyncio.timeout(ROOTS_TIMEOUT):
                roots = (await context.session.list_roots()).roots
    except (MCPError, NoBackChannelError, TimeoutError):
        return None
    paths = [urlsplit(str(root.uri)) for root in roots]
    return next((Path(unquote(path.path)) for path in paths if path.scheme == "file" and path.path), None)
