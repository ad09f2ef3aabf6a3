"""Other agents ask memory over MCP: the official client, a process of its own, the same answers as the command line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from tests.databases import fetch_dicts
from tests.nights import workday_events
from tests.support import PATIENCE, free_port, in_thread, later, log_events, run_cli, run_job

TOOLS = {"recall", "lookup_error", "suggest_next", "list_procedures", "explain", "record_events"}


@pytest.fixture
async def learned(database: Database, clock: FrozenClock, settings: Settings) -> Database:
    """Three working days, and the night after them."""
    for number in range(3):
        await log_events(database, f"day{number}", workday_events(number), peer="mara")
    clock.set(later(clock.now(), hours=1))
    await run_job(database, settings)
    return database


@asynccontextmanager
async def connect_over_stdio(environment: Mapping[str, str], *options: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "consolidator", "mcp", *options], env=dict(environment)
    )
    with Path(os.devnull).open("w", encoding="utf-8") as devnull:  # noqa: ASYNC230
        async with Client(stdio_client(parameters, errlog=devnull)) as client:
            yield client


async def call_tool(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def test_i14_every_tool_answers_as_the_command_line_does(learned: Database, environment: dict[str, str]) -> None:
    async with connect_over_stdio(environment) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        procedures = (await call_tool(client, "list_procedures", everything=True))["procedures"]
        assert procedures
        fact = next(
            item for item in (await call_tool(client, "recall", query="tabs"))["items"] if item["kind"] == "fact"
        )
        for tool, arguments, words in (
            ("lookup_error", {"error": "bash: pytets: command not found"}, ["solutions", "--error"]),
            ("suggest_next", {"session": "day0"}, ["next", "day0"]),
            ("explain", {"id": procedures[0]["id"]}, ["explain", procedures[0]["id"]]),
        ):
            answer = await call_tool(client, tool, **arguments)
            more = [arguments["error"]] if tool == "lookup_error" else []
            limit = [] if tool == "explain" else ["--limit", "5"]
            done = await in_thread(run_cli, *words, *more, *limit, "--json", environment=environment)
            printed = json.loads(done.stdout) if done.stdout else []
            assert (answer if tool == "explain" else next(iter(answer.values()))) == printed
        assert (
            "tabs"
            in (await call_tool(client, "explain", id=fact["data"]["id"] if "data" in fact else fact["id"]))["title"]
        )


async def test_what_is_recorded_is_in_the_log_once_and_in_memory_after_the_night(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    events = [{"type": "UserMessage", "data": {"text": "From now on, always use tabs for indentation."}}]
    options = ("--scope", "read", "--scope", "write", "--client", "bot")  # what people write to a bot
    async with connect_over_stdio(environment, *options) as client:
        first = await call_tool(
            client, "record_events", session_key="main:cli:mara", events=events, idempotency_key="k1"
        )
        again = await call_tool(
            client, "record_events", session_key="main:cli:mara", events=events, idempotency_key="k1"
        )
        more = await call_tool(client, "record_events", session_key="main:cli:mara", events=events)
        assert first == {"session": first["session"], "first_seq": 1, "last_seq": 1, "repeated": False}
        assert again == {**first, "repeated": True}
        assert more["session"] == first["session"]
        assert more["first_seq"] == 2
        clock.set(later(clock.now(), hours=1))
        await run_job(database, settings)
        assert "tabs" in (await call_tool(client, "recall", query="indentation", peer="mara"))["block"]


INVALID_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown type": ("record_events", {"session_key": "a", "events": [{"type": "Nonsense"}]}, "not an event type"),
    "no events": ("record_events", {"session_key": "a", "events": []}, "between 1 and"),
    "no key": ("record_events", {"session_key": ":", "events": [{"type": "Error"}]}, "not a valid session key"),
    "a payload that does not fit": (
        "record_events", {"session_key": "a", "events": [{"type": "UserMessage", "data": {"text": 5}}]}, "does not fit",
    ),
    "data that is no object": (
        "record_events", {"session_key": "a", "events": [{"type": "UserMessage", "data": "x"}]}, "not an object",
    ),
    "a key that nothing can have": (
        "record_events", {"session_key": "a\0:b", "events": [{"type": "Error"}]}, "not a valid session key",
    ),
    "a name that nothing can have": ("recall", {"query": "x", "agent": "a\0"}, "no name can"),
    "an unknown id": ("explain", {"id": "nobody"}, "nobody"),
    "an unknown session": ("suggest_next", {"session": "nobody"}, "nobody"),
    "an argument of the wrong kind": ("recall", {"query": "x", "token_budget": "many"}, "token_budget"),
    "a word too long": ("recall", {"query": "x" * 9000}, "query"),
}  # fmt: skip


async def test_what_cannot_be_answered_costs_one_clear_error_and_writes_nothing(
    database: Database, environment: dict[str, str]
) -> None:
    async with connect_over_stdio(environment) as client:
        for tool, arguments, words in INVALID_CALLS.values():
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            message = " ".join(getattr(part, "text", "") for part in result.content)
            assert words in message
            assert "Traceback" not in message
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS  # the server still runs
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select id from event")


@asynccontextmanager
async def run_service(environment: Mapping[str, str], home: Path) -> AsyncIterator[str]:
    """Run `serve` on a free port; yield its address."""
    with free_port() as port:
        variables = {"CONSOLIDATOR_HEALTH_PORT": str(port), "CONSOLIDATOR_SOURCES": "[]", "HOME": str(home)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "consolidator", "serve"),
            env={**os.environ, **environment, **variables},
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with httpx2.AsyncClient() as client, asyncio.timeout(PATIENCE):
                while not await is_reachable(client, f"http://127.0.0.1:{port}/healthz"):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            assert await process.wait() == 0


async def is_reachable(client: httpx2.AsyncClient, address: str) -> bool:
    try:
        await client.get(address)
    except httpx2.TransportError:
        return False
    return True


async def test_the_service_offers_the_same_over_http_behind_its_token(
    learned: Database, environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    async with run_service(environment, tmp_path) as address:
        path = Path(environment["CONSOLIDATOR_HOME"]) / "token"
        assert path.stat().st_mode & 0o777 == 0o600
        token = path.read_text(encoding="utf-8").strip()
        authorized = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
        async with authorized, Client(streamable_http_client(f"{address}/mcp", http_client=authorized)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert "tabs" in (await call_tool(client, "recall", query="tabs"))["block"]
        list_tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        content_types = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        async with httpx2.AsyncClient(headers=content_types, timeout=PATIENCE) as plain:
            assert (await plain.get(f"{address}/healthz")).status_code in (200, 503)
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {token}"}):
                answer = await plain.post(f"{address}/mcp", json=list_tools, headers=headers)
                assert answer.status_code == 401
                assert "token" in answer.json()["error"]
            token_header = {"authorization": f"Bearer {token}"}
            for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
                answer = await plain.post(f"{address}/mcp", json=list_tools, headers={**token_header, **headers})
                assert 400 <= answer.status_code < 500
            answer = await plain.post(f"{address}/mcp", content=b"{garbage", headers=token_header)
            assert 400 <= answer.status_code < 500
