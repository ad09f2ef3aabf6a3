"""The process of an MCP server. One task owns the connection, so that any other task may use it or stop it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from consolidator.errors import UsageError
from consolidator.runtime.tools.mcp_stdio import ServerOutput, open_bounded_stdio

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
        async with Client(_watched_transport(self.parameters, self.output, stop_requested), cache=None) as client:
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


@dataclass
class _WatchedStream:
    """The server's output stream. It sets `ended` at its end, which the SDK does not report."""

    stream: ReadStream[SessionMessage | Exception]
    ended: asyncio.Event

    async def receive(self) -> SessionMessage | Exception:
        return await self.stream.receive()

    async def aclose(self) -> None:
        self.ended.set()
        await self.stream.aclose()

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self.stream.__anext__()

    async def __aenter__(self) -> _WatchedStream:
        await self.stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.ended.set()
        return await self.stream.__aexit__(kind, error, trace)


@asynccontextmanager
async def _watched_transport(
    parameters: StdioServerParameters, output: ServerOutput, ended: asyncio.Event
) -> AsyncIterator[TransportStreams]:
    async with open_bounded_stdio(parameters, output) as (read, write):
        yield _WatchedStream(read, ended), write
