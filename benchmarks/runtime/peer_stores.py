"""Writes messages durably through the session stores of other libraries, and measures how long that takes.

Runs under a Python that has openai-agents and langgraph-checkpoint-postgres, not under ours. It reads one line of JSON
on standard input, prints one line that lists the stores, then answers each line "STORE COUNT" with seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

Write = Callable[[int], Awaitable[None]]


async def open_agents_session(request: dict[str, Any]) -> tuple[str, Write]:
    """Return the store of openai-agents over asyncpg, used as its documentation shows: one item at a time."""
    from agents.extensions.memory import SQLAlchemySession
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import create_async_engine

    server = request["server"]
    url = URL.create(
        "postgresql+asyncpg", server["user"], server.get("password"), database=server["dbname"],
        query={"host": server["host"], "port": str(server["port"])},
    )  # fmt: skip
    session = SQLAlchemySession("s", engine=create_async_engine(url), create_tables=True)
    item: Any = {"type": "function_call_output", "call_id": "c0", "output": request["text"]}

    async def write(count: int) -> None:
        for _ in range(count):
            await session.add_items([item])

    return f"openai-agents {version('openai-agents')}", write


async def open_langgraph_saver(
    request: dict[str, Any], message_count: int, *, writes_too: bool = False
) -> tuple[str, Write]:
    """Return the store of langgraph: each write puts a checkpoint whose conversation has `message_count` messages.

    With `writes_too` it also stores what a task wrote, as a graph does at each of its steps.
    """
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row

    conn = Connection.connect(**request["server"], autocommit=True, prepare_threshold=0, row_factory=dict_row)
    saver = PostgresSaver(conn)
    saver.setup()
    messages = [{"role": "tool", "tool_call_id": f"c{n}", "content": request["text"]} for n in range(message_count)]
    config: Any = {"configurable": {"thread_id": f"t{message_count}-{writes_too}", "checkpoint_ns": ""}}
    step = 0

    async def write(count: int) -> None:
        nonlocal config, step
        for _ in range(count):
            step += 1
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6(clock_seq=step % 16_384))
            checkpoint["channel_values"] = {"messages": messages}
            checkpoint["channel_versions"] = {"messages": f"{step:032}"}
            metadata = {"source": "loop", "step": step}
            config = saver.put(config, checkpoint, metadata, {"messages": f"{step:032}"})
            if writes_too:
                saver.put_writes(config, [("messages", messages[-1:])], f"task-{step}")

    return f"langgraph-checkpoint-postgres {version('langgraph-checkpoint-postgres')}", write


async def main() -> None:
    """Open the stores whose libraries are installed, and write on request."""
    request = json.loads(sys.stdin.readline())
    stores: dict[str, Write] = {}
    versions: dict[str, str] = {}
    for name, opening in (
        ("add_items", open_agents_session(request)),
        ("put", open_langgraph_saver(request, 1)),
        ("put of 50 messages", open_langgraph_saver(request, 50)),
        ("step of a graph, 50 messages", open_langgraph_saver(request, 50, writes_too=True)),
    ):
        try:
            versions[name], stores[name] = await opening
        except ImportError as error:
            versions[name] = f"absent: {error}"
    print_line({"stores": sorted(stores), "versions": versions})
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, _, count = line.strip().rpartition(" ")
        started = time.perf_counter()
        await stores[name](int(count))
        print_line(time.perf_counter() - started)


def print_line(value: Any) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
