"""Where the server goes away under us, the next operation works again."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from functools import partial

import psutil
import psycopg
import pytest

from consolidator.clock import Clock
from consolidator.database import Database
from consolidator.database.connections import check_server
from consolidator.errors import DatabaseUnavailable
from consolidator.store.log import events
from tests.support import PATIENCE, assert_invariants, log_events, user_message

IDLE_CONNECTIONS = 4  # connections that wait in the pool


async def texts(database: Database) -> list[str]:
    """Return the texts of the session."""
    async with database.connection() as conn:
        return [event.data["text"] for event in await events.read(conn, "s")]


async def fill_pool(database: Database) -> None:
    """Leave idle connections in the pool."""

    async def hold_connection() -> None:
        async with database.connection() as conn:
            await conn.execute("select pg_sleep(0.1)")

    await asyncio.gather(*(hold_connection() for _ in range(IDLE_CONNECTIONS)))


def kill(database: Database) -> None:
    """Kill the embedded server, and wait until all of it is gone."""
    assert database.server is not None
    postmaster = psutil.Process(int(database.server.info()["pid"]))
    everyone = [*postmaster.children(recursive=True), postmaster]
    os.kill(postmaster.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(everyone, timeout=PATIENCE)
    assert not alive


async def hit_midway(database: Database, blow: Callable[[], object], *, then: str | None = "select 1") -> None:
    """Append in a transaction that the server's end interrupts, before another statement or before the commit."""
    async with database.transaction() as conn:
        await events.append(conn, "s", [user_message("lost")], now=database.clock.now())
        await asyncio.to_thread(blow)
        if then:
            await conn.execute(then.encode())


@pytest.mark.embedded
async def test_an_embedded_server_that_is_killed_comes_back_with_what_was_committed(embedded: Database) -> None:
    await log_events(embedded, "s", [user_message("before")])
    await fill_pool(embedded)
    await asyncio.to_thread(kill, embedded)
    await log_events(embedded, "s", [user_message("after")])
    await asyncio.to_thread(kill, embedded)
    await asyncio.gather(
        *(log_events(embedded, f"s{number}", [user_message("at once")]) for number in range(IDLE_CONNECTIONS))
    )
    assert await texts(embedded) == ["before", "after"]
    await assert_invariants(embedded)


@pytest.mark.embedded
async def test_an_operation_that_is_hit_says_so_and_the_next_one_works(embedded: Database) -> None:
    await log_events(embedded, "s", [user_message("before")])
    with pytest.raises(DatabaseUnavailable, match="went away"):
        await hit_midway(embedded, partial(kill, embedded))
    await log_events(embedded, "s", [user_message("after")])
    assert await texts(embedded) == ["before", "after"]


def terminate(dsn: str) -> int:
    """Have the server hang up on everyone else who uses this database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        cursor = conn.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return len(cursor.fetchall())


async def test_idle_connections_that_were_cut_are_replaced(database: Database, dsn: str) -> None:
    await log_events(database, "s", [user_message("before")])
    await fill_pool(database)
    assert await asyncio.to_thread(terminate, dsn) >= IDLE_CONNECTIONS
    await asyncio.gather(
        *(log_events(database, f"s{number}", [user_message("at once")]) for number in range(IDLE_CONNECTIONS))
    )
    await log_events(database, "s", [user_message("after")])
    assert await texts(database) == ["before", "after"]


async def test_an_operation_whose_connection_is_cut_says_so_and_leaves_nothing(database: Database, dsn: str) -> None:
    await log_events(database, "s", [user_message("before")])
    with pytest.raises(DatabaseUnavailable, match="went away"):
        await hit_midway(database, partial(terminate, dsn))
    await log_events(database, "s", [user_message("after")])
    assert await texts(database) == ["before", "after"]


async def test_a_connection_cut_between_the_last_word_and_the_commit_says_so(database: Database, dsn: str) -> None:
    await log_events(database, "s", [user_message("before")])
    with pytest.raises(DatabaseUnavailable, match="went away"):
        await hit_midway(database, partial(terminate, dsn), then=None)
    assert await texts(database) == ["before"]


async def test_a_server_that_cannot_be_reached_is_named_without_its_password(clock: Clock) -> None:
    unreachable = Database("postgresql://ann:sesame@127.0.0.1:1/shop", clock)
    with pytest.raises(DatabaseUnavailable, match="cannot connect") as error:
        await texts(unreachable)
    assert "127.0.0.1" in str(error.value)
    assert "sesame" not in str(error.value)
    await unreachable.close()


async def test_a_connect_that_is_cancelled_leaves_no_half_open_connection(clock: Clock) -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        while await reader.read(4096):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    slow = Database(f"host=127.0.0.1 port={port} dbname=x user=x sslmode=disable", clock)
    gc.disable()  # a connection left to the garbage collector would stay open until it runs
    try:
        connecting = asyncio.create_task(check_server(slow))
        await asyncio.wait_for(connected.wait(), PATIENCE)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await asyncio.wait_for(closed.wait(), PATIENCE)
    finally:
        gc.enable()
        await slow.close()
        server.close()
