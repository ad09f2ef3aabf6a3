"""Clients that send slowly, too much, or nothing at all keep no other out: real sockets, short limits, no timing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.jobs.serving import BoundedConfig, BoundedServer, ConnectionLimits
from consolidator.service.address import listen
from consolidator.service.request_limits import RequestLimits, WorkPlaces
from tests.support import PATIENCE

LIMITS = ConnectionLimits(
    connections=24, connections_per_address=18, head_seconds=0.5, body_seconds=0.5, answer_seconds=2, idle_seconds=1
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
WORK = HEALTH.replace(b"/healthz", b"/work")


class Served:
    """A server on a free port, with a page that answers at once and one that works until it is told to end."""

    def __init__(self, port: int, server: BoundedServer) -> None:
        self.port = port
        self.open_connections = server.config.open_connections.open  # type: ignore[attr-defined]
        self.end_work = asyncio.Event()
        self.worked_on = 0
        self.most_worked_on = 0

    async def work(self, request: Request) -> PlainTextResponse:
        """Work until told to end."""
        body = await request.body()
        self.worked_on += 1
        self.most_worked_on = max(self.most_worked_on, self.worked_on)
        try:
            await self.end_work.wait()
        finally:
            self.worked_on -= 1
        return PlainTextResponse(str(len(body)))

    async def send(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own; return all that comes back until the server closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            return await asyncio.wait_for(reader.read(), PATIENCE)
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _healthy(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


@asynccontextmanager
async def serve(limits: ConnectionLimits = LIMITS, **request_limits: float) -> AsyncIterator[Served]:
    """Serve within short limits."""
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    served: Served

    async def work(request: Request) -> PlainTextResponse:
        return await served.work(request)

    options = {"worked_on": 2, "waiting": 3, "wait_seconds": 0.2, "request_seconds": PATIENCE}
    working = Starlette(routes=[Route("/work", work, methods=["GET", "POST"])])
    places = WorkPlaces(**{**options, **request_limits})  # type: ignore[arg-type]
    bounded = RequestLimits(working, places, body_bytes=1000)
    app = Starlette(routes=[Route("/healthz", _healthy), Mount("/", app=bounded)])
    server = BoundedServer(BoundedConfig(app, limits, lifespan="off", timeout_graceful_shutdown=1))
    served = Served(port.getsockname()[1], server)
    serving = asyncio.create_task(server.serve(sockets=[port]))
    await until(lambda: server.started)
    try:
        yield served
    finally:
        served.end_work.set()
        server.should_exit = True
        await asyncio.wait_for(serving, PATIENCE)


def post(*headers: bytes, body: bytes = b"") -> bytes:
    """A request with a body."""
    return b"\r\n".join((b"POST /work HTTP/1.1", b"Host: x", *headers, b"", b"")) + body


REFUSED: dict[str, tuple[bytes, bytes]] = {  # what is sent, and the status that it gets
    "nothing": (b"", b"408"),
    "half a request line": (b"GET /he", b"408"),
    "half a header": (b"GET /healthz HTTP/1.1\r\nHost: x", b"408"),
    "headers without their end": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"408"),
    "empty lines": (b"\r\n" * 20, b"400"),
    "half a body": (post(b"Content-Length: 100", body=b"abc"), b"408"),
    "no body": (post(b"Content-Length: 100"), b"408"),
    "half a chunk": (post(b"Transfer-Encoding: chunked", body=b"64\r\nabc"), b"408"),
    "chunks without end": (post(b"Transfer-Encoding: chunked", body=b"1\r\na\r\n" * 5), b"408"),
    "a body whose length is too large": (post(b"Content-Length: 1001"), b"413"),
    "a body of a length beyond all numbers": (post(b"Content-Length: " + b"9" * 19), b"413"),
    "chunks that are too many": (post(b"Transfer-Encoding: chunked", body=b"3e9\r\n" + b"x" * 1001), b"413"),
    "many small chunks": (post(b"Transfer-Encoding: chunked", body=b"1\r\na\r\n" * 1001), b"413"),
    "an endless header": (b"GET / HTTP/1.1\r\nHost: " + b"x" * 40_000, b"400"),
    "endless headers": (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000, b"400"),
    "a whole head that is too large": (HEALTH[:-2] + b"A: " + b"x" * 33_000 + b"\r\n\r\n", b"400"),
    "a whole path that is too large": (HEALTH.replace(b"/healthz", b"/healthz?" + b"x" * 33_000), b"400"),
    "many headers that come whole": (HEALTH[:-2] + b"A: b\r\n" * 8_000 + b"\r\n", b"400"),
    "two words as a host": (HEALTH.replace(b"Host: x", b"Host: a b"), b"400"),
    "a host with a port of letters": (HEALTH.replace(b"Host: x", b"Host: localhost:evil"), b"400"),
    "a host with more behind its address": (HEALTH.replace(b"Host: x", b"Host: [::1].evil.example"), b"400"),
    "a user before a host": (HEALTH.replace(b"Host: x", b"Host: evil@localhost"), b"400"),
    "an endless request line": (b"GET /" + b"x" * 40_000, b"400"),
    "a negative length": (post(b"Content-Length: -1", body=b"x"), b"400"),
    "two lengths": (post(b"Content-Length: 1", b"Content-Length: 2", body=b"x"), b"400"),
    "something else than HTTP": (b"\x16\x03\x01\x02\x00\x01" * 10 + b"\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_never_becomes_a_request_is_closed_and_told_why(what: str) -> None:
    sent, status = REFUSED[what]
    async with serve() as served:
        answer = await served.send(sent)
        assert answer.split(b" ")[1] == status, answer
        assert b" 200 " in await served.send(HEALTH)


@pytest.mark.parametrize("sent", [HEALTH[:-2], post(b"Content-Length: 500", body=b"x" * 400)], ids=["head", "body"])
async def test_a_client_that_sends_a_byte_now_and_then_has_no_more_time(sent: bytes) -> None:
    async with serve() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        closed = asyncio.create_task(asyncio.wait_for(reader.read(), PATIENCE))
        for byte in sent + b"x" * 10_000:
            if closed.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        assert closed.done()
        assert closed.exception() is not None or b" 408 " in closed.result()
        writer.close()


async def test_a_connection_that_is_idle_after_a_request_is_closed() -> None:
    async with serve() as served:
        answer = await served.send(HEALTH.replace(b"Connection: close\r\n", b""))
        assert answer.count(b"HTTP/1.1") >= 1
        assert b" 200 " in answer


async def test_pipelined_requests_are_answered_one_after_the_other_and_work_is_still_bounded() -> None:
    async with serve() as served:
        answer = await served.send(HEALTH.replace(b"Connection: close\r\n", b"") * 100)
        assert answer.count(b" 200 OK") == 100
        served.end_work.set()
        assert (await served.send(WORK.replace(b"Connection: close\r\n", b"") * 20)).count(b" 200 OK") == 20
        assert served.most_worked_on == 1


HALF_OPEN: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda _: b"",
    "half a head": lambda number: HEALTH[: number % len(HEALTH)],
    "half a body": lambda _: post(b"Content-Length: 900", body=b"x"),
    "idle after a request": lambda _: HEALTH.replace(b"Connection: close\r\n", b""),
    "answers that nobody reads": lambda _: HEALTH.replace(b"Connection: close\r\n", b"") * 500,
}


@pytest.mark.parametrize("what", HALF_OPEN)
async def test_a_flood_of_half_open_connections_keeps_nobody_out(what: str) -> None:
    patient = ConnectionLimits(connections=24, connections_per_address=18, head_seconds=PATIENCE, body_seconds=PATIENCE)
    clients: list[socket.socket] = []
    async with serve(patient) as served:
        for number in range(300):
            client = socket.socket()
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", served.port))
            clients.append(client)
            with suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(client, HALF_OPEN[what](number))
            assert len(served.open_connections) <= 18
            if number % 50 == 49:
                assert b" 200 " in await served.send(HEALTH)
        for client in clients:
            client.close()


async def test_requests_that_are_worked_on_are_not_closed_for_others_and_more_get_429() -> None:
    async with serve(worked_on=18, waiting=0) as served:
        working = [asyncio.create_task(served.send(WORK)) for _ in range(18)]
        await until(lambda: served.worked_on == 18)
        refused = await served.send(HEALTH)
        assert b" 429 " in refused
        assert b"retry-after" in refused
        served.end_work.set()
        assert all(b" 200 " in answer for answer in await asyncio.gather(*working))
        assert b" 200 " in await served.send(HEALTH)


async def test_few_requests_are_worked_on_few_wait_and_the_others_are_told_to_come_again() -> None:
    async with serve() as served:
        answers = await asyncio.gather(*(served.send(WORK) for _ in range(3)), served.send(HEALTH), _end_later(served))
        assert b" 200 " in answers[3]  # beside them
        assert sum(b" 200 " in answer for answer in answers[:3]) == 2
        (refused,) = (answer for answer in answers[:3] if b" 503 " in answer)
        assert b"retry-after: 5" in refused
        assert served.most_worked_on == 2


async def _end_later(served: Served) -> bytes:
    await until(lambda: served.worked_on == 2)
    await asyncio.sleep(0.5)  # more than a request waits
    served.end_work.set()
    return b""


async def test_work_that_takes_too_long_ends_and_makes_room() -> None:
    async with serve(request_seconds=0.2) as served:
        answers = await asyncio.gather(*(served.send(WORK) for _ in range(2)))
        assert all(b" 503 " in answer for answer in answers)
        assert served.worked_on == 0


async def test_what_is_written_is_sent_at_once() -> None:
    """Else the body of each answer waits for its head to be acknowledged."""
    async with serve() as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: bool(served.open_connections))
        [connection] = served.open_connections
        connected = connection.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        writer.close()


async def test_a_body_within_the_limit_arrives_whole() -> None:
    async with serve() as served:
        served.end_work.set()
        close, half = b"Connection: close", b"1f4\r\n" + b"x" * 500 + b"\r\n"
        for sent in (
            post(b"Content-Length: 1000", close, body=b"x" * 1000),
            post(b"Transfer-Encoding: chunked", close, body=half + half + b"0\r\n\r\n"),
        ):
            assert (await served.send(sent)).endswith(b"\r\n\r\n1000")


def test_limits_leave_most_open_files_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed, connections in ((64, 16), (128, 32), (256, 64), (1024, 256), (10**6, 512), (8, 8)):
        monkeypatch.setattr("resource.getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        limits = ConnectionLimits().within_open_files()
        assert limits.connections == connections
        assert limits.connections_per_address < connections


async def test_requests_take_no_connection_of_the_nights(database: Database) -> None:
    async with database.reserve(2, statement_seconds=30) as for_requests, asyncio.TaskGroup() as group:

        async def sleep_long() -> None:
            async with for_requests.connection() as conn:
                await conn.execute("set statement_timeout = '8s'")
                await conn.execute("select pg_sleep(600)")

        async def ask_slowly() -> None:
            with pytest.raises(DatabaseUnavailable, match=r"in use|took more"):
                await sleep_long()

        asking = [group.create_task(ask_slowly()) for _ in range(20)]
        await until(lambda: for_requests.pool.used == 2)
        for _ in range(20):
            async with database.transaction() as conn:
                assert await (await conn.execute("select 1")).fetchone() == (1,)
        assert not any(task.done() and task.exception() for task in asking)


async def test_a_statement_of_a_request_has_an_end(database: Database) -> None:
    async with database.reserve(1, statement_seconds=1) as for_requests:
        with pytest.raises(DatabaseUnavailable, match="took more than 1 seconds"):
            async with for_requests.connection() as conn:
                await conn.execute("select pg_sleep(600)")
        async with for_requests.connection() as conn:
            assert await (await conn.execute("show statement_timeout")).fetchone() == ("1s",)
    async with database.connection() as conn:
        assert await (await conn.execute("show statement_timeout")).fetchone() == ("0",)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_small_pieces_of_an_answer_do_not_wait_for_each_other(host: str) -> None:
    """Nagle's algorithm is off on accepted connections; else each second small write waits for an acknowledgement."""
    without_delay: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        without_delay.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    try:
        listener = listen(host, 0)
    except UsageError:
        pytest.skip(f"this machine has no {host}")
    async with await asyncio.start_server(accept, sock=listener):
        _, writer = await asyncio.open_connection(host, listener.getsockname()[1])
        assert await asyncio.wait_for(without_delay, PATIENCE) == 1
        writer.close()
