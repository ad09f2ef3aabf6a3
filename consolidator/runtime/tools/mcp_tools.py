"""The tools of an MCP server as Tools. A command starts the server; requests go over its standard input and output.

The server's annotations of a tool (read-only, idempotent, destructive) are trusted: so is the command that starts it.
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
from consolidator.runtime.tools.arguments import BadArguments, BoundCall
from consolidator.runtime.tools.mcp_process import McpServerProcess, open_stderr_file
from consolidator.runtime.tools.outcome import Outcome
from consolidator.runtime.tools.tool import DEFAULT_RESULT_BYTES, DEFAULT_TIMEOUT, CallContext, Tool

CALL_ID = "consolidator/call_id"  # the key in a request's _meta that holds the call's id
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")


@asynccontextmanager
async def mcp_tools(
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prefix: str = "",
    call_timeout: float | None = DEFAULT_TIMEOUT,
    max_result_bytes: int = DEFAULT_RESULT_BYTES,
) -> AsyncIterator[list[Tool]]:
    """Start an MCP server, yield its tools, and stop it. A server that dies is started again at the next call.

    The server sees PATH, HOME and the like, and what `env` adds; never this process's keys. `prefix` goes before each
    tool's name, for servers whose tools have the same names. Raises UsageError where the server does not start.
    """
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise UsageError("an empty command starts no MCP server")
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=dict(env or {}), cwd=cwd)
    with open_stderr_file() as stderr:
        server = McpServerProcess(parameters, stderr)
        try:
            definitions = await _list_tools(await server.client())
            yield [
                _create_tool(server, definition, prefix, call_timeout, max_result_bytes) for definition in definitions
            ]
        finally:
            await server.stop()


async def _list_tools(client: Client) -> list[mcp_types.Tool]:
    """Return all the server's tools, page by page."""
    definitions: list[mcp_types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        definitions += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return definitions


def _create_tool(
    server: McpServerProcess, definition: mcp_types.Tool, prefix: str, timeout: float | None, max_result_bytes: int
) -> Tool:
    hints = definition.annotations or mcp_types.ToolAnnotations()
    read_only = bool(hints.read_only_hint)
    call_tool = partial(_call_tool, server, definition.name)
    check_arguments = _argument_checker(definition.input_schema)

    def bind(arguments: Mapping[str, Any], call: CallContext) -> BoundCall:
        check_arguments(arguments)
        return partial(call_tool, dict(arguments), call.call_id)

    return Tool(
        name=_INVALID_CHARACTER.sub("_", prefix + definition.name)[:64],
        description=definition.description or definition.title or "",
        schema=definition.input_schema,
        function=call_tool,
        bind=bind,
        idempotent=read_only or bool(hints.idempotent_hint),
        side_effect=not read_only,
        needs_approval=not read_only and bool(hints.destructive_hint),
        timeout=timeout,
        max_result_bytes=max_result_bytes,
    )


def _argument_checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """Return a check of arguments by the server's schema. With an invalid schema, the server itself has to check."""
    validator_class = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        validator_class.check_schema(schema)
    except SchemaError:
        return lambda arguments: None
    validator = validator_class(schema, registry=Registry())

    def check(arguments: Mapping[str, Any]) -> None:
        errors = [
            f"{'.'.join(map(str, error.path)) or 'arguments'}: {error.message}"
            for error in validator.iter_errors(arguments)
        ]
        if errors:
            raise BadArguments("; ".join(errors[:5]) + ".")

    return check


async def _call_tool(server: McpServerProcess, name: str, arguments: dict[str, Any], call_id: str) -> Outcome:
    client = await server.client()
    try:
        result = await client.call_tool(name, arguments, meta=cast(mcp_types.RequestParamsMeta, {CALL_ID: call_id}))
    except MCPError as error:
        if error.error.code != mcp_types.CONNECTION_CLOSED:
            return Outcome.failed(error.error.message)
        return Outcome.failed(
            f"The MCP server of {name} went away in the middle of the call. It may have taken effect."
        )
    content = "\n".join(_block_text(block) for block in result.content)
    return Outcome.failed(content) if result.is_error else Outcome(content)


def _block_text(block: mcp_types.ContentBlock) -> str:
    """Return a content block as text: its own text, or a note on what it is."""
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
