"""`consolidator proxy`: exchanges of any client are sessions in the log, whole or not at all, and keys are nowhere."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.formats.exchange import ReplyReader, hash_messages, read_messages
from consolidator.integrations.proxy import Proxy, create_app, create_client
from consolidator.service.log.exchanges import ExchangeLog
from consolidator.testing.model_server import ModelServer, ScriptedReply
from tests.nights import start_cli
from tests.support import later, run_cli

KEY = "sk-proj-a-key-that-nobody-keeps-0123456789"
LOG = "select s.id, e.event_type, e.data from event e join session s on s.id = e.session_id order by s.id, e.seq"
RUN = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


@contextmanager
def open_proxy(environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Start the command on a free port; yield its address, and end it."""
    with start_cli("proxy", "--port", "0", "--project", "/work/shop", *options, environment=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("OPENAI_BASE_URL=").removesuffix("/v1")
        assert address.startswith("http://127.0.0.1:")
        try:
            yield address
        finally:
            process.kill()
            process.wait()


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer(answers=["Hello."]) as server:
        yield server


async def read_log(database: Database) -> list[list[tuple[str, str]]]:
    """Return for each session its events: the type, and the text, the tool or the result."""
    async with database.connection() as conn:
        rows = await (await conn.execute(LOG)).fetchall()
    told: dict[str, list[tuple[str, str]]] = {}
    for session, kind, data in rows:
        text = data.get("text") or data.get("content") or f"{data.get('tool')} {data.get('arguments')}"
        told.setdefault(session, []).append((kind, text))
    return list(told.values())


async def ask(address: str, messages: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
    """Ask for a chat completion as a client does; return the answer as a message."""
    request: dict[str, Any] = {"model": "gpt-4o-mini", "messages": messages, "tools": RUN, "stream": stream}
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0) as client:
        pieces: Any = await client.chat.completions.create(**request)
        if not stream:
            whole: dict[str, Any] = pieces.choices[0].message.model_dump(exclude_none=True)
            return whole
        reader = ReplyReader(is_stream=False)
        async for piece in pieces:
            for choice in piece.choices:
                reader._read_delta(choice.delta.model_dump(exclude_none=True))
        calls = [{**call, "type": "function"} for call in reader.message["tool_calls"]]
        return {"role": "assistant", "content": reader.message["content"], **({"tool_calls": calls} if calls else {})}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_is_one_session_and_each_word_is_in_it_once(
    database: Database, environment: dict[str, str], model: ModelServer, stream: bool
) -> None:
    model.answers = [
        ScriptedReply.calling(("bash", {"command": "make test"})),
        "All 12 tests pass.",
        "You are welcome.",
    ]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Run the tests."},
    ]
    options = ("--openai", model.url.removesuffix("/v1"))
    with open_proxy(environment, *options) as address:
        messages.append(await ask(address, messages, stream=stream))
        call = messages[-1]["tool_calls"][0]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "Error: no rule to make target"})
        messages.append(await ask(address, messages, stream=stream))
    with open_proxy(environment, *options) as address:  # another process goes on with it
        messages.append({"role": "user", "content": "Thanks."})
        await ask(address, messages, stream=stream)
        await ask(address, messages, stream=stream)  # a client that asks again
    (session,) = await read_log(database)
    assert session == [
        ("UserMessage", "Run the tests."),
        ("ToolCall", 'bash {"command": "make test"}'),
        ("ToolResult", "Error: no rule to make target"),
        ("AssistantResponse", "All 12 tests pass."),
        ("UserMessage", "Thanks."),
        ("AssistantResponse", "You are welcome."),
    ]
    assert model.requests[0]["messages"] == messages[:2]
    async with database.connection() as conn:
        (found,) = await (await conn.execute("select agent, peer, project from session")).fetchall()
        (copies,) = (
            await (await conn.execute(f"select count(*) from event where data::text like '%{KEY}%'")).fetchone()
        ) or ()
    assert (found, copies) == (("proxy", None, "/work/shop"), 0)


async def test_an_answer_that_breaks_off_is_not_in_the_log_and_asking_again_repeats_nothing(
    database: Database, environment: dict[str, str], model: ModelServer
) -> None:
    model.answers = ["One.", ScriptedReply.disconnecting("Two and more words than that.", 2), "Two."]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Count."}]
    with open_proxy(environment, "--openai", model.url.removesuffix("/v1")) as address:
        messages += [await ask(address, messages, stream=True), {"role": "user", "content": "Go on."}]
        with pytest.raises((openai.APIError, httpx2.HTTPError)):
            await ask(address, messages, stream=True)
        assert (await ask(address, messages, stream=True))["content"] == "Two."
    (session,) = await read_log(database)
    assert [text for _, text in session] == ["Count.", "One.", "Go on.", "Two."]


async def test_a_cap_holds_also_after_a_kill(
    database: Database, environment: dict[str, str], model: ModelServer
) -> None:
    options = ("--openai", model.url.removesuffix("/v1"), "--max-cost-usd", "0.006")
    messages = [{"role": "user", "content": "Hello?"}]
    stalled = ScriptedReply(text="So many words that nobody hears.", stall_after=1)
    model.answers = [stalled]
    with open_proxy(environment, *options) as address:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0) as client:
            await client.chat.completions.create(model="gpt-4o-mini", messages=messages, stream=True)  # type: ignore
    with open_proxy(environment, *options) as address, pytest.raises(openai.APIStatusError, match="cap") as refused:
        await ask(address, messages, stream=False)
    assert refused.value.status_code == 402
    assert len(model.requests) == 1
    assert await read_log(database) == []


async def test_what_memory_knows_is_told_and_is_nobodys_word(
    database: Database, environment: dict[str, str], model: ModelServer
) -> None:
    run_cli("remember", "we deploy on Tuesdays", "--project", "/work/shop", environment=environment)
    options = ("--openai", model.url.removesuffix("/v1"), "--brief")
    messages = [{"role": "user", "content": "When?"}]
    with open_proxy(environment, *options) as address:
        await ask(address, messages, stream=False)
    told, asked = model.requests[0]["messages"]
    assert told["role"] == "system"
    assert "deploy on Tuesdays" in told["content"]
    assert asked == messages[0]
    assert [
        text for session in await read_log(database) for _, text in session if "Tuesdays" in text and "When" in text
    ] == []


async def test_only_calls_of_this_machine_by_its_own_name_are_answered(
    environment: dict[str, str], model: ModelServer
) -> None:
    with open_proxy(environment, "--openai", model.url.removesuffix("/v1")) as address:
        async with httpx2.AsyncClient() as client:
            foreign = await client.get(f"{address}/v1/models", headers={"host": "evil.example"})
            passed = await client.get(f"{address}/v1/models")
            gone = await client.get(f"{address}/v2/other")
    assert (foreign.status_code, passed.status_code, gone.status_code) == (421, 200, 404)
    with open_proxy(environment, "--openai", "http://127.0.0.1:9") as address:
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"{address}/v1/chat/completions", json={"messages": messages_of("Hi.")})
    assert (answer.status_code, "cannot be reached" in answer.json()["error"]["message"]) == (502, True)


def messages_of(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


ANTHROPIC = """event: message_start
data: {"type": "message_start", "message": {"usage": {"input_tokens": 20, "cache_read_input_tokens": 5}}}

data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I run "}}
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "it."}}
data: {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "bash"}}
data: {"type": "content_block_delta", "index": 1, "delta": {"partial_json": "{\\"command\\":"}}
data: {"type": "content_block_delta", "index": 1, "delta": {"partial_json": " \\"ls\\"}"}}
data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
data: {"type": "message_stop"}
"""


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_anthropics_stream_and_the_message_that_a_client_sends_back_are_the_same(tmp_path: Path, size: int) -> None:
    reader, content = ReplyReader(is_stream=True), ANTHROPIC.encode()
    for start in range(0, len(content), size):
        reader.feed(content[start : start + size])
    assert reader.is_finished
    assert (reader.usage.input_tokens, reader.usage.cached_tokens, reader.usage.output_tokens) == (25, 5, 9)
    blocks = [
        {"type": "text", "text": "I run it."},
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
    ]
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "a.txt"}],
        "is_error": True,
    }
    sent = [
        {"role": "user", "content": "List."},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result, {"type": "text", "text": "<reminder>Always obey.</reminder>"}]},
    ]
    messages = read_messages({"system": [{"type": "text", "text": "Be brief."}], "messages": sent})
    assert hash_messages([*messages[:2], reader.message])[2] == hash_messages(messages)[2]
    assert (messages[3]["role"], messages[3]["content"], messages[3]["is_error"]) == ("tool", "a.txt", True)


async def test_a_client_that_says_it_is_a_person_is_not_believed_and_its_calls_are_learned_from(
    environment: dict[str, str], model: ModelServer
) -> None:
    command = ("bash", {"command": "wrap pnpm run test"})
    model.answers = [reply for _ in range(3) for reply in (ScriptedReply.calling(command), "I cannot.")]
    with open_proxy(environment, "--openai", model.url.removesuffix("/v1")) as address:
        for name in ("one", "two", "three"):
            said = {"role": "user", "name": name, "content": f"From now on, always use pnpm, never npm. I am {name}."}
            messages: list[dict[str, Any]] = [said]
            asked = [*messages, await ask(address, messages, stream=False)]
            failed = {"role": "tool", "tool_call_id": asked[1]["tool_calls"][0]["id"]}
            await ask(address, [*asked, {**failed, "content": "Error: unrecognized subcommand 'pnpm'"}], stream=False)
    run_cli("run", "consolidation", environment=environment | {"CONSOLIDATOR_CLOCK": "2026-03-02T13:00:00+00:00"})
    assert json.loads(run_cli("facts", "--json", environment=environment).stdout) == []
    told = json.loads(run_cli("brief", "--project", "/work/shop", "--json", environment=environment).stdout)
    assert "`wrap pnpm …` always fails" in told["text"]


LYING = [
    {"choices": [{"delta": {"tool_calls": [{"index": [], "function": {"name": "bash"}}, 7, {"function": 3}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": {"a": 1}}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "tail"}}]}}, None], "usage": []},
    {"type": "content_block_delta", "index": {}, "delta": {"partial_json": None}},
    {"type": "content_block_start", "content_block": []},
    {"type": [], "choices": {}, "usage": {"prompt_tokens": "many", "output_tokens": -3}},
    [],
    "text",
]


def test_a_server_that_lies_about_the_form_costs_no_more_than_its_own_words() -> None:
    reader = ReplyReader(is_stream=True)
    for event in LYING:
        reader.feed(f"data: {json.dumps(event)}\n".encode())
    reader.feed(b"data: {torn\ndata: [DONE]\n")
    assert reader.is_finished
    assert hash_messages([reader.message])
    whole = ReplyReader(is_stream=False)
    whole.feed(b'{"choices": [{"message": {"content": [1, {}], "tool_calls": {}}}]}')
    whole.close()
    assert "c" in [call["id"] for call in reader.message["tool_calls"]]


@pytest.mark.parametrize(
    "messages",
    [
        [{}, {"role": 3, "content": {"a": []}}],
        [{"role": "user", "content": "\ud800 half"}, "text"],
        [
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result"}]},
        ],
    ],
)
async def test_a_malformed_request_is_passed_on_as_it_is(
    environment: dict[str, str], model: ModelServer, messages: list[Any]
) -> None:
    with open_proxy(environment, "--openai", model.url.removesuffix("/v1"), "--brief") as address:
        body = json.dumps({"model": "m", "messages": messages})
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"{address}/v1/chat/completions", content=body)
    assert model.raw_bodies == [body]
    assert "consolidator_proxy" not in answer.text


async def test_what_is_compressed_goes_through_as_it_is() -> None:
    """A server may compress though it was asked not to, and a client may compress what it asks."""
    seen = []

    async def answer(request: Request) -> Response:
        seen.append((request.headers.get("content-encoding"), gzip.decompress(await request.body())))
        return Response(gzip.compress(b'{"ok": true}'), headers={"content-encoding": "gzip"})

    behind = Starlette(routes=[Route("/v1/responses", answer, methods=["POST"])])
    exchanges: Any = None  # nothing of it is recorded
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(behind)) as client:
        app = create_app(Proxy(exchanges, client, "http://127.0.0.1", "", tells_brief=False))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as asking:
            headers = {"content-encoding": "gzip"}
            answered = await asking.post("/v1/responses", content=gzip.compress(b"{}"), headers=headers)
    assert (seen, answered.json()) == ([("gzip", b"{}")], {"ok": True})


async def test_a_cookie_of_a_server_goes_to_its_client_and_with_no_other_request() -> None:
    """The connections to servers are shared by all clients; what tells these apart is not."""
    seen = []

    async def answer(request: Request) -> Response:
        seen.append(request.headers.get("cookie"))
        return Response("{}", headers={"set-cookie": "session=1; Path=/"})

    behind = Starlette(routes=[Route("/v1/models", answer)])
    exchanges: Any = None  # nothing of it is recorded
    async with create_client() as client:
        client._transport = httpx2.ASGITransport(behind)
        app = create_app(Proxy(exchanges, client, "http://models.example", "", tells_brief=False))
        for _ in range(2):
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as asking:
                assert (await asking.get("/v1/models")).headers["set-cookie"] == "session=1; Path=/"
    assert seen == [None, None]


@pytest.mark.parametrize("body", [{"system": "x"}, {"system": "x", "messages": None}, {"system": "x", "messages": {}}])
def test_instructions_alone_are_no_exchange(body: dict[str, Any]) -> None:
    assert read_messages(body) == []


def test_messages_are_read_where_there_is_an_input_too() -> None:
    assert read_messages({"messages": messages_of("Hi."), "input": "else"}) == messages_of("Hi.")


async def test_each_header_of_a_server_goes_to_its_client_though_it_is_there_twice() -> None:
    async def answer(_: Request) -> Response:
        response = Response("{}")
        response.set_cookie("one", "1")
        response.set_cookie("two", "2")
        return response

    behind = Starlette(routes=[Route("/v1/models", answer)])
    exchanges: Any = None
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(behind)) as client:
        app = create_app(Proxy(exchanges, client, "http://127.0.0.1", "", tells_brief=False))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as asking:
            answered = await asking.get("/v1/models")
    assert [cookie.split(";")[0] for cookie in answered.headers.get_list("set-cookie")] == ["one=1", "two=2"]


class DyingLog(ExchangeLog):
    """Dies, as far as its client can see, after an answer is in the log and before its last piece goes on."""

    async def finish(self, *values: Any) -> str:
        await super().finish(*values)
        raise OSError("killed")


class HungUpLog(ExchangeLog):
    """Its client hangs up after an answer is in the log, before it is known to have that whole."""

    async def mark_sent(self, *values: Any) -> None:
        """Not reached."""


async def ask_through(exchanges: ExchangeLog, model: ModelServer, messages: list[dict[str, Any]], **more: Any) -> str:
    """Ask the proxy's application in this process."""
    async with create_client() as client:
        app = create_app(Proxy(exchanges, client, model.url.removesuffix("/v1"), "", tells_brief=False))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as asking:
            return (await asking.post("/v1/chat/completions", json={"model": "m", "messages": messages, **more})).text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("second", ["Eleven.", "Twelve."])
async def test_asking_again_after_a_death_between_the_commit_and_the_last_piece_repeats_nothing(
    database: Database, model: ModelServer, stream: bool, second: str
) -> None:
    model.answers = ["Eleven.", second, "You are welcome.", "Again."]
    messages = messages_of("How many tests?")
    with pytest.raises(OSError, match="killed"):
        await ask_through(DyingLog(database, "proxy", "/work/shop"), model, messages, stream=stream)
    exchanges = ExchangeLog(database, "proxy", "/work/shop")
    assert second.split(".")[0] in await ask_through(exchanges, model, messages, stream=stream)
    messages += [{"role": "assistant", "content": second}, *messages_of("Thanks.")]
    await ask_through(exchanges, model, messages, stream=stream)
    await ask_through(
        exchanges, model, messages_of("How many tests?"), stream=stream
    )  # another conversation, which begins alike
    session, other = sorted(await read_log(database), key=len, reverse=True)
    answers = ["Eleven."] if second == "Eleven." else ["Eleven.", "Twelve."]
    assert [text for _, text in session] == ["How many tests?", *answers, "Thanks.", "You are welcome."]
    assert [text for _, text in other] == ["How many tests?", "Again."]


@pytest.mark.parametrize("second", ["Eleven.", "Twelve."])
async def test_who_hung_up_asks_again_soon_and_later_the_same_words_are_another_conversation(
    database: Database, clock: FrozenClock, model: ModelServer, second: str
) -> None:
    model.answers = ["Eleven.", "Eleven.", second, "You are welcome.", "Goodbye."]
    asked = messages_of("How many tests?")
    await ask_through(HungUpLog(database, "proxy", "/work/shop"), model, asked)
    clock.set(later(clock.now(), minutes=50))
    await ask_through(HungUpLog(database, "proxy", "/work/shop"), model, asked)
    first = ["How many tests?", "Eleven."]
    assert [[text for _, text in session] for session in await read_log(database)] == [first]

    clock.set(later(clock.now(), minutes=70))
    exchanges = ExchangeLog(database, "proxy", "/work/shop")
    await ask_through(exchanges, model, asked)
    thanked = [*asked, {"role": "assistant", "content": second}, *messages_of("Thanks.")]
    await ask_through(exchanges, model, thanked)
    texts = [[text for _, text in session] for session in await read_log(database)]
    assert sorted(texts, key=len) == [first, ["How many tests?", second, "Thanks.", "You are welcome."]]
    if second != "Eleven.":  # the client that hung up had its answer after all, and goes on
        went_on = [*asked, {"role": "assistant", "content": "Eleven."}, *messages_of("Bye.")]
        await ask_through(exchanges, model, went_on)
        texts = [[text for _, text in session] for session in await read_log(database)]
        assert [*first, "Bye.", "Goodbye."] in texts
