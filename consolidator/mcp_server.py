"""The MCP server: what other agents may ask of memory, over the same functions as the command line."""

from __future__ import annotations
