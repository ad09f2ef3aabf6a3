"""Connections stay open from one use to the next, and are closed when nobody takes them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from consolidator.database import Database, pool

AT_ONCE = 12


async def use_at_once(database: Database) -> set[int]:
    """Hold several connections at the same time; return the processes of the server behind them."""
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(database.connection()) for _ in range(AT_ONCE)]
        return {conn.info.backend_pid for conn in connections}


async def test_what_was_used_at_once_is_used_again(database: Database) -> None:
    first = await use_at_once(database)
    assert len(first) == AT_ONCE
    assert await use_at_once(database) == first


async def test_a_connection_that_nobody_takes_is_closed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await use_at_once(database)
    monkeypatch.setattr(pool, "_IDLE_SECONDS", 0.0)
    for _ in range(AT_ONCE):
        await asyncio.sleep(0.001)  # so that the clock moves on
        async with database.connection():
            pass
    monkeypatch.undo()
    assert len(await use_at_once(database) & first) <= 1


async def test_reserved_connections_can_be_reserved_again_and_each_statement_ends_in_time(database: Database) -> None:
    async with (
        database.reserve(1, statement_seconds=60) as few,
        few.reserve(1, statement_seconds=30) as fewer,
        fewer.connection() as conn,
    ):
        row = await (await conn.execute("select current_setting('statement_timeout')")).fetchone()
    assert row == ("30s",)
