"""The tools of an MCP server, started by a command and spoken to over its standard input and output, as Tools.

Its word on a tool (read-only, idempotent, destructive) is taken: who names the command trusts the server.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import mcp_types
from jsonschema import SchemaError, validators
from mcp import MCPError, StdioServerParameters
from mcp.client import Client
from referencing import Registry

from consolidator.errors import UsageError
from consolidator.runtime.tools.arguments import BadArguments, Bound
from consolidator.runtime.tools.mcp_process import Process, notes
from consolidator.runtime.tools.outcome import Outcome
from consolidator.runtime.tools.tool import RESULT_BYTES, TIMEOUT, CallContext, Tool

CALL_ID = "consolidator/call_id"  # the key of a request's _meta under which the server finds the call's identity
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


@asynccontextmanager
async def mcp_tools(
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefix: str = "",
    call_timeout: float | None = TIMEOUT,
    max_result_bytes: int = RESULT_BYTES,
) -> AsyncIterator[list[Tool]]:
    """Start an MCP server and yield its tools; end it at the end. A server that dies is started again at the next call.

    The server sees PATH, HOME and the like, and what `env` adds; never this process's keys. `prefix` stands before each
    tool's name, for servers whose tools are named alike. Raises UsageError where it does not start.
    """
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise UsageError("an empty command starts no MCP server")
    told = StdioServerParameters(command=words[0], args=words[1:], env=dict(env or {}), cwd=cwd)
    with notes() as complaints:
        server = Process(told, complaints)
        try:
            listed = await _listed(await server.client())
            yield [_tool(server, one, prefix, call_timeout, max_result_bytes) for one in listed]
        finally:
            await server.stop()


async def _listed(client: Client) -> list[mcp_types.Tool]:
    """Return all the server's tools, page by page."""
    found: list[mcp_types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


def _tool(server: Process, told: mcp_types.Tool, prefix: str, timeout: float | None, max_result_bytes: int) -> Tool:
    hints = told.annotations or mcp_types.ToolAnnotations()
    reads = bool(hints.read_only_hint)
    run = partial(_run, server, told.name)
    check = _checker(told.input_schema)

    def bind(arguments: Mapping[str, Any], call: CallContext) -> Bound:
        check(arguments)
        return partial(run, dict(arguments), call.call_id)

    return Tool(
        name=_UNFIT.sub("_", prefix + told.name)[:64],
        description=told.description or told.title or "",
        schema=told.input_schema,
        function=run,
        bind=bind,
        idempotent=reads or bool(hints.idempotent_hint),
        side_effect=not reads,
        needs_approval=not reads and bool(hints.destructive_hint),
        timeout=timeout,
        max_result_bytes=max_result_bytes,
    )


def _checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """Return a check of arguments by the server's schema; where that is none, the server has to check them itself."""
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError:
        return lambda arguments: None
    validator = kind(schema, registry=Registry())

    def check(arguments: Mapping[str, Any]) -> None:
        wrong = [
            f"{'.'.join(map(str, one.path)) or 'arguments'}: {one.message}" for one in validator.iter_errors(arguments)
        ]
        if wrong:
            raise BadArguments("; ".join(wrong[:5]) + ".")

    return check


async def _run(server: Process, name: str, arguments: dict[str, Any], call_id: str) -> Outcome:
    client = await server.client()
    try:
        found = await client.call_tool(name, arguments, meta=cast(mcp_types.RequestParamsMeta, {CALL_ID: call_id}))
    except MCPError as error:
        if error.error.code != mcp_types.CONNECTION_CLOSED:
            return Outcome.failed(error.error.message)
        return Outcome.failed(
            f"The MCP server of {name} went away in the middle of the call. It may have taken effect."
        )
    content = "\n".join(_text(block) for block in found.content)
    return Outcome.failed(content) if found.is_error else Outcome(content)


def _text(block: mcp_types.ContentBlock) -> str:
    """Return a block as text; of what is no text, what it is."""
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
            return resource.text
        case mcp_types.EmbeddedResource(resource=resource):
            return f"[resource {resource.uri}, {resource.mime_type or 'binary'}, not shown]"
        case mcp_types.ResourceLink():
            return f"[resource {block.uri}]"
        case _:
            return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
