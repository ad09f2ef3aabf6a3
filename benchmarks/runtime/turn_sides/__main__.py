"""Serves one side over pipes: a line of JSON in, a line of JSON out, until standard input ends.

First comes what the side needs: its database (`server`, keywords of libpq) and the URL of the model. Then
`{"sessions": [...], "open": true}` opens sessions; `{"sessions": [...], "turns": 2, "text": ..., "mode": ...}` has
every session take two turns, one after another, all sessions at once, and answers seconds and seconds of processor
time; `{"messages": KEY}` answers how many messages of a session the library reads back.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import Any

MODULES = {
    "consolidator": "consolidator_side",
    "langgraph": "langgraph_side",
    "openai-agents": "agents_side",
    "DBOS": "dbos_side",
}


async def serve(name: str) -> None:
    """Open a side and answer requests."""
    request = json.loads(sys.stdin.readline())
    try:
        module = importlib.import_module(f"benchmarks.runtime.turn_sides.{MODULES[name]}")
    except ImportError as error:
        print_line({"absent": str(error)})
        return
    async with module.open_side(request) as side:
        print_line({"version": side.version})
        while line := await asyncio.to_thread(sys.stdin.readline):
            print_line(await answer(side, json.loads(line)))


async def answer(side: Any, request: dict[str, Any]) -> Any:
    """Do what one line asks."""
    if key := request.get("messages"):
        return {"messages": await side.count_messages(key)}
    sessions = request["sessions"]
    if request.get("open"):
        await asyncio.gather(*(side.open_session(key) for key in sessions))
        return {}

    async def run(key: str) -> None:
        for _ in range(request["turns"]):
            await side.take_turn(key, request["text"], request["mode"])

    started, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*(run(key) for key in sessions))
    return {"seconds": time.perf_counter() - started, "processor": time.process_time() - processor}


def print_line(value: Any) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
