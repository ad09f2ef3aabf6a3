"""The tools of an MCP server as Tools. A command starts the server; requests go over its standard input and output.

The SDK's own transport reads a line until it ends, however long that takes; this one ends a server that sends more than
it may, and says why. The server's annotations of a tool (read-only, idempotent, destructive) are trusted: so is the
command that starts it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

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
    from jsonschema import SchemaError, validators
    from mcp import MCPError, StdioServerParameters
    from mcp.client import Client
    from mcp.client._transport import TransportStreams
    from mcp.client.stdio import get_default_environment
    from mcp.shared.message import SessionMessage
    from referencing import Registry
except ModuleNotFoundError as error:
    raise UsageError("the tools of MCP servers need MCP: pip install 'consolidator[mcp]'") from error

log = logging.getLogger("consolidator.runtime")
MAX_MESSAGE_BYTES = 8 << 20  # of one line of a server
MAX_BYTES_PER_REQUEST = 64 << 20  # that a server sends between two requests to it
MAX_MESSAGES_PER_REQUEST = 10_000
EXIT_SECONDS = 2.0  # that a server has to end after its input was closed, and again after SIGTERM
_STDERR_TAIL = 4096  # bytes of stderr that are kept, to tell what a server said last
_STDERR_BURST = 1 << 20  # bytes of stderr after which reading pauses, so that a flood does not take the processor
_STDERR_PAUSE = 0.05  # seconds
_STDERR_WAIT = 0.5  # seconds that the rest of stderr is waited for after the end: a child may hold it open


class _LimitExceeded(Exception):
    """A server sent more than it may."""


@dataclass(slots=True)
class ServerOutput:
    """What is known of a server's output: how much came, the end of its stderr, and why it was ended."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_bytes: int = MAX_BYTES_PER_REQUEST
    max_messages: int = MAX_MESSAGES_PER_REQUEST
    end_reason: str | None = None  # why the server was ended, if it sent too much
    received_bytes: int = 0  # since the last request
    received_messages: int = 0  # since the last request
    stderr_tail: bytearray = field(default_factory=bytearray)
    invalid_line_seen: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def renewed(self) -> ServerOutput:
        """Return an empty one with the same limits, for the next process."""
        return ServerOutput(self.max_message_bytes, self.max_bytes, self.max_messages)

    def count(self, *, size: int = 0, messages: int = 0) -> None:
        """Count what came; raise _LimitExceeded if it is more than a server may send for one request."""
        self.received_bytes += size
        self.received_messages += messages
        if self.received_bytes > self.max_bytes:
            raise _LimitExceeded(f"it sent more than {self.max_bytes:,} bytes for one request")
        if self.received_messages > self.max_messages:
            raise _LimitExceeded(f"it sent more than {self.max_messages:,} messages for one request")

    def last_stderr_line(self) -> str:
        """Return the last line that the server wrote to its stderr; empty where it wrote none."""
        lines = [line.strip() for line in self.stderr_tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:500] if lines else ""


@asynccontextmanager
async def open_bounded_stdio(
    parameters: StdioServerParameters, output: ServerOutput
) -> AsyncIterator[TransportStreams]:
    """Start a server and yield the streams of its messages; stop it, with its children, at the end."""
    process = await anyio.open_process(
        [parameters.command, *parameters.args],
        env=get_default_environment() | (parameters.env or {}),
        cwd=parameters.cwd,
        start_new_session=True,  # a process group of its own, which is ended as a whole
    )
    assert process.stdout is not None
    assert process.stderr is not None
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    stderr_ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_messages, process, output, incoming)
        tasks.start_soon(_write_messages, process, output, to_send, incoming)
        tasks.start_soon(_keep_stderr_tail, process.stderr, output, stderr_ended)
        try:
            yield received, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                received.close()
                outgoing.close()
                await _stop(process, stderr_ended)
                for stream in (incoming, to_send):
                    stream.close()
            tasks.cancel_scope.cancel()


async def _read_messages(
    process: Process, output: ServerOutput, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    """Pass on the server's messages, line by line; kill the server if it sends more than it may."""
    assert process.stdout is not None
    try:
        async with incoming:
            await _read_lines(process.stdout, output, incoming)
    except _LimitExceeded as error:
        output.end_reason = str(error)
        log.warning("an MCP server is stopped: %s", error)
        _signal_group(process, signal.SIGKILL)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        pass  # stopped by us, or lost: either way the client sees the end of the stream
    output.ended.set()
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:  # a full pipe would keep the server from ending
            await process.stdout.receive()


async def _read_lines(
    stdout: ByteReceiveStream, output: ServerOutput, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    line = bytearray()
    async for received in stdout:
        output.count(size=len(received))
        *ends, rest = received.split(b"\n")
        for end in ends:
            output.count(messages=1)  # also a line that is none: it is looked at
            line += end
            _check_line(line, output)
            message = _parse_message(bytes(line), output)
            line.clear()
            if message is not None:
                await incoming.send(message)
        line += rest
        _check_line(line, output)


def _check_line(line: bytearray, output: ServerOutput) -> None:
    if len(line) > output.max_message_bytes:
        raise _LimitExceeded(f"it sent a message of more than {output.max_message_bytes:,} bytes")


def _parse_message(line: bytes, output: ServerOutput) -> SessionMessage | None:
    """Return the message of a line; None for a line that is none, such as a stray print of the server."""
    if not line.strip():
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        if not output.invalid_line_seen:  # said once: a server that prints them prints many
            output.invalid_line_seen = True
            log.warning("an MCP server writes lines that are no messages to its output; they are ignored")
        return None


async def _write_messages(
    process: Process,
    output: ServerOutput,
    to_send: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    try:
        async with to_send:
            async for message in to_send:
                if isinstance(message.message, mcp_types.JSONRPCRequest):
                    output.received_bytes = output.received_messages = 0  # of what comes for it
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode("utf-8", "replace"))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        incoming.close()  # the server reads no more: a request must not wait for it


async def _keep_stderr_tail(stderr: ByteReceiveStream, output: ServerOutput, ended: anyio.Event) -> None:
    """Read all that a server writes to its stderr, and keep the end of it."""
    count = 0
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for received in stderr:
            output.stderr_tail += received[-_STDERR_TAIL:]
            del output.stderr_tail[:-_STDERR_TAIL]
            count += len(received)
            if count > _STDERR_BURST:
                count = 0
                await anyio.sleep(_STDERR_PAUSE)
    ended.set()


async def _stop(process: Process, stderr_ended: anyio.Event) -> None:
    """End a server: close its input, then SIGTERM, then SIGKILL to its process group."""
    assert process.stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _has_ended(process):
            break
        _signal_group(process, number)
    await _has_ended(process)
    with anyio.move_on_after(_STDERR_WAIT):
        await stderr_ended.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.aclose()
    # A child that inherited the pipes keeps asyncio's transport open, which nothing public exposes.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(OSError):
            transport.close()


async def _has_ended(process: Process) -> bool:
    """Tell whether a process ends within EXIT_SECONDS. `Process.wait` would also wait for pipes that a child holds."""
    with anyio.move_on_after(EXIT_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 - no event tells of the end alone
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal_group(process: Process, number: int) -> None:
    with suppress(OSError):
        os.killpg(process.pid, number)


START_TIMEOUT = 30.0  # seconds


@dataclass
class McpServerProcess:
    """An MCP server that is started when it is first used, and started again after it died."""

    parameters: StdioServerParameters
    output: ServerOutput = field(default_factory=ServerOutput)  # of the process that runs, or ran last
    _task: asyncio.Task[None] | None = None  # owns the connection
    _stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: asyncio.Future[Client] | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def client(self) -> Client:
        """Return the open connection; start the server where there is none. Raises UsageError where that fails."""
        async with self._starting:
            if self._task is None or self._task.done() or self._stop_requested.is_set():
                await self.stop()
                self.output = self.output.renewed()
                self._stop_requested = asyncio.Event()
                self._ready = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._connect(self._ready, self._stop_requested))
            assert self._ready is not None
            futures: set[asyncio.Future[Any]] = {self._task, self._ready}
            await asyncio.wait(futures, timeout=START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.done():
                return self._ready.result()
            raise UsageError(await self._describe_failed_start())

    async def stop(self) -> None:
        """Stop the server, if it runs."""
        self._stop_requested.set()
        if self._task is not None:
            if self._ready is not None and not self._ready.done():
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)  # `client` has raised its error

    async def _connect(self, ready: asyncio.Future[Client], stop_requested: asyncio.Event) -> None:
        self.output.ended = stop_requested  # the SDK does not report the end of a server
        async with Client(open_bounded_stdio(self.parameters, self.output), cache=None) as client:
            ready.set_result(client)
            await stop_requested.wait()

    async def _describe_failed_start(self) -> str:
        assert self._task is not None
        command = shlex.join([self.parameters.command, *self.parameters.args])
        if not self._task.done():
            await self.stop()
            return f"the MCP server `{command}` did not answer within {START_TIMEOUT:g} s{self._stderr_note()}"
        error = None if self._task.cancelled() else self._task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reason = self.output.end_reason or error
        return f"the MCP server `{command}` did not start: {reason}{self._stderr_note()}"

    def _stderr_note(self) -> str:
        line = self.output.last_stderr_line()
        return f"; it said: {line}" if line else ""


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
