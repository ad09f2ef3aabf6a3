"""An HTTP server whose clients cannot hold it up: few connections, each with a time limit for what it does.

Where connections run out, a new one takes the place of the one that has waited longest for its client, so that a flood
of half-open ones keeps no other client out. A request that is being answered is never closed for another.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Literal

import h11
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

Phase = Literal["head", "body", "answer"]
LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names of this machine, by which a service may always be called
_HOST = re.compile(r"(?:\[([0-9a-z:.%]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
_CLOSING_SECONDS = 1.0  # for the last words to a client that is closed
_OPEN_FILES_SHARE = 4  # connections take at most one of so many files that the process may open


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds of the server; times are in seconds."""

    connections: int = 512  # open at once, in total
    connections_per_address: int = 384
    head_seconds: float = 10  # from the connection, or the answer before, to the last header
    body_seconds: float = 30  # from the headers to the end of the body
    answer_seconds: float = 120  # until the client has taken the answer; of a stream, what was sent of it
    idle_seconds: int = 5  # between two requests
    head_bytes: int = 32 * 1024

    def within_open_files(self) -> ConnectionLimits:
        """Return limits that leave most of the files that this process may open to the database and the logs."""
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed == resource.RLIM_INFINITY:
            return self
        connections = min(self.connections, max(8, allowed // _OPEN_FILES_SHARE))
        per_address = min(self.connections_per_address, max(6, connections * 3 // 4))
        return replace(self, connections=connections, connections_per_address=per_address)


@dataclass(slots=True)
class OpenConnections:
    """The open connections, oldest first."""

    limits: ConnectionLimits
    open: dict[BoundedConnection, str] = field(default_factory=dict)  # connection -> its client's address

    def admit(self, connection: BoundedConnection, address: str) -> bool:
        """Add a connection, in the place of another where there are too many; return False if there is no place."""
        of_address = [other for other, its in self.open.items() if its == address]
        if len(of_address) >= self.limits.connections_per_address:
            given_up = _longest_waiting(of_address)
        elif len(self.open) >= self.limits.connections:
            given_up = _longest_waiting(list(self.open))
        else:
            self.open[connection] = address
            return True
        if given_up is None:
            return False
        del self.open[given_up]
        given_up.transport.abort()
        self.open[connection] = address
        return True


def host_name(header: str) -> str | None:
    """Return the name in a header Host, in lower case and without its port; None where it is no host."""
    match = _HOST.fullmatch(header)
    return None if match is None else (match[1] or match[2]).lower()


def _check_heads(app: ASGIApp, most: int) -> ASGIApp:
    """Return an application that is given no request with a Host that is none, or with more than `most` bytes of head.

    h11 bounds what it waits for: a head that comes whole in one piece can be as large as what is read at once.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: list[tuple[bytes, bytes]] = scope["headers"]
            size = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(a) + len(b) + 4 for a, b in headers)
            is_called = all(host_name(value.decode("latin-1")) for name, value in headers if name == b"host")
            if size > most or not is_called:
                await Response(status_code=400, headers={"connection": "close"})(scope, receive, send)
                return
        await app(scope, receive, send)

    return checked


def _longest_waiting(connections: list[BoundedConnection]) -> BoundedConnection | None:
    """Return the connection that waits for its client longest; None if we are the ones to answer on all of them."""
    waiting = [connection for connection in connections if connection.waits_for_client]
    return min(waiting, key=lambda connection: connection.phase_began, default=None)


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration with the limits, which its connections find here."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(
            _check_heads(app, limits.head_bytes),
            http=BoundedConnection,
            ws="none",
            loop="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,  # an address that a client only claims is not its address
            backlog=max(4, limits.connections // 4),  # also how many are accepted before one is read
            timeout_keep_alive=limits.idle_seconds,
            h11_max_incomplete_event_size=limits.head_bytes,
            **options,
        )
        self.open_connections = OpenConnections(limits)


class BoundedServer(uvicorn.Server):
    """A server that leaves signal handling to the service."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


class BoundedConnection(H11Protocol):
    """uvicorn's HTTP/1.1 connection, with a deadline for each phase of a request."""

    def __init__(self, config: BoundedConfig, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self._connections = config.open_connections
        self._phase: tuple[Phase, int] = ("head", 0)
        self._answered = 0
        self._deadline: asyncio.TimerHandle | None = None
        self.phase_began = 0.0  # the loop's time

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn to send or to take what was sent, or it sent more before it was answered."""
        return self._phase[0] != "answer" or bool(self.flow.write_paused) or bool(self.conn.trailing_data[0])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it where there are too many."""
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio does this only where the listening socket names its protocol: else the body of each answer waits
            # 40 ms for its head to be acknowledged.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._begin_phase(("head", 0))
        if not self._connections.admit(self, str(self.client[0]) if self.client else ""):
            self._refuse(429)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that is closed."""
        self._connections.open.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what the client sent, unless it was refused."""
        if not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        """Handle what was received; a request that goes on to another phase has the time of that one."""
        super().handle_events()
        phase = (self._find_phase(), self._answered)
        if phase != self._phase and not self.transport.is_closing():
            self._begin_phase(phase)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._answered += 1
        if not self.transport.is_closing():
            self._begin_phase((self._find_phase(), self._answered))
        super().on_response_complete()

    def _find_phase(self) -> Phase:
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        return "head" if self.cycle is None or self.cycle.response_complete else "answer"

    def _begin_phase(self, phase: tuple[Phase, int]) -> None:
        limits = self._connections.limits
        seconds = {"head": limits.head_seconds, "body": limits.body_seconds, "answer": limits.answer_seconds}[phase[0]]
        if self._deadline is not None:
            self._deadline.cancel()
        self._phase = phase
        self.phase_began = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self._end_phase)

    def _end_phase(self) -> None:
        """Close a connection whose time is up; a stream goes on as long as its client takes what it is sent."""
        is_stream = self._phase[0] == "answer" and self.scope.get("state", {}).get("streaming", False)
        if is_stream and not self.flow.write_paused and not self.transport.is_closing():
            self._begin_phase(self._phase)
        else:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        """Close the connection; say why where nothing was answered yet."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.flow.write_paused:
            headers = [(b"connection", b"close"), (b"content-length", b"0"), (b"retry-after", b"5")]
            self.transport.write(
                self.conn.send(h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase))
            )
            self.transport.write(self.conn.send(h11.EndOfMessage()))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self.loop.call_later(_CLOSING_SECONDS, self.transport.abort)


WINDOW_SECONDS = 60.0
KIND_LINES = 5  # written in a window, of lines that differ in numbers alone, or in the values of one message
_MAX_KINDS = 500  # of lines remembered; beyond them the oldest is forgotten, and its count written
_COMPARED = 500  # characters of a line
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_Kind = tuple[str, int, str]  # logger, level and text of lines


@dataclass(slots=True)
class _Window:
    """The lines of one kind since the first of them."""

    began: float
    lines: int = 0


class RepeatedLines(logging.Filter):
    """A filter of a handler: passes the first lines of a kind, and the number of those that it held back."""

    def __init__(self, handler: logging.Handler, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handler = handler
        self._clock = clock
        self._windows: OrderedDict[_Kind, _Window] = OrderedDict()  # the oldest first
        self._lock = threading.RLock()  # writing a count comes back to this filter

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written."""
        if getattr(record, "is_count", False):
            return True
        kind = (record.name, record.levelno, _NUMBER.sub("#", str(record.msg)[:_COMPARED]))
        with self._lock:
            self.write_counts(only_ended=True)
            if kind not in self._windows:
                while len(self._windows) >= _MAX_KINDS:
                    self._write_count(*self._windows.popitem(last=False))
                self._windows[kind] = _Window(self._clock())
            self._windows[kind].lines += 1
            return self._windows[kind].lines <= KIND_LINES

    def write_counts(self, *, only_ended: bool = False) -> None:
        """Write how many lines were held back; with `only_ended` those of windows that are over."""
        with self._lock:
            while self._windows:
                kind, window = next(iter(self._windows.items()))
                if only_ended and self._clock() - window.began < WINDOW_SECONDS:
                    break
                del self._windows[kind]
                self._write_count(kind, window)

    def _write_count(self, kind: _Kind, window: _Window) -> None:
        if window.lines > KIND_LINES:
            name, level, text = kind
            values = (window.lines - KIND_LINES, text.partition("\n")[0])
            count = logging.LogRecord(name, level, "", 0, "repeated %d times: %s", values, None)
            count.is_count = True
            self._handler.handle(count)


@asynccontextmanager
async def counted_repetitions() -> AsyncIterator[None]:
    """Count repeated lines of the root logger's handlers; write what was held back now and then, and at the end."""
    filters = [(handler, RepeatedLines(handler)) for handler in logging.getLogger().handlers]
    for handler, lines in filters:
        handler.addFilter(lines)

    async def write_counts() -> None:
        while True:
            await asyncio.sleep(WINDOW_SECONDS)
            for _, lines in filters:
                lines.write_counts(only_ended=True)

    writing = asyncio.create_task(write_counts())
    try:
        yield
    finally:
        writing.cancel()
        for handler, lines in filters:
            lines.write_counts()
            handler.removeFilter(lines)
