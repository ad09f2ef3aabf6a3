"""A run's calls of models: every kind of answer is told apart, money is counted, caps hold, nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import httpx2 as httpx
import openai
import pytest
from pydantic import SecretStr

from consolidator.database import Database
from consolidator.errors import (
    ModelError,
    ModelMalformed,
    ModelRefused,
    ModelTruncated,
    ModelUnavailable,
    OverBudget,
)
from consolidator.jobs.model.calls import ModelCalls
from consolidator.llm.client import ModelRequest, classify_error, retry_delay
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests import nights
from tests.support import PATIENCE

SCHEMA = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
    "additionalProperties": False,
}
Maker = Callable[..., ModelCalls]
GOOD = {"facts": ["The user likes tea."]}


def request(prompt: str = "e1 user: I like tea.", model: str = "gpt-4o-mini") -> ModelRequest:
    return ModelRequest("extract", model, "Find facts.", prompt, "facts", SCHEMA, max_tokens=200)


@pytest.fixture
async def calls(database: Database, settings: Settings) -> AsyncIterator[Maker]:
    made: list[ModelCalls] = []

    def make(server: ModelServer, run: str = "run-1", **more: Any) -> ModelCalls:
        told = {"openai_base_url": server.url, "openai_api_key": SecretStr("sk-none"), "model": "gpt-4o-mini", **more}
        one = ModelCalls(database, settings.model_copy(update=told), run)

        async def at_once(seconds: float) -> None:
            one.counts["slept"] += int(seconds)

        one.sleep = at_once
        made.append(one)
        return one

    yield make
    for one in made:
        await one.close()


async def ask_all(asked: ModelCalls, questions: list[str]) -> None:
    for question in questions:
        await asked.ask(request(question))


async def spent(database: Database) -> list[tuple[Any, ...]]:
    async with database.connection() as conn:
        found = await conn.execute("select outcome, input_tokens, output_tokens, cost from model_call order by id")
        return await found.fetchall()


@pytest.mark.parametrize("shape", ["plain", "fenced", "parts"])
async def test_a_valid_answer_is_read_in_any_shape_that_is_clear(database: Database, calls: Maker, shape: str) -> None:
    told = {
        "plain": ScriptedReply.json(GOOD),
        "fenced": ScriptedReply.fenced(GOOD),
        "parts": ScriptedReply(text=json.dumps(GOOD), parts=True),
    }
    async with ModelServer([told[shape]]) as server:
        asked = calls(server)
        assert await asked.ask(request()) == GOOD
    ((outcome, sent, back, cost),) = await spent(database)
    assert outcome == "answered"
    assert sent > 0
    assert back > 0
    assert cost > 0


BAD: dict[str, tuple[ScriptedReply, type[ModelError], int]] = {
    "invalid JSON": (ScriptedReply(text='{"facts": ['), ModelMalformed, 1),
    "another schema": (ScriptedReply.json({"memories": []}), ModelMalformed, 1),
    "a list": (ScriptedReply.json([]), ModelMalformed, 1),
    "prose": (ScriptedReply(text="There are no facts here."), ModelMalformed, 1),
    "nothing": (ScriptedReply(text=None), ModelMalformed, 1),
    "truncated": (ScriptedReply.truncated(), ModelTruncated, 1),
    "truncated, but whole JSON": (ScriptedReply.truncated(json.dumps(GOOD)), ModelTruncated, 1),
    "a refusal": (ScriptedReply.refused(), ModelRefused, 1),
    "filtered": (ScriptedReply(text="", finish="content_filter"), ModelRefused, 1),
    "quota prose": (ScriptedReply.quota(), ModelUnavailable, 4),
    "an error as an answer": (ScriptedReply.json({"error": "rate limited"}), ModelUnavailable, 4),
    "no completion": (ScriptedReply(body={"detail": "ok"}), ModelUnavailable, 4),
    "overloaded": (ScriptedReply.failed(500), ModelUnavailable, 4),
    "too many requests": (ScriptedReply.failed(429, retry_after=7), ModelUnavailable, 4),
    "a wrong key": (ScriptedReply.failed(401, told="bad key"), ModelUnavailable, 1),
    "too long": (ScriptedReply.failed(400, told="maximum context length is 8192 tokens"), ModelTruncated, 1),
    "a bad request": (ScriptedReply.failed(400, told="invalid prompt"), ModelRefused, 1),
    "cut in the middle": (ScriptedReply(text=json.dumps(GOOD), cut=True), ModelUnavailable, 4),
    "a hang": (ScriptedReply(text=json.dumps(GOOD), hang=30), ModelUnavailable, 4),
}


FREE = {"no completion", "overloaded", "too many requests", "a wrong key", "too long", "a bad request"}


async def test_a_server_that_trickles_is_given_up_as_one_that_hangs_is(database: Database, calls: Maker) -> None:
    asked_for: list[str] = []

    async def trickling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked_for.append((await reader.readuntil(b"\r\n")).decode().split(" ")[1])
        with suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{")
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await reader.read(65_536)
        writer.close()

    server = await asyncio.start_server(trickling, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with ModelServer([]) as unused:
        asked = calls(unused, openai_base_url=url, model_timeout_seconds=0.5)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ModelUnavailable, match="no complete answer"):
                await asked.ask(request())
    server.close()
    assert len(asked_for) == 4
    assert sum((await asked.report())["failures"].values()) == 4


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_answer_is_told_apart_counted_and_not_kept(database: Database, calls: Maker, kind: str) -> None:
    reply, error, times = BAD[kind]
    async with ModelServer([reply]) as server:
        asked = calls(server, model_timeout_seconds=1 if kind == "a hang" else 20)
        with pytest.raises(error):
            await asked.ask(request())
        assert len(server.requests) == times
        told = await asked.report()
        assert told["calls"] == times
        assert sum(told["failures"].values()) == times
        assert asked.counts["slept"] >= (21 if kind == "too many requests" else 0)
        server.answers = [ScriptedReply.json(GOOD)]
        asked.stop_reason = None
        assert await asked.ask(request()) == GOOD  # a bad answer was not kept for the next night
    tried = (await spent(database))[:times]
    assert [tokens > 0 for _, tokens, _, _ in tried] == [kind not in FREE] * times  # what was or may have been paid
    assert [cost > 0 for _, _, _, cost in tried] == [kind not in FREE] * times


async def test_a_server_without_schemas_is_asked_in_plain_words_from_then_on(calls: Maker) -> None:
    def answer(asked: dict[str, Any]) -> ScriptedReply:
        for option in ("max_completion_tokens", "temperature", "response_format"):
            if option in asked:
                return ScriptedReply.unknown_option(option)
        return ScriptedReply.json(GOOD)

    async with ModelServer(answer) as server:
        asked = calls(server)
        for number in range(6):
            assert await asked.ask(request(f"question {number}")) == GOOD
            if number == 0:
                assert len(server.requests) > 1
                server.requests.clear()
        assert len(server.requests) == 5
        assert '"additionalProperties": false' in server.requests[-1]["messages"][0]["content"]


@pytest.mark.parametrize("unknown", ["max_completion_tokens", "temperature", "json_schema"])
async def test_whoever_asks_at_once_learns_together_what_a_server_does_not_know(calls: Maker, unknown: str) -> None:
    """Four questions are on their way before the first is refused: each is asked again without what was unknown."""

    def answer(asked: dict[str, Any]) -> ScriptedReply:
        known = unknown not in asked and asked.get("response_format", {}).get("type") != unknown
        return replace(ScriptedReply.json(GOOD) if known else ScriptedReply.unknown_option(unknown), hang=0.2)

    async with ModelServer(answer) as server:
        asked = calls(server, model_concurrency=4)
        assert await asyncio.gather(*(asked.ask(request(f"question {number}")) for number in range(4))) == [GOOD] * 4
        assert len(server.requests) == 8
    assert asked.client.dialect.json_mode == ("object" if unknown == "json_schema" else "schema")


@pytest.mark.parametrize(
    ("cause", "paid"),
    [
        (httpx.ConnectError("refused"), False),
        (httpx.ConnectTimeout("a full backlog"), False),
        (httpx.PoolTimeout("no connection"), False),
        (httpx.UnsupportedProtocol("no scheme"), False),
        (httpx.LocalProtocolError("an illegal header"), False),
        (httpx.ReadTimeout("no answer"), True),
        (httpx.ReadError("reset"), True),
        (httpx.RemoteProtocolError("gone"), True),
    ],
)
def test_a_question_that_never_left_is_not_paid(cause: httpx.TransportError, paid: bool) -> None:
    asked = httpx.Request("POST", "http://127.0.0.1/v1")
    late = isinstance(cause, httpx.TimeoutException)
    error = openai.APITimeoutError(asked) if late else openai.APIConnectionError(request=asked)
    error.__cause__ = cause
    found = classify_error(error)
    assert isinstance(found, ModelUnavailable)
    assert found.may_be_charged is paid


async def test_an_answer_is_paid_once_whoever_asks_again(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        for run in ("run-1", "run-1", "run-2"):
            asked = calls(server, run)
            assert await asked.ask(request()) == GOOD
            assert len(server.requests) == 1


async def test_no_secret_leaves_the_process(calls: Maker) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        asked = calls(server)
        await asked.ask(request(f"e1 user: my token is {secret}"))
        assert not any(secret in body for body in server.raw)
        assert "[redacted:" in server.raw[0]


async def test_i12_a_run_stops_at_its_cap_in_tokens_and_in_money(calls: Maker) -> None:
    caps: list[dict[str, Any]] = [{"night_max_tokens": 900}, {"night_max_cost_usd": Decimal("0.0003")}]
    for number, cap in enumerate(caps):
        async with ModelServer([ScriptedReply.json(GOOD)]) as server:
            asked = calls(server, f"capped-{number}", **cap)
            with pytest.raises(OverBudget):
                await ask_all(asked, [f"{number} question {question}" for question in range(50)])
            told = await asked.report()
            assert "the run's cap is reached" in told["stopped"]
            assert told["calls"] >= 1
            assert told["input_tokens"] + told["output_tokens"] <= 900
            assert Decimal(told["cost_usd"]) <= Decimal("0.0003")
            assert len(server.requests) == told["calls"]


async def test_i12_a_model_without_a_known_price_refuses_a_cap_in_money(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        asked = calls(server, night_max_cost_usd=Decimal(5))
        with pytest.raises(OverBudget, match="the price of house-model is unknown"):
            await asked.ask(request(model="house-model"))
        assert not server.requests
        asked = calls(server)
        assert await asked.ask(request(model="house-model")) == GOOD
        told = await asked.report()
        assert "cost_usd" not in told
        assert told["input_tokens"] > 0


async def test_i12_a_call_whose_process_died_has_cost_its_reserve(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        dead = calls(server, night_max_tokens=900)
        await dead.reserve(request("asked by the dead"), None)
        await dead.reserve(request("and again"), None)
        asked = calls(server, night_max_tokens=900)
        with pytest.raises(OverBudget):
            await ask_all(asked, [f"question {number}" for number in range(3)])
        assert len(server.requests) <= 1


async def test_a_run_stops_asking_a_server_that_is_down(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.failed(503)]) as server:
        asked = calls(server)
        for number in range(9):
            with pytest.raises(ModelUnavailable):
                await asked.ask(request(f"question {number}"))
        assert len(server.requests) == 5 * 4
        assert "in a row" in (await asked.report())["stopped"]


async def test_a_server_that_asks_for_a_long_rest_is_asked_no_more_in_this_run(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.failed(429, retry_after=3600)]) as server:
        asked = calls(server)
        for number in range(3):
            with pytest.raises(ModelUnavailable, match="a pause of 3600 s" if number else "429"):
                await asked.ask(request(f"question {number}"))
        assert len(server.requests) == 1
        assert asked.counts["slept"] == 0


async def test_all_calls_wait_where_a_server_asks_for_rest(calls: Maker) -> None:
    async with ModelServer([ScriptedReply.failed(429, retry_after=50), ScriptedReply.json(GOOD)]) as server:
        asked = calls(server)
        assert await asked.ask(request("one")) == GOOD
        assert await asked.ask(request("two")) == GOOD
        assert asked.counts["slept"] > 90  # the second question waited, too


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Mon, 02 Mar 2026 12:00:30 GMT", "date": "Mon, 02 Mar 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 02 Mar 2020 12:00:30 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wish_for_rest_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_delay(headers) == seconds


async def test_so_many_calls_at_a_time_and_no_more(calls: Maker) -> None:
    at_once = Counter[str]()

    async with ModelServer([replace(ScriptedReply.json(GOOD), hang=0.2)]) as server:
        asked = calls(server, model_concurrency=2)
        real = asked.client.send

        async def sent(question: ModelRequest) -> Any:
            at_once["now"] += 1
            at_once["most"] = max(at_once["most"], at_once["now"])
            try:
                return await real(question)
            finally:
                at_once["now"] -= 1

        with patch.object(type(asked.client), "send", lambda _, question: sent(question)):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(asked.ask(request(f"question {number}")) for number in range(8)))
    assert at_once["most"] == 2


async def test_without_a_cap_nobody_waits_for_the_sum_of_what_the_run_has_spent(
    database: Database, calls: Maker
) -> None:
    summing = "select pg_advisory_xact_lock(hashtextextended('consolidator.budget:run-1', 0))"
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        asked = calls(server)
        with nights.hold_locks(database.dsn, summing):  # as another replica does that has a cap
            async with asyncio.timeout(PATIENCE):
                assert await asked.ask(request()) == GOOD
    assert len(await spent(database)) == 1
