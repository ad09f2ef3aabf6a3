"""Counts round trips to PostgreSQL on the wire: a server in between that passes on every byte.

A round trip is an answer of the server to something that the client sent since its last answer, on one connection. So
statements that are sent together count once, whatever the driver calls that, and notifications count as nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_DEFAULT_PORT = 5432
_BUFFER = 256 * 1024  # bytes


@dataclass(slots=True)
class WireCounter:
    """The round trips so far, on all connections to `dsn`."""

    dsn: str = ""
    round_trips: int = 0

    async def relay(
        self, server: tuple[asyncio.StreamReader, asyncio.StreamWriter], reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        """Pass on what both sides of a connection send, until one of them ends it."""
        waits = False

        async def ask() -> None:
            nonlocal waits
            while data := await reader.read(_BUFFER):
                waits = True
                server[1].write(data)
                await server[1].drain()

        async def answer() -> None:
            nonlocal waits
            while data := await server[0].read(_BUFFER):
                self.round_trips += waits
                waits = False
                writer.write(data)
                await writer.drain()

        directions = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            writer.close()
            server[1].close()


@asynccontextmanager
async def count_round_trips(dsn: str) -> AsyncIterator[WireCounter]:
    """Yield a counter whose own `dsn` leads to the same database."""
    values = conninfo_to_dict(dsn)
    host, port = str(values.get("host") or "localhost"), int(values.get("port") or _DEFAULT_PORT)
    counter = WireCounter()
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if host.startswith("/"):
            server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server = await asyncio.open_connection(host, port)
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError, asyncio.CancelledError):
            await counter.relay(server, reader, writer)
        connections.discard(task)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    here = listener.sockets[0].getsockname()[1]
    counter.dsn = make_conninfo(dsn, host="127.0.0.1", port=here, sslmode="disable", gssencmode="disable")
    try:
        yield counter
    finally:
        listener.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await listener.wait_closed()
