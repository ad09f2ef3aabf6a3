"""Anthropic's own client through `consolidator proxy`: one session, each word once, and its key nowhere."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

from consolidator.database import Database
from tests.acceptance.anthropic_server import AnthropicServer, Block, serve_anthropic
from tests.acceptance.test_proxy import open_proxy, read_log

KEY = "sk-ant-api03-a-key-that-nobody-keeps-0123456789"
MODEL = "claude-opus-4-6"
SYSTEM: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
TOOLS: Any = [
    {"name": "bash", "description": "Run a command.", "input_schema": {"type": "object"}},
    {"type": "web_search_20250305", "name": "web_search"},
]
TESTED: list[Block] = [
    {"type": "thinking", "thinking": "They want the tests.", "signature": "c2lnbmVk"},
    {"type": "text", "text": "I run the tests."},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "make test"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "text", "text": "Both of them."},
    {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "make test"}},
    {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "make lint"}},
]
ANSWERED: list[Block] = [{"type": "text", "text": "All 12 tests pass."}, {"type": "text", "text": "Lint fails."}]
RESULTS: Any = [
    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12 passed"},
    {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "Error: 3 problems"}],
     "is_error": True},
]  # fmt: skip
LOGGED = [
    ("UserMessage", "Run the tests."),
    ("AssistantResponse", "I run the tests.\nBoth of them."),
    ("ToolCall", 'bash {"command": "make test"}'),
    ("ToolCall", 'bash {"command": "make lint"}'),
    ("ToolResult", "12 passed"),
    ("ToolResult", "Error: 3 problems"),
    ("AssistantResponse", "All 12 tests pass.\nLint fails."),
]


def said(text: str) -> Any:
    return {"role": "user", "content": text}


async def ask(address: str, messages: list[Any], *, stream: bool, **options: Any) -> anthropic.types.Message:
    """Ask for a message as Anthropic's client does, which also checks the form of what comes back."""
    request = {"model": MODEL, "max_tokens": 1000, "system": SYSTEM, "tools": TOOLS, "messages": messages} | options
    async with anthropic.AsyncAnthropic(
        api_key=KEY, base_url=address, max_retries=0, _strict_response_validation=True
    ) as client:
        if not stream:
            whole: anthropic.types.Message = await client.messages.create(**request)
            return whole
        async with client.messages.stream(**request) as pieces:
            return await pieces.get_final_message()


def options_of(server: AnthropicServer, *more: str) -> tuple[str, ...]:
    return ("--anthropic", server.url, "--openai", "http://127.0.0.1:9", *more)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_calls_is_one_session_and_each_word_is_in_it_once(
    database: Database, environment: dict[str, str], stream: bool
) -> None:
    async with serve_anthropic(TESTED, ANSWERED, [{"type": "text", "text": "You are welcome."}]) as server:
        messages = [said("Run the tests.")]
        with open_proxy(environment, *options_of(server)) as address:
            first = await ask(address, messages, stream=stream)
            assert [block.type for block in first.content] == [block["type"] for block in TESTED]
            messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": RESULTS}]
            second = await ask(address, messages, stream=stream)
            messages += [{"role": "assistant", "content": second.content}, said("Thanks.")]
        with open_proxy(environment, *options_of(server)) as address:  # another process goes on with it
            await ask(address, messages, stream=stream)
            thanked = await ask(address, messages, stream=stream)  # a client that asks again
            assert [block.to_dict() for block in thanked.content] == [{"type": "text", "text": "You are welcome."}]
    (session,) = await read_log(database)
    session = [(kind, text.replace("'", '"')) for kind, text in session]  # a stream's arguments stay as they came
    assert session == [*LOGGED, ("UserMessage", "Thanks."), ("AssistantResponse", "You are welcome.")]
    assert server.keys == [f"Bearer {KEY}"] * 4
    sent = json.loads(server.bodies[0])
    assert (sent["system"], sent["tools"], sent["messages"]) == (SYSTEM, TOOLS, messages[:1])
    async with database.connection() as conn:
        rows = await (await conn.execute("select data::text from event")).fetchall()
        (failed,) = await (
            await conn.execute("select data->>'status' from event where data->>'content' like 'Error%'")
        ).fetchone() or ("",)
    assert KEY not in str(rows)
    assert failed == "error"


async def test_an_error_and_an_answer_that_breaks_off_reach_the_client_and_leave_nothing_twice(
    database: Database, environment: dict[str, str]
) -> None:
    async with serve_anthropic(529, TESTED[1:2], TESTED[1:2], TESTED[1:2]) as server:
        with open_proxy(environment, *options_of(server)) as address:
            with pytest.raises(anthropic.APIStatusError, match="Overloaded") as refused:
                await ask(address, [said("Run them.")], stream=True)
            assert (refused.value.status_code, refused.value.request_id) == (529, "req_1")
            server.breaks_after = 5
            with pytest.raises((anthropic.APIError, httpx2.HTTPError)):
                await ask(address, [said("Run them.")], stream=True)
            assert await read_log(database) == []
            await ask(address, [said("Run them.")], stream=True)
    assert await read_log(database) == [[("UserMessage", "Run them."), ("AssistantResponse", "I run the tests.")]]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cap_counts_what_the_server_counted_and_the_brief_is_an_instruction(
    database: Database, environment: dict[str, str], stream: bool
) -> None:
    async with serve_anthropic(ANSWERED) as server:
        with open_proxy(environment, *options_of(server, "--brief", "--max-cost-usd", "0.06")) as address:
            await ask(address, [said("Run them.")], stream=stream, system="Be brief.")
            with pytest.raises(anthropic.APIStatusError, match="cap of") as refused:
                await ask(address, [said("Write it all.")], stream=stream, max_tokens=4000)
    assert (refused.value.status_code, len(server.bodies)) == (402, 1)
    async with database.connection() as conn:
        row = await (await conn.execute("select input_tokens, cached_tokens, output_tokens from model_call")).fetchall()
    assert row == [(1020, 1000, 30)]
