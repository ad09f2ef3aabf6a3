"""Events recorded over HTTP, against the same call in-process: what the service in between costs."""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.harness.report import Report, TimedAction, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.harness.synthetic_sessions import generate_tool_result
from consolidator.database import Database
from consolidator.service.log.record import record_events

TITLE = "events recorded over HTTP, against the same call in-process"
ROUNDS = {"tiny": 2, "small": 10, "full": 50}
BATCHES = (1, 100)  # events in one request
CLIENTS = (1, 8)  # at the same time
REQUESTS = {"tiny": 1, "small": 5, "full": 10}  # of each client in a round
PATIENCE = 60.0  # seconds until the service must answer


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Record batches through `consolidator serve`, and by the function that it calls, by one client and by several."""
    report, requests = Report("api", TITLE, scale), REQUESTS[scale]
    async with server.open_database() as database, serve(server, database.dsn) as client:
        for clients in CLIENTS:
            for batch in BATCHES:
                over_http = recorder(clients, batch, requests, HttpRecorder(client))
                in_process = recorder(clients, batch, requests, InProcessRecorder(database))
                await run_interleaved(1, over_http, in_process)
                ours, direct = await run_interleaved(ROUNDS[scale], over_http, in_process)
                name = f"{batch} {'event' if batch == 1 else 'events'} a request, {clients} " + (
                    "client" if clients == 1 else "clients"
                )
                sent = clients * batch * requests
                report.add(f"{name}: HTTP / in-process", median_ratio(direct, ours), "of its rate")
                report.add(f"{name}: HTTP", sent / statistics.median(ours), "events/s")
                report.add(f"{name}: in-process", sent / statistics.median(direct), "events/s")
    return report


class HttpRecorder:
    """Records by POST /v1/events, on connections that are kept open."""

    name = "http"

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def record(self, key: str, events: list[dict[str, Any]]) -> None:
        """Record one batch."""
        answer = await self._client.post("/events", json={"session_key": key, "events": events})
        answer.raise_for_status()


class InProcessRecorder:
    """Records by the service's function."""

    name = "direct"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, key: str, events: list[dict[str, Any]]) -> None:
        """Record one batch."""
        await record_events(self._database, key, events)


def recorder(clients: int, batch: int, requests: int, how: HttpRecorder | InProcessRecorder) -> TimedAction:
    """Return an action in which each client records some batches, one after another, in a session of its own."""
    event = generate_tool_result(0)
    events = [{"type": event.type.value, "data": dict(event.data)}] * batch

    async def record_all(client: int) -> None:
        for _ in range(requests):
            await how.record(f"coder:{how.name}:{client}", events)

    async def record() -> float:
        started = time.perf_counter()
        await asyncio.gather(*map(record_all, range(clients)))
        return time.perf_counter() - started

    return record


@asynccontextmanager
async def serve(server: BenchmarkServer, dsn: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Run the service in a process of its own, and yield a client of its owner."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    environment = server.environment(dsn, health_port=str(port), http_requests_per_second="100000")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "consolidator", "serve", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _wait_until_reachable(port)
        token = await asyncio.to_thread(Path(environment["CONSOLIDATOR_HOME"], "token").read_text, "utf-8")
        headers = {"authorization": f"Bearer {token.strip()}"}
        address = f"http://127.0.0.1:{port}/v1"
        async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=PATIENCE) as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


async def _wait_until_reachable(port: int) -> None:
    async with asyncio.timeout(PATIENCE), httpx2.AsyncClient() as client:
        while True:
            try:
                await client.get(f"http://127.0.0.1:{port}/healthz")
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
            else:
                return
