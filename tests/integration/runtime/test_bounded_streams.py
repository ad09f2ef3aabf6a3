"""A model's server that sends without end ends the turn in words; what it reports of usage lowers no cost."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.errors import ModelUnavailable
from consolidator.llm import protocol
from consolidator.llm.client import ModelClient, ModelRequest
from consolidator.llm.prices import calculate_cost
from consolidator.llm.tokens import count_tokens, settled_tokens
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import query_rows
from tests.runtime import KEY, open_agent, send_and_collect

QUESTION = ModelRequest("extract", "gpt-4o-mini", "You are brief.", "What is it?", "facts", {"type": "object"}, 100)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
JSON_HEAD = HEAD.replace(b"text/event-stream", b"application/json")
Parts = Callable[[], AsyncIterator[bytes]]


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


async def repeat(head: bytes, part: bytes, *, pause: float = 0) -> AsyncIterator[bytes]:
    yield head
    while True:
        yield part
        await asyncio.sleep(pause)


async def once(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@contextlib.asynccontextmanager
async def serve(parts: Parts) -> AsyncIterator[tuple[str, list[int]]]:
    """Answer every request with these parts; yield the address, and the bytes that were sent in each answer."""
    sent: list[int] = []
    answering: set[asyncio.Task[Any]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            number = len(sent)
            sent.append(0)
            async for part in parts():
                if reader.at_eof():
                    break
                writer.write(part)
                await writer.drain()
                sent[number] += len(part)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", sent
    finally:
        server.close()
        if answering:
            await asyncio.wait(answering, timeout=10)


TEXT = event({"content": "x"})
STREAMS: dict[str, Parts] = {
    "a line without end": lambda: repeat(HEAD + b"data: ", b"x" * 65536),
    "a line without end, of a text": lambda: repeat(
        HEAD + event({"content": "hello"}) + b'data: {"a": "', b"x" * 65536
    ),
    "comments without end": lambda: repeat(HEAD, b": still there\n\n", pause=0.01),
    "empty lines without end": lambda: repeat(HEAD, b"\n" * 100, pause=0.01),
    "empty pieces without end": lambda: repeat(HEAD, event({}), pause=0.001),
    "pieces with a role alone": lambda: repeat(HEAD, event({"role": "assistant", "content": ""}), pause=0.001),
    "text without end": lambda: repeat(HEAD, event({"content": "x" * 5000})),
    "calls without end": lambda: repeat(
        HEAD, event({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 5000}}]})
    ),
    "new calls without end": lambda: repeat(
        HEAD, event({"tool_calls": [{"index": None, "id": "x", "function": {"name": "n" * 500, "arguments": ""}}] * 9})
    ),
    "megabytes in one piece": lambda: once(HEAD, event({"content": "x" * 5_000_000}), event({}, "stop")),
    "a name of a megabyte": lambda: once(
        HEAD,
        event({"tool_calls": [{"index": 0, "function": {"name": "n" * 1_000_000, "arguments": "{}"}}]}),
        event({}, "stop"),
    ),
    "a compressed answer": lambda: once(
        HEAD.replace(b"connection", b"content-encoding: gzip\r\nconnection"), gzip.compress(b"x" * 50_000_000)
    ),
    "an answer that does not begin": lambda: repeat(b"", b"", pause=0.05),
    "refusals without end": lambda: repeat(HEAD, event({"refusal": "no " * 2000})),
}


@tool(side_effect=False)
def look(at: str = "") -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_stream_that_is_too_long_ends_the_turn_in_words(database: Database, kind: str) -> None:
    async with serve(STREAMS[kind]) as (url, sent), open_agent(database, url, [look], model_timeout_seconds=1) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "hello")
        assert session.result is not None
        assert session.result.finish_reason == "error"
        assert len(sent) <= 3
        assert max(sent) < 20_000_000
    rows = await query_rows(database, "select length(data::text) as size from event")
    assert sum(row["size"] for row in rows) < 100_000
    rows = await query_rows(database, "select coalesce(sum(length(delta)), 0) as size from generation_chunk")
    assert rows[0]["size"] < 3 * 1_000_000


ANSWERS: dict[str, tuple[Parts, str]] = {
    "no end": (lambda: repeat(JSON_HEAD, b" " * 65536), "sent more than"),
    "no end of a text": (
        lambda: repeat(JSON_HEAD + b'{"choices": [{"message": {"content": "', b"x" * 65536),
        "sent more",
    ),
    "compressed": (
        lambda: once(
            JSON_HEAD.replace(b"connection", b"content-encoding: gzip\r\nconnection"), gzip.compress(b" " * 10**7)
        ),
        "compressed",
    ),
    "a trickle": (lambda: repeat(JSON_HEAD, b" ", pause=0.05), "no complete answer"),
    "nothing": (lambda: repeat(b"", b"", pause=0.05), "answer"),
    "deep": (lambda: once(JSON_HEAD, b"[" * 1_000_000), "not a completion"),
    "a circle": (
        lambda: once(b"HTTP/1.1 308 Go\r\nlocation: /v1/chat/completions\r\ncontent-length: 0\r\n\r\n"),
        "redirect",
    ),
    "an error without end": (lambda: repeat(JSON_HEAD.replace(b"200 OK", b"500 No"), b"x" * 65536), "sent more than"),
    "headers without end": (lambda: repeat(b"HTTP/1.1 200 OK\r\n", b"x-a: " + b"y" * 5000 + b"\r\n"), "reached"),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_that_is_too_long_is_no_answer(kind: str) -> None:
    parts, reason = ANSWERS[kind]
    async with serve(parts) as (url, sent):
        client = ModelClient(url, "key", timeout=3)
        with pytest.raises(ModelUnavailable, match=f"(?i){reason}"):
            await client.send(QUESTION)
        await client.close()
        assert len(sent) <= protocol.MAX_REDIRECTS + 1
        assert max(sent) < 20_000_000


def redirect(status: int, location: str) -> Parts:
    return lambda: once(f"HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_another_origin_is_not_followed(database: Database, status: int) -> None:
    completion = {"choices": [{"message": {"content": '{"taken": true}'}, "finish_reason": "stop"}]}
    async with (
        serve(lambda: once(JSON_HEAD, json.dumps(completion).encode())) as (elsewhere, received),
        serve(redirect(status, f"{elsewhere}/chat/completions")) as (url, sent),
    ):
        client = ModelClient(url, "key", timeout=3)
        with pytest.raises(ModelUnavailable, match="redirects to another address") as refused:
            await client.send(QUESTION)
        await client.close()
        assert refused.value.is_permanent
        assert elsewhere.removesuffix("/v1") in str(refused.value)
        async with open_agent(database, url, [look]) as agent:
            session = await agent.open(KEY)
            shown = await send_and_collect(session, "hello")
        assert "redirects to another address" in "".join(map(str, shown))
        assert (len(sent), received) == (2, [])


@pytest.mark.parametrize(
    "location", ["https://127.0.0.1:{port}/v1/x", "//localhost:{port}/v1/x", "http://127.0.0.1:1/"]
)
async def test_another_scheme_name_or_port_is_another_origin(location: str) -> None:
    targets: list[str] = []
    async with serve(lambda: redirect(307, targets[0])()) as (url, sent):
        targets.append(location.format(port=url.split(":")[2].split("/")[0]))
        client = ModelClient(url, "key", timeout=3)
        with pytest.raises(ModelUnavailable, match="redirects to another address"):
            await client.send(QUESTION)
        await client.close()
        assert len(sent) == 1


async def test_a_redirect_within_the_origin_is_followed() -> None:
    completion = {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}
    answers: list[Parts] = [
        redirect(307, "/v2/chat/completions"),
        lambda: once(JSON_HEAD, json.dumps(completion).encode()),
    ]
    async with serve(lambda: answers.pop(0)()) as (url, sent):
        client = ModelClient(url, "key", timeout=3)
        assert (await client.send(QUESTION)).text == "{}"
        await client.close()
        assert len(sent) == 2


USAGES: dict[str, Any] = {
    "zero": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "one": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "negative": {"prompt_tokens": -1000, "completion_tokens": -1000, "total_tokens": -2000},
    "missing": {},
    "half": {"completion_tokens": 3},
    "text": {"prompt_tokens": "0", "completion_tokens": "0"},
    "fractions": {"prompt_tokens": 0.5, "completion_tokens": 1e-9},
    "no numbers": {"prompt_tokens": [], "completion_tokens": {"a": 1}},
    "truth": {"prompt_tokens": True, "completion_tokens": False},
    "null": {"prompt_tokens": None, "completion_tokens": None},
    "all cached": {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 10**6}},
    "too many": {"prompt_tokens": 10**8, "completion_tokens": 10**8},
    "absurd": {"prompt_tokens": 10**30, "completion_tokens": 10**30},
}
LONG_TEXT = "It is as it is, and it was as it was. " * 50


@pytest.mark.parametrize("kind", USAGES)
async def test_a_call_costs_at_least_what_was_sent_and_received(database: Database, kind: str) -> None:
    reply = ScriptedReply(text=LONG_TEXT, usage=USAGES[kind])
    async with ModelServer([reply]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, model="gpt-4o", system="You are brief. " * 200)
        await send_and_collect(session, "How is it?")
        info = await session.info()
    least = calculate_cost(
        "gpt-4o", input_tokens=count_tokens("You are brief. " * 200), output_tokens=count_tokens(LONG_TEXT)
    )
    assert least is not None
    assert least <= info.cost <= least + (calculate_cost("gpt-4o", input_tokens=200_000, output_tokens=200_000) or 0)
    assert info.reserved == 0
    (spent,) = await query_rows(database, "select input_tokens, cached_tokens, output_tokens from spend")
    assert 0 <= spent["cached_tokens"] <= spent["input_tokens"]


@pytest.mark.parametrize("kind", ["zero", "negative", "text", "all cached", "absurd"])
async def test_i12_a_cap_holds_against_a_server_that_reports_nothing(database: Database, kind: str) -> None:
    cap = Decimal("0.20")
    reply = ScriptedReply(text=LONG_TEXT, usage=USAGES[kind])
    async with ModelServer([reply]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, model="gpt-4o", max_cost_usd=cap, system="You are brief. " * 200)
        reasons: list[str] = []
        while "budget" not in reasons and len(reasons) < 60:
            await send_and_collect(session, "How is it?")
            assert session.result is not None
            reasons.append(session.result.finish_reason)
        assert reasons[-1] == "budget"


@pytest.mark.parametrize("kind", USAGES)
async def test_a_nights_call_costs_at_least_what_was_sent_and_received(kind: str) -> None:
    async with ModelServer([ScriptedReply(text='{"facts": []}', usage=USAGES[kind])]) as server:
        client = ModelClient(server.url, "key", timeout=20)
        reply = await client.send(QUESTION)
        await client.close()
    assert count_tokens("You are brief.") + count_tokens("What is it?") <= reply.input_tokens <= 110_000
    assert count_tokens('{"facts": []}') <= reply.output_tokens <= 110_000
    assert 0 <= reply.cached_tokens <= reply.input_tokens


@pytest.mark.parametrize(
    ("reported", "counted", "settled"),
    [
        (0, 10, 10),
        (11, 10, 11),
        (None, 10, 10),
        ("99", 10, 10),
        (10**9, 10, 100_040),
        (-5, 0, 0),
        (3.5, 7, 7),
        (True, 4, 4),
    ],
)
def test_the_larger_count_settles(reported: Any, counted: int, settled: int) -> None:
    assert settled_tokens(reported, counted) == settled
