"""An MCP server's process, held open by a task of its own, so that any task may use it and any other end it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TextIO

from mcp import StdioServerParameters, stdio_client
from mcp.client import Client
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from consolidator.errors import UsageError

STARTING = 30.0  # seconds that a server has to start
MOST = 1 << 20  # bytes of complaints that are kept until the server is used again
_TAIL = 4096  # bytes of them that are looked at


def notes() -> TextIO:
    """Open a file for what a server complains of, without a name; it is written at its end, also after it was cut."""
    file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - the caller closes it
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file


@dataclass
class Process:
    """A server's process, held by a task of its own, so that it may be used and ended from any other."""

    told: StdioServerParameters
    complaints: TextIO  # what it says on its standard error: `notes()`
    _held: asyncio.Task[None] | None = None
    _leave: asyncio.Event = field(default_factory=asyncio.Event)
    _ready: asyncio.Future[Client] | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def client(self) -> Client:
        """Return the open connection, starting the server where there is none; raise UsageError where it fails."""
        async with self._starting:
            if self._held is None or self._held.done() or self._leave.is_set():
                await self.stop()
                self._cut(0)
                self._leave = asyncio.Event()
                self._ready = asyncio.get_running_loop().create_future()
                self._held = asyncio.create_task(self._hold(self._ready, self._leave))
            assert self._ready is not None
            waited: set[asyncio.Future[Any]] = {self._held, self._ready}
            await asyncio.wait(waited, timeout=STARTING, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.done():
                self._cut(MOST)
                return self._ready.result()
            raise UsageError(await self._why_not())

    async def stop(self) -> None:
        """End the server, if it runs."""
        self._leave.set()
        if self._held is not None:
            if self._ready is not None and not self._ready.done():
                self._held.cancel()
            await asyncio.gather(self._held, return_exceptions=True)  # how it ended was told to whoever called it

    async def _hold(self, ready: asyncio.Future[Client], leave: asyncio.Event) -> None:
        async with Client(_watched(self.told, self.complaints, leave), cache=None) as client:
            ready.set_result(client)
            await leave.wait()

    async def _why_not(self) -> str:
        assert self._held is not None
        line = shlex.join([self.told.command, *self.told.args])
        if not self._held.done():
            await self.stop()
            return f"the MCP server `{line}` did not answer within {STARTING:g} s{self._told()}"
        error = None if self._held.cancelled() else self._held.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"the MCP server `{line}` did not start: {error}{self._told()}"

    def said(self) -> str:
        """Return the last line of what the server complained of; empty where it did not."""
        file = self.complaints.fileno()
        # Read where it is: to seek would move the place where the server writes, which has the same open file.
        tail = os.pread(file, _TAIL, max(0, os.fstat(file).st_size - _TAIL)).decode("utf-8", "replace")
        lines = [line.strip() for line in tail.splitlines() if line.strip()]
        return lines[-1][:500] if lines else ""

    def _told(self) -> str:
        last = self.said()
        return f"; it said: {last}" if last else ""

    def _cut(self, most: int) -> None:
        """Forget the complaints where they are more than so many bytes."""
        if os.fstat(self.complaints.fileno()).st_size > most:
            os.ftruncate(self.complaints.fileno(), 0)


@dataclass
class _Watched:
    """What a server sends, and word of its end: the SDK keeps that to itself."""

    stream: ReadStream[SessionMessage | Exception]
    ended: asyncio.Event

    async def receive(self) -> SessionMessage | Exception:
        return await self.stream.receive()

    async def aclose(self) -> None:
        self.ended.set()
        await self.stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self.stream.__anext__()

    async def __aenter__(self) -> _Watched:
        await self.stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.ended.set()
        return await self.stream.__aexit__(kind, error, trace)


@asynccontextmanager
async def _watched(
    told: StdioServerParameters, complaints: TextIO, ended: asyncio.Event
) -> AsyncIterator[TransportStreams]:
    async with stdio_client(told, errlog=complaints) as (read, write):
        yield _Watched(read, ended), write
