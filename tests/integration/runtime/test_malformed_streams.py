"""Whatever a server streams, a turn ends in words, and the next one is answered."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Database
from tests.databases import fetch_dicts
from tests.nights import query_rows
from tests.runtime import open_agent, send_and_collect
from tests.support import FULL, PATIENCE

Chunk = dict[str, Any]
ODD = [
    None, "", 0, -1, 1.5, True, [], {}, "x", "\ud800", "\0", 10**30, [None], {"a": 1}, "length", "tool_calls", math.nan,
]  # fmt: skip


def chunk(delta: Any, finish: str | None = None) -> Chunk:
    """A piece of an answer, as a server streams it."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini", "choices": [choice]}


COUNTED = {**chunk({}), "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
ANSWER = [chunk({"role": "assistant", "content": ""}), chunk({"content": "hello"}), chunk({}, "stop"), COUNTED]
ASKING = [
    chunk({"role": "assistant", "content": "let me see"}),
    chunk({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "look", "arguments": '{"at": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"x"}'}}]}),
    chunk({}, "tool_calls"),
    COUNTED,
]


SIZES = "select length(data::text) as size from event union all select length(delta) from generation_chunk"


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"{at} was seen"


def value_paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*above, key)
        yield from value_paths(item, (*above, key))


def corrupt(chunks: list[Chunk], dice: random.Random) -> list[Chunk]:
    """Return a stream with something missing, twice, out of order, or in place of something else."""
    changed = copy.deepcopy(chunks)
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        *above, last = dice.choice(list(value_paths(changed)))
        inner: Any = changed
        for key in above:
            inner = inner[key]
        match dice.randrange(6):
            case 0:
                dice.shuffle(changed)
            case 1:
                del inner[last]
            case 2 if isinstance(inner, list):
                inner.insert(0, copy.deepcopy(inner[last]))
            case _:
                inner[last] = copy.deepcopy(dice.choice(ODD))
        if not changed:
            break
    return changed


@contextlib.asynccontextmanager
async def serve_stream(answer: Callable[[dict[str, Any]], list[Chunk]]) -> AsyncIterator[str]:
    """Serve streams of whatever shape over HTTP; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        request = json.loads(await reader.readexactly(length))
        payload = (
            b"".join(b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in answer(request))
            + b"data: [DONE]\n\n"
        )
        kind = b"content-type: text/event-stream\r\nconnection: close\r\n"
        with contextlib.suppress(ConnectionError):  # whoever asked has had enough
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"content-length: %d\r\n\r\n" % len(payload) + payload)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("seed", range(40 if FULL else 4))
async def test_a_turn_ends_in_words_and_the_next_one_is_answered(database: Database, seed: int) -> None:
    dice, strange = random.Random(seed), True

    def answer(request: dict[str, Any]) -> list[Chunk]:
        chunks = ANSWER if request["messages"][-1]["role"] == "tool" else ASKING
        return corrupt(chunks, dice) if strange else ANSWER

    async with serve_stream(answer) as url, open_agent(database, url, [look]) as agent:
        for number in range(20):
            strange = True
            session = await agent.open(f"main:test:{number}", max_cost_usd=50)
            async with asyncio.timeout(PATIENCE):
                assert isinstance(await send_and_collect(session, "go"), str)
                strange = False
                assert (await send_and_collect(session, "again")).endswith("hello")


@pytest.mark.parametrize("delta", [{"content": "on and on "}, ASKING[2]["choices"][0]["delta"], {}])
async def test_a_server_that_never_ends_is_heard_no_longer_than_was_asked_for(database: Database, delta: Any) -> None:
    lying = True

    def answer(_: dict[str, Any]) -> list[Chunk]:
        return [chunk(delta)] * 4000 if lying else ANSWER

    async with serve_stream(answer) as url, open_agent(database, url, [look]) as agent:
        session = await agent.open("main:test:ada", answer_tokens=10)
        async with asyncio.timeout(PATIENCE):
            assert "beyond the requested length" in await send_and_collect(session, "go")
            lying = False
            assert (await send_and_collect(session, "again")).endswith("hello")
    async with database.connection() as conn:
        assert sum(row["size"] for row in await fetch_dicts(conn, SIZES)) < 100_000


def call_delta(index: Any, name: str | None, arguments: str, call_id: str | None = None) -> Chunk:
    function = {"name": name, "arguments": arguments} if name is not None else {"arguments": arguments}
    fields = {"index": index, "id": call_id, "type": "function", "function": function}
    return chunk({"tool_calls": [{key: value for key, value in fields.items() if value is not None}]})


CALLS: dict[str, list[Chunk]] = {
    "each has number 0, and an id": [
        call_delta(0, "look", '{"at": "a"}', "1"),
        call_delta(0, "look", '{"at": "b"}', "2"),
    ],
    "each has number 0, and comes whole without an id": [
        call_delta(0, "look", '{"at": "a"}'),
        call_delta(0, "look", '{"at": "b"}'),
    ],
    "each has number 0, and comes in pieces": [
        call_delta(0, "look", '{"at"', "1"),
        call_delta(0, None, ': "a"}'),
        call_delta(0, "look", '{"at"', "2"),
        call_delta(0, None, ': "b"}'),
    ],
    "each has number 0, and their pieces alternate": [
        call_delta(0, "look", '{"at"', "1"),
        call_delta(0, "look", '{"at"', "2"),
        call_delta(0, None, ': "a"}', "1"),
        call_delta(0, None, ': "b"}', "2"),
    ],
    "the name comes with each piece": [
        call_delta(0, "look", '{"at": ', "1"),
        call_delta(0, "look", '"a"}', "1"),
        call_delta(1, "look", '{"at": ', "2"),
        call_delta(1, "look", '"b"}', "2"),
    ],
    "the name comes in pieces": [
        call_delta(0, "lo", "", "1"),
        call_delta(0, "ok", '{"at": "a"}'),
        call_delta(1, "look", '{"at": "b"}', "2"),
    ],
    "no number, but an id": [
        call_delta(None, "look", '{"at": ', "1"),
        call_delta(None, "look", '{"at": "b"}', "2"),
        call_delta(None, None, '"a"}', "1"),
    ],
    "another id with each piece": [
        call_delta(0, "look", '{"at": ', "1"),
        call_delta(0, None, '"a"}', "2"),
        call_delta(1, "look", '{"at": "b"}', "3"),
    ],
    "the same id with two numbers": [
        call_delta(0, "look", '{"at": "a"}', "1"),
        call_delta(1, "look", '{"at": "b"}', "1"),
    ],
}


@pytest.mark.parametrize("kind", CALLS)
async def test_parallel_calls_are_told_apart_however_a_server_numbers_them(database: Database, kind: str) -> None:
    def answer(request: dict[str, Any]) -> list[Chunk]:
        return ANSWER if request["messages"][-1]["role"] == "tool" else [*CALLS[kind], chunk({}, "tool_calls"), COUNTED]

    async with serve_stream(answer) as url, open_agent(database, url, [look]) as agent:
        session = await agent.open("main:test:calls")
        assert await send_and_collect(session, "look") == "hello"
        rows = await query_rows(database, "select data from event where event_type = 'ToolResult' order by seq")
    assert [row["data"]["content"] for row in rows] == ["a was seen", "b was seen"]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}],
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hello"}],
        {"type": "text", "text": "hello"},
        ["hel", "lo"],
    ],
)
async def test_the_parts_of_a_text_are_stored_as_text(database: Database, content: Any) -> None:
    stream = [chunk({"content": content}), chunk({}, "stop"), COUNTED]
    async with serve_stream(lambda _: stream) as url, open_agent(database, url) as agent:
        assert await send_and_collect(await agent.open("main:test:parts"), "hi") == "hello"
        rows = await query_rows(database, "select data from event where event_type = 'AssistantResponse'")
    assert [row["data"]["text"] for row in rows] == ["hello"]


CUTS = {
    "length": ([chunk({"content": "Hello the"})], "it reached its limit of 4,096 tokens"),
    "content_filter": ([chunk({"content": "Hello the"})], "by a content filter"),
    "stop": ([chunk({"role": "assistant", "content": ""})], "was empty"),
}


@pytest.mark.parametrize("finish", CUTS)
async def test_a_person_and_the_model_are_told_that_an_answer_is_not_whole(database: Database, finish: str) -> None:
    pieces, notice = CUTS[finish]
    requests: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> list[Chunk]:
        requests.append(request)
        return [*pieces, chunk({}, finish), COUNTED] if len(requests) == 1 else ANSWER

    async with serve_stream(answer) as url, open_agent(database, url) as agent:
        session = await agent.open("main:test:cut")
        assert notice in await send_and_collect(session, "hi")
        assert session.result is not None
        assert session.result.finish_reason == "stop"
        assert (await session.info()).error is None
        assert await send_and_collect(session, "go on") == "hello"
        rows = await query_rows(
            database,
            "select event_type, data from event where event_type in ('AssistantResponse', 'Error') order by seq",
        )
    assert [row["data"].get("finish") or row["data"]["kind"] for row in rows] == [finish, "cut", "stop"]
    assert any(notice in str(message["content"]) for message in requests[-1]["messages"])
