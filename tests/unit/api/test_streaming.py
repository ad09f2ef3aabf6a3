"""Streams of server-sent events end with a reason, whatever ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

from consolidator.api import streaming
from consolidator.errors import DatabaseUnavailable


async def test_a_database_that_does_not_answer_ends_a_stream_in_words() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"one"
        raise DatabaseUnavailable("all connections to the database are in use; try again")

    call: Any = SimpleNamespace(services=SimpleNamespace(stopping=asyncio.Event()))
    response = streaming._respond(call, frames())
    assert [cast(bytes, frame) async for frame in response.body_iterator] == [
        b"one",
        b'event: end\ndata: {"reason":"unavailable"}\n\n',
    ]
