"""Requests through `consolidator proxy` and without it: time to the first token, and tokens a second."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.testing import ModelServer, ScriptedReply

TITLE = "a streamed answer through the proxy, against the same without it"
ROUNDS = {"tiny": 3, "small": 40, "full": 200}
WORDS = 400  # of an answer
PACE = 0.005  # seconds between two of its pieces
DELAY = 0.3  # before the first: what a server takes to read a request


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Ask with and without the proxy, by turns; each request begins a conversation, which takes the proxy longest."""
    report = Report("proxy", TITLE, scale)
    reply = ScriptedReply(text=" ".join(["word"] * WORDS), pace=PACE, delay=DELAY)
    # A connection that one side is left waiting on for as long as a server keeps one is not asked again.
    limits = httpx2.Limits(keepalive_expiry=3)
    async with (
        _open_model(reply) as model,
        server.open_database() as database,
        httpx2.AsyncClient(timeout=60, limits=limits) as client,
        _open_proxy(database.dsn, model.removesuffix("/v1")) as proxied,
    ):
        addresses = (model, proxied)
        figures: dict[str, list[tuple[float, float]]] = {address: [] for address in addresses}
        for number in range(-1, ROUNDS[scale]):
            for address in addresses if number % 2 else reversed(addresses):
                figure = await _ask(client, address, f"question {number}")
                figures[address] += [figure] if number >= 0 else []  # the first opens connections
    (bare_first, bare_rate), (first, rate) = (
        (statistics.median(each[0] for each in figures[a]), statistics.median(each[1] for each in figures[a]))
        for a in addresses
    )
    report.add("time to the first token / without the proxy", first / bare_first, at_most=1.05)
    report.add("time to the first token through the proxy", first * 1000, "ms")
    report.add("pieces a second / without the proxy", rate / bare_rate, at_least=0.98)
    return report


@asynccontextmanager
async def _open_model(reply: ScriptedReply) -> AsyncIterator[str]:
    """Run a model's server on an event loop of its own, whose pace no client's reading changes; yield its base URL."""
    loop, closing = asyncio.new_event_loop(), asyncio.Event()
    here = asyncio.get_running_loop()
    opened: asyncio.Future[str] = here.create_future()

    async def serve() -> None:
        async with ModelServer(answers=lambda _: reply) as model:
            here.call_soon_threadsafe(opened.set_result, model.url)
            await closing.wait()

    running = asyncio.create_task(asyncio.to_thread(loop.run_until_complete, serve()))
    try:
        yield await opened
    finally:
        loop.call_soon_threadsafe(closing.set)
        await running
        loop.close()


@asynccontextmanager
async def _open_proxy(dsn: str, openai: str) -> AsyncIterator[str]:
    """Start the command; yield the base URL that it prints."""
    command = [sys.executable, "-m", "consolidator", "proxy", "--port", "0", "--project", "/work/shop"]
    environment = {**os.environ, "CONSOLIDATOR_DATABASE_URL": dsn}
    process = await asyncio.create_subprocess_exec(*command, "--openai", openai, stdout=PIPE, env=environment)
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip().removeprefix("OPENAI_BASE_URL=")
    finally:
        process.terminate()
        await process.wait()


async def _ask(client: httpx2.AsyncClient, address: str, text: str) -> tuple[float, float]:
    """Return the seconds to the first piece of an answer, and its pieces a second from there."""
    body: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    started, first, pieces = time.perf_counter(), 0.0, 0
    async with client.stream("POST", f"{address}/chat/completions", content=json.dumps(body)) as answer:
        async for line in answer.aiter_lines():
            if '"content"' in line:
                first, pieces = first or time.perf_counter(), pieces + 1
    return first - started, pieces / (time.perf_counter() - first)
