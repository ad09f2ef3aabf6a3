"""The tools of an MCP server as Tools. A command starts the server; requests go over its standard input and output.

The server's annotations of a tool (read-only, idempotent, destructive) are trusted: so is the command that starts it.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from jsonschema import SchemaError, validators
from referencing import Registry

from consolidator.errors import UsageError
from consolidator.runtime.session.outcome import Outcome, truncate
from consolidator.runtime.tools.tool import (
    DEFAULT_RESULT_BYTES,
    DEFAULT_TIMEOUT,
    BadArguments,
    BoundCall,
    CallContext,
    Tool,
)

try:
    import mcp_types
    from mcp import MCPError, StdioServerParameters
    from mcp.client import Client

    from consolidator.runtime.tools.mcp_stdio import START_TIMEOUT, McpServerProcess
except ModuleNotFoundError as error:
    raise UsageError("the tools of MCP servers need MCP: pip install 'consolidator[mcp]'") from error

MAX_TOOLS = 500  # of one server
MAX_PAGES = 100  # of its list of tools
MAX_SCHEMA_CHARACTERS = 64 * 1024  # of one tool's arguments
MAX_DESCRIPTION_CHARACTERS = 8 * 1024  # of one tool; the rest is left out
_MAX_MESSAGE = 500  # characters of a server's error in ours
_MAX_ERROR_BYTES = 4_000  # of a server's error that the model is shown
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
    server = McpServerProcess(parameters)
    try:
        definitions = await _load_definitions(server)
        yield [_create_tool(server, definition, prefix, call_timeout, max_result_bytes) for definition in definitions]
    finally:
        await server.stop()


async def _load_definitions(server: McpServerProcess) -> list[mcp_types.Tool]:
    """Return the definitions of a server's tools; raise UsageError where it has none to give, or too many."""
    client, command = await server.client(), shlex.join([server.parameters.command, *server.parameters.args])
    try:
        async with asyncio.timeout(START_TIMEOUT):
            return await _list_tools(client)
    except TimeoutError:
        raise UsageError(f"the MCP server `{command}` did not list its tools within {START_TIMEOUT:g} s") from None
    except MCPError as error:
        reason = server.output.end_reason or error.error.message[:_MAX_MESSAGE]
        raise UsageError(f"the MCP server `{command}` did not list its tools: {reason}") from error
    except (_TooManyTools, ValueError) as error:  # ValueError: a list that is none
        raise UsageError(f"the tools of the MCP server `{command}` are refused: {str(error)[:_MAX_MESSAGE]}") from error


class _TooManyTools(Exception):
    """A server lists more than a model could be told of."""


async def _list_tools(client: Client) -> list[mcp_types.Tool]:
    """Return all the server's tools, page by page; raise _TooManyTools if they do not end."""
    definitions: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        definitions += page.tools
        if len(definitions) > MAX_TOOLS:
            raise _TooManyTools(f"there are more than {MAX_TOOLS}")
        for definition in page.tools:
            size = len(json.dumps(definition.input_schema, default=str))
            if size > MAX_SCHEMA_CHARACTERS:
                raise _TooManyTools(f"the schema of {definition.name[:64]!r} has {size:,} characters")
        cursor = page.next_cursor
        if cursor is None:
            return definitions
    raise _TooManyTools(f"the list does not end within {MAX_PAGES} pages")


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
        description=(definition.description or definition.title or "")[:MAX_DESCRIPTION_CHARACTERS],
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
            return Outcome.failed(truncate(error.error.message, _MAX_ERROR_BYTES))
        reason = server.output.end_reason
        was_lost = "went away in the middle of the call" if reason is None else f"was stopped, because {reason}"
        return Outcome.failed(f"The MCP server of {name} {was_lost}. The call may have taken effect.")
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
