"""`consolidator proxy` records OpenAI's Responses API as it does chat completions, whole and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from consolidator.database import Database
from consolidator.formats.exchange import ReplyReader, hash_messages, read_messages
from consolidator.service.address import listen
from consolidator.service.request_limits import BoundedServer
from tests.acceptance.test_proxy import KEY, open_proxy, read_log
from tests.support import run_cli

CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "bash",
    "arguments": '{"command": "ls"}',
}
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}


def words(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


class ResponsesServer:
    """Answers requests of the Responses API with items, in their order."""

    def __init__(self, *outputs: list[dict[str, Any]]) -> None:
        self.outputs = list(outputs)
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    async def respond(self, request: Request) -> Response:
        """Answer whole, or as a stream."""
        body = await request.json()
        self.requests.append(body)
        output = self.outputs.pop(0)
        details = {"input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {
            "id": f"resp_{len(self.requests)}", "object": "response", "created_at": 1.0, "model": body["model"],
            "status": "completed", "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, **details},
        }  # fmt: skip
        if not body.get("stream"):
            return JSONResponse(response)
        return StreamingResponse(_stream(response, output), media_type="text/event-stream")


async def _stream(response: dict[str, Any], output: list[dict[str, Any]]) -> AsyncIterator[str]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    events += [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(output)
    ]
    events.append({"type": "response.completed", "response": response})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"


@asynccontextmanager
async def serve(server: ResponsesServer) -> AsyncIterator[ResponsesServer]:
    app = Starlette(routes=[Route("/v1/responses", server.respond, methods=["POST"])])
    with listen("127.0.0.1", 0) as listener:
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        running = BoundedServer(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
        task = asyncio.create_task(running.serve(sockets=[listener]))
        try:
            yield server
        finally:
            running.should_exit = True
            await task


async def ask(address: str, *, stream: bool, **request: Any) -> Any:
    """Ask for a response as its client does; return it whole."""
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{address}/v1", max_retries=0) as client:
        answer: Any = await client.responses.create(model="gpt-5-mini", stream=stream, **request)
        if not stream:
            return answer
        events = [event async for event in answer]
        return events[-1].response


WHOLE = [
    ("UserMessage", "List the files."),
    ("ToolCall", "bash {'command': 'ls'}"),
    ("ToolResult", "a.txt"),
    ("AssistantResponse", "One file."),
    ("UserMessage", "Thanks."),
    ("AssistantResponse", "You are welcome."),
]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_sends_all_items_again_has_one_session(
    database: Database, environment: dict[str, str], stream: bool
) -> None:
    outputs: list[Any] = [
        [REASONING, CALL],
        [words("One file.")],
        [words("You are welcome.")],
        [words("You are welcome.")],
    ]
    async with serve(ResponsesServer(*outputs)) as server:
        items: list[Any] = [{"role": "user", "content": "List the files."}]
        with open_proxy(environment, "--openai", server.url) as address:
            items += [*outputs[0], {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"}]
            await ask(address, stream=stream, input="List the files.", instructions="Be brief.", store=False)
            await ask(address, stream=stream, input=items, instructions="Be brief.", store=False)
        with open_proxy(environment, "--openai", server.url) as address:  # another process goes on with it
            items += [*outputs[1], {"type": "message", "role": "user", "content": "Thanks."}]
            await ask(address, stream=stream, input=items)
            await ask(address, stream=stream, input=items)  # a client that asks again
    assert await read_log(database) == [WHOLE]
    assert server.requests[0]["input"] == "List the files."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by", ["previous_response_id", "conversation"])
async def test_a_request_that_names_what_it_continues_is_in_its_session(
    database: Database, environment: dict[str, str], stream: bool, by: str
) -> None:
    outputs = [[CALL], [words("One file.")], [words("You are welcome.")], [words("Other words.")]]
    async with serve(ResponsesServer(*outputs)) as server:
        result = {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"}

        def go_on(response: Any) -> dict[str, Any]:
            return {by: "conv_1" if by == "conversation" else response.id}

        with open_proxy(environment, "--openai", server.url) as address:
            first: dict[str, Any] = {"conversation": "conv_1"} if by == "conversation" else {}
            response = await ask(address, stream=stream, input="List the files.", **first)
            response = await ask(address, stream=stream, input=[result], **go_on(response))
        with open_proxy(environment, "--openai", server.url) as address:  # another process goes on with it
            await ask(address, stream=stream, input="Thanks.", **go_on(response))
            await ask(address, stream=stream, input="List the files.", previous_response_id="resp_of_another_day")
    sessions = sorted(await read_log(database), key=len, reverse=True)
    assert sessions == [WHOLE, [("UserMessage", "List the files."), ("AssistantResponse", "Other words.")]]
    assert server.requests[0].get("previous_response_id") is None


async def test_the_same_words_in_a_conversation_are_another_turn(
    database: Database, environment: dict[str, str]
) -> None:
    async with serve(ResponsesServer(*[[words(text)] for text in ("Go on?", "OK.", "OK.")])) as server:
        with open_proxy(environment, "--openai", server.url) as address:
            for text in ("Begin.", "Yes.", "Yes."):
                await ask(address, stream=False, input=text, conversation="conv_1")
    (session,) = await read_log(database)
    assert [text for _, text in session] == ["Begin.", "Go on?", "Yes.", "OK.", "Yes.", "OK."]


async def test_an_answer_of_its_servers_own_tools_alone_can_be_continued(
    database: Database, environment: dict[str, str]
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    async with serve(ResponsesServer([search], [words("Found.")])) as server:
        with open_proxy(environment, "--openai", server.url) as address:
            response = await ask(address, stream=True, input="Search.")
            await ask(address, stream=True, input="And?", previous_response_id=response.id)
    (session,) = await read_log(database)
    assert [text for _, text in session if text] == ["Search.", "And?", "Found."]


async def test_memory_is_told_beside_the_instructions(environment: dict[str, str]) -> None:
    run_cli("remember", "we deploy on Tuesdays", "--project", "/work/shop", environment=environment)
    async with serve(ResponsesServer([words("On Tuesdays.")])) as server:
        with open_proxy(environment, "--openai", server.url, "--brief") as address:
            await ask(address, stream=False, input="When?", instructions="Be brief.")
    assert server.requests[0]["instructions"].startswith("Be brief.\n\n")
    assert "deploy on Tuesdays" in server.requests[0]["instructions"]


def test_what_a_client_sends_back_is_the_answer_that_it_got() -> None:
    patch = {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"}
    shell = {"type": "local_shell_call", "call_id": "call_3", "action": {"type": "exec", "command": ["ls", "-a"]}}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    output = [REASONING, search, words("I look."), CALL, patch, shell]
    reader = ReplyReader(is_stream=False)
    reader.feed(json.dumps({"id": "resp_1", "object": "response", "status": "completed", "output": output}).encode())
    reader.close()
    assert (reader.is_finished, reader.response_id) == (True, "resp_1")
    asked = {"input": [{"role": "user", "content": "Look."}]}
    again = {
        "input": [*asked["input"], *output, {"type": "custom_tool_call_output", "call_id": "call_2", "output": ""}]
    }
    messages = read_messages(asked)
    assert hash_messages([*messages, reader.message])[-1] == hash_messages(read_messages(again))[1]


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued"])
def test_what_is_no_answer_yet_is_not_recorded(status: str) -> None:
    reader = ReplyReader(is_stream=False)
    reader.feed(json.dumps({"id": "resp_1", "status": status, "output": [words("Half of")]}).encode())
    reader.close()
    assert not reader.is_finished


@pytest.mark.parametrize("body", [{"input": None}, {"input": 3}, {"input": [7, "x"]}, {"input": {}}, {"input": ""}])
def test_a_request_without_items_has_no_messages(body: dict[str, Any]) -> None:
    assert read_messages(body) == []
