"""A run's calls of models: answers are classified, costs are counted, caps hold, nothing is paid for twice."""

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
    Interrupted,
    ModelError,
    ModelMalformed,
    ModelRefused,
    ModelTruncated,
    ModelUnavailable,
    OverBudget,
)
from consolidator.jobs.model.calls import ModelCalls, plan_call
from consolidator.llm.client import ModelClient, ModelRequest, classify_error, retry_delay
from consolidator.settings import Settings
from consolidator.store.nights import model_calls
from consolidator.testing import ModelServer, ScriptedReply
from tests import nights
from tests.databases import fetch_dicts
from tests.support import PATIENCE

SCHEMA = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
    "additionalProperties": False,
}
CallsFactory = Callable[..., ModelCalls]
GOOD = {"facts": ["The user likes tea."]}


def make_request(prompt: str = "e1 user: I like tea.", model: str = "gpt-4o-mini") -> ModelRequest:
    return ModelRequest("extract", model, "Find facts.", prompt, "facts", SCHEMA, max_tokens=200)


@pytest.fixture
async def create_calls(database: Database, settings: Settings) -> AsyncIterator[CallsFactory]:
    created: list[ModelCalls] = []

    def create(server: ModelServer, run: str = "run-1", **more: Any) -> ModelCalls:
        update = {"openai_base_url": server.url, "openai_api_key": SecretStr("sk-none"), "model": "gpt-4o-mini", **more}
        calls = ModelCalls(database, settings.model_copy(update=update), run)

        async def count_sleep(seconds: float) -> None:
            calls.counts["slept"] += int(seconds)

        calls.sleep = count_sleep
        created.append(calls)
        return calls

    yield create
    for calls in created:
        await calls.close()


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None, "completion_tokens": -3}, {"prompt_tokens": "9"}])
async def test_a_server_that_reports_no_usage_is_counted(
    create_calls: CallsFactory, database: Database, usage: dict[str, Any]
) -> None:
    async with ModelServer(lambda _: ScriptedReply(json.dumps(GOOD), usage=usage)) as server:
        calls = create_calls(server)
        assert await calls.ask(make_request()) == GOOD
    async with database.connection() as conn:
        (row,) = await fetch_dicts(conn, "select input_tokens, output_tokens from model_call")
    assert min(row["input_tokens"], row["output_tokens"]) > 5


async def ask_all(calls: ModelCalls, questions: list[str]) -> None:
    for question in questions:
        await calls.ask(make_request(question))


async def load_calls(database: Database) -> list[tuple[Any, ...]]:
    async with database.connection() as conn:
        cursor = await conn.execute("select outcome, input_tokens, output_tokens, cost from model_call order by id")
        return await cursor.fetchall()


SHAPES = {
    "thinking before it": "<think>\nperhaps {FAKE}\n</think>\n{GOOD}",
    "thinking whose start is missing": "so {FAKE} it is\n</think>\n\n{GOOD}",
    "thinking of other names": "<reasoning>{FAKE}</reasoning> {GOOD}",
    "thinking and a fence": "<thinking>no {FAKE}</thinking>\n```json\n{GOOD}\n```\n",
    "prose around it": "Here are the facts [1 event]:\n\n{GOOD}\n\nLet me know if you need more.",
    "prose with words in braces": "Of {event 1} and {event 2}:\n{GOOD}\nI left {name} as it is.",
    "prose and a fence": "Sure!\n```\n{GOOD}\n```\nThat is all.",
    "thinking within an answer": '{"facts": ["he wrote </think> in a log"]}',
}


@pytest.mark.parametrize("shape", ["plain", "fenced", "parts", *SHAPES])
async def test_a_valid_answer_is_read_in_any_shape_that_is_clear(
    database: Database, create_calls: CallsFactory, shape: str
) -> None:
    replies = {
        "plain": ScriptedReply.json(GOOD),
        "fenced": ScriptedReply(text=f"```json\n{json.dumps(GOOD)}\n```"),
        "parts": ScriptedReply(text=json.dumps(GOOD), as_parts=True),
    }
    if shape in SHAPES:
        text = SHAPES[shape].replace("{FAKE}", '{"facts": ["made up"]}').replace("{GOOD}", json.dumps(GOOD))
        replies = {shape: ScriptedReply(text=text)}
    async with ModelServer([replies[shape]]) as server:
        calls = create_calls(server)
        assert await calls.ask(make_request()) == (json.loads(text) if shape == "thinking within an answer" else GOOD)
        assert len(server.requests) == 1
    ((outcome, input_tokens, output_tokens, cost),) = await load_calls(database)
    assert outcome == "answered"
    assert input_tokens > 0
    assert output_tokens > 0
    assert cost > 0


BAD: dict[str, tuple[ScriptedReply, type[ModelError], int]] = {
    "invalid JSON": (ScriptedReply(text='{"facts": ['), ModelMalformed, 1),
    "another schema": (ScriptedReply.json({"memories": []}), ModelMalformed, 1),
    "a list": (ScriptedReply.json([]), ModelMalformed, 1),
    "prose": (ScriptedReply(text="There are no facts here."), ModelMalformed, 1),
    "nothing": (ScriptedReply(text=None), ModelMalformed, 1),
    "thinking without an answer": (ScriptedReply(text='<think>{"facts": []}</think>'), ModelMalformed, 1),
    "thinking that was cut": (ScriptedReply(text='<think>so {"facts": []}'), ModelMalformed, 1),
    "an answer that was cut after thinking": (ScriptedReply(text='<think>a</think>{"facts": ["b"'), ModelMalformed, 1),
    "a refusal with an example": (
        ScriptedReply(text='I\'m sorry, but I cannot do that. For example: {"facts": []}'),
        ModelMalformed,
        1,
    ),
    "two objects": (ScriptedReply(text='{"facts": []} or {"facts": ["a"]}'), ModelMalformed, 1),
    "a list in prose": (ScriptedReply(text='It is [{"facts": []}]'), ModelMalformed, 1),
    "quota prose after thinking": (
        ScriptedReply(text="<think>hm</think>You exceeded your current quota."),
        ModelUnavailable,
        4,
    ),
    "truncated": (ScriptedReply.truncated(), ModelTruncated, 1),
    "truncated, but whole JSON": (ScriptedReply.truncated(json.dumps(GOOD)), ModelTruncated, 1),
    "a refusal": (ScriptedReply.refused(), ModelRefused, 1),
    "filtered": (ScriptedReply(text="", finish_reason="content_filter"), ModelRefused, 1),
    "quota prose": (
        ScriptedReply(text="You have exceeded your current quota, please check your plan."),
        ModelUnavailable,
        4,
    ),
    "an error as an answer": (ScriptedReply.json({"error": "rate limited"}), ModelUnavailable, 4),
    "no completion": (ScriptedReply(body={"detail": "ok"}), ModelUnavailable, 4),
    "overloaded": (ScriptedReply.failed(500), ModelUnavailable, 4),
    "too many requests": (ScriptedReply.failed(429, retry_after=7), ModelUnavailable, 4),
    "a wrong key": (ScriptedReply.failed(401, message="bad key"), ModelUnavailable, 1),
    "too long": (ScriptedReply.failed(400, message="maximum context length is 8192 tokens"), ModelTruncated, 1),
    "a bad request": (ScriptedReply.failed(400, message="invalid prompt"), ModelRefused, 1),
    "cut in the middle": (ScriptedReply(text=json.dumps(GOOD), disconnect=True), ModelUnavailable, 4),
    "a hang": (ScriptedReply(text=json.dumps(GOOD), delay=30), ModelUnavailable, 4),
}


NOT_CHARGED = {"no completion", "overloaded", "too many requests", "a wrong key", "too long", "a bad request"}


async def test_a_server_that_trickles_is_given_up_as_one_that_hangs_is(
    database: Database, create_calls: CallsFactory
) -> None:
    requested_paths: list[str] = []

    async def trickling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requested_paths.append((await reader.readuntil(b"\r\n")).decode().split(" ")[1])
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
        calls = create_calls(unused, openai_base_url=url, model_timeout_seconds=0.5)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ModelUnavailable, match="no complete answer"):
                await calls.ask(make_request())
    server.close()
    assert len(requested_paths) == 4
    assert sum((await calls.report())["failures"].values()) == 4


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_answer_is_told_apart_counted_and_not_kept(
    database: Database, create_calls: CallsFactory, kind: str
) -> None:
    reply, error, times = BAD[kind]
    async with ModelServer([reply]) as server:
        calls = create_calls(server, model_timeout_seconds=1 if kind == "a hang" else 20)
        with pytest.raises(error):
            await calls.ask(make_request())
        assert len(server.requests) == times
        report = await calls.report()
        assert report["calls"] == times
        assert sum(report["failures"].values()) == times
        assert calls.counts["slept"] >= (21 if kind == "too many requests" else 0)
        server.answers = [ScriptedReply.json(GOOD)]
        calls.stop_reason = None
        assert await calls.ask(make_request()) == GOOD  # a bad answer was not kept for the next night
    attempts = (await load_calls(database))[:times]
    assert [tokens > 0 for _, tokens, _, _ in attempts] == [
        kind not in NOT_CHARGED
    ] * times  # what was or may have been paid
    assert [cost > 0 for _, _, _, cost in attempts] == [kind not in NOT_CHARGED] * times


async def test_a_server_without_schemas_is_asked_in_plain_words_from_then_on(create_calls: CallsFactory) -> None:
    def answer(request: dict[str, Any]) -> ScriptedReply:
        for option in ("max_completion_tokens", "temperature", "response_format"):
            if option in request:
                return ScriptedReply.unknown_option(option)
        return ScriptedReply.json(GOOD)

    async with ModelServer(answer) as server:
        calls = create_calls(server)
        for number in range(6):
            assert await calls.ask(make_request(f"question {number}")) == GOOD
            if number == 0:
                assert len(server.requests) > 1
                server.requests.clear()
        assert len(server.requests) == 5
        assert '"additionalProperties":false' in server.requests[-1]["messages"][0]["content"]


@pytest.mark.parametrize("unknown", ["max_completion_tokens", "temperature", "json_schema"])
async def test_whoever_asks_at_once_learns_together_what_a_server_does_not_know(
    create_calls: CallsFactory, unknown: str
) -> None:
    """Four questions are on their way before the first is refused: each is asked again without what was unknown."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        is_known = unknown not in request and request.get("response_format", {}).get("type") != unknown
        return replace(ScriptedReply.json(GOOD) if is_known else ScriptedReply.unknown_option(unknown), delay=0.2)

    async with ModelServer(answer) as server:
        calls = create_calls(server)
        assert (
            await asyncio.gather(*(calls.ask(make_request(f"question {number}")) for number in range(4))) == [GOOD] * 4
        )
        assert len(server.requests) == 8
    assert isinstance(calls.client, ModelClient)
    assert calls.client.dialect.json_mode == ("object" if unknown == "json_schema" else "schema")


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
    request = httpx.Request("POST", "http://127.0.0.1/v1")
    is_timeout = isinstance(cause, httpx.TimeoutException)
    error = openai.APITimeoutError(request) if is_timeout else openai.APIConnectionError(request=request)
    error.__cause__ = cause
    unavailable = classify_error(error)
    assert isinstance(unavailable, ModelUnavailable)
    assert unavailable.may_be_charged is paid


async def test_an_answer_is_paid_once_whoever_asks_again(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        for run in ("run-1", "run-1", "run-2"):
            calls = create_calls(server, run)
            assert await calls.ask(make_request()) == GOOD
            assert len(server.requests) == 1


async def test_no_secret_leaves_the_process(create_calls: CallsFactory) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        calls = create_calls(server)
        await calls.ask(make_request(f"e1 user: my token is {secret}"))
        assert not any(secret in body for body in server.raw_bodies)
        assert "[redacted:" in server.raw_bodies[0]


async def test_i12_a_run_stops_at_its_cap_in_tokens_and_in_money(create_calls: CallsFactory) -> None:
    caps: list[dict[str, Any]] = [{"night_max_tokens": 900}, {"night_max_cost_usd": Decimal("0.0003")}]
    for number, cap in enumerate(caps):
        async with ModelServer([ScriptedReply.json(GOOD)]) as server:
            calls = create_calls(server, f"capped-{number}", **cap)
            with pytest.raises(OverBudget):
                await ask_all(calls, [f"{number} question {question}" for question in range(50)])
            report = await calls.report()
            assert "the run's cap is reached" in report["stopped"]
            assert report["calls"] >= 1
            assert report["input_tokens"] + report["output_tokens"] <= 900
            assert Decimal(report["cost_usd"]) <= Decimal("0.0003")
            assert len(server.requests) == report["calls"]


async def test_i12_a_model_without_a_known_price_refuses_a_cap_in_money(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        calls = create_calls(server, night_max_cost_usd=Decimal(5))
        with pytest.raises(OverBudget, match="the price of house-model is unknown"):
            await calls.ask(make_request(model="house-model"))
        assert not server.requests
        calls = create_calls(server)
        assert await calls.ask(make_request(model="house-model")) == GOOD
        report = await calls.report()
        assert "cost_usd" not in report
        assert report["input_tokens"] > 0


async def test_i12_a_call_whose_process_died_has_cost_its_reserve(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        dead = create_calls(server, night_max_tokens=900)
        await dead.reserve(plan_call(make_request("asked by the dead"), None))
        await dead.reserve(plan_call(make_request("and again"), None))
        calls = create_calls(server, night_max_tokens=900)
        with pytest.raises(OverBudget):
            await ask_all(calls, [f"question {number}" for number in range(3)])
        assert len(server.requests) <= 1


async def test_a_run_stops_asking_a_server_that_is_down(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.failed(503)]) as server:
        calls = create_calls(server)
        for number in range(9):
            with pytest.raises(ModelUnavailable):
                await calls.ask(make_request(f"question {number}"))
        assert len(server.requests) == 5 * 4
        assert "in a row" in (await calls.report())["stopped"]


async def test_a_server_that_asks_for_a_long_rest_is_asked_no_more_in_this_run(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.failed(429, retry_after=3600)]) as server:
        calls = create_calls(server)
        for number in range(3):
            with pytest.raises(ModelUnavailable, match="a pause of 3600 s" if number else "429"):
                await calls.ask(make_request(f"question {number}"))
        assert len(server.requests) == 1
        assert calls.counts["slept"] == 0


async def test_all_calls_wait_where_a_server_asks_for_rest(create_calls: CallsFactory) -> None:
    async with ModelServer([ScriptedReply.failed(429, retry_after=50), ScriptedReply.json(GOOD)]) as server:
        calls = create_calls(server)
        assert await calls.ask(make_request("one")) == GOOD
        assert await calls.ask(make_request("two")) == GOOD
        assert calls.counts["slept"] > 90  # the second question waited, too


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


async def test_so_many_calls_at_a_time_and_no_more(create_calls: CallsFactory) -> None:
    concurrent = Counter[str]()

    async with ModelServer([replace(ScriptedReply.json(GOOD), delay=0.2)]) as server:
        calls = create_calls(server)
        real = calls.client.send

        async def count_and_send(request: ModelRequest) -> Any:
            concurrent["now"] += 1
            concurrent["most"] = max(concurrent["most"], concurrent["now"])
            try:
                return await real(request)
            finally:
                concurrent["now"] -= 1

        with patch.object(type(calls.client), "send", lambda _, request: count_and_send(request)):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(calls.ask(make_request(f"question {number}")) for number in range(8)))
    assert concurrent["most"] == 4


async def test_without_a_cap_nobody_waits_for_the_sum_of_what_the_run_has_spent(
    database: Database, create_calls: CallsFactory
) -> None:
    summing = "select pg_advisory_xact_lock(hashtextextended('consolidator.budget:run-1', 0))"
    async with ModelServer([ScriptedReply.json(GOOD)]) as server:
        calls = create_calls(server)
        with nights.hold_locks(database.dsn, summing):  # as another replica does that has a cap
            async with asyncio.timeout(PATIENCE):
                assert await calls.ask(make_request()) == GOOD
    assert len(await load_calls(database)) == 1


async def test_calls_of_all_processes_take_turns_as_far_apart_as_the_rate_says(database: Database) -> None:
    async with database.connection() as one, database.connection() as other:
        first = await model_calls.take_turn(one, 1000)
        second = await model_calls.take_turn(other, 1000)
        third = await model_calls.take_turn(one, 1000)
    assert first == 0 < second <= 1000 < third <= 2000


async def test_a_call_that_waits_for_its_turn_is_given_up_when_the_run_is_stopped(
    database: Database, settings: Settings
) -> None:
    async with database.connection() as conn:
        await model_calls.take_turn(conn, 0)
    stop = asyncio.Event()
    calls = ModelCalls(database, settings.model_copy(update={"model_calls_per_minute": 1}), "run", stop=stop)
    asking = asyncio.create_task(calls.ask(ModelRequest("extract", "m", "s", "p", "facts", SCHEMA, 10)))
    stop.set()
    with pytest.raises(Interrupted):
        await asking
    await calls.close()
