"""Writes one message durably through other libraries' session stores, and says how long it took.

Run by a Python that has openai-agents and langgraph-checkpoint-postgres, not by ours: reads a line of JSON on standard
input, says as one line which stores there are, then answers each line "STORE COUNT" with seconds.
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


async def agents_session(told: dict[str, Any]) -> tuple[str, Write]:
    """Return openai-agents' store over asyncpg, as its documentation shows: one item is added at a time."""
    from agents.extensions.memory import SQLAlchemySession
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import create_async_engine

    place = told["place"]
    url = URL.create(
        "postgresql+asyncpg", place["user"], place.get("password"), database=place["dbname"],
        query={"host": place["host"], "port": str(place["port"])},
    )  # fmt: skip
    session = SQLAlchemySession("s", engine=create_async_engine(url), create_tables=True)
    item = {"type": "function_call_output", "call_id": "c0", "output": told["text"]}

    async def write(count: int) -> None:
        for _ in range(count):
            await session.add_items([item])

    return f"openai-agents {version('openai-agents')}", write


async def langgraph_saver(told: dict[str, Any], messages: int, *, step: bool = False) -> tuple[str, Write]:
    """Return langgraph's store: a checkpoint whose conversation has so many messages is put at a time.

    With `step` it also keeps what a task wrote, as a graph does at each of its steps.
    """
    from langgraph.checkpoint.base import empty_checkpoint, uuid6
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row

    place = told["place"]
    conn = Connection.connect(**place, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    saver = PostgresSaver(conn)
    saver.setup()
    said = [{"role": "tool", "tool_call_id": f"c{n}", "content": told["text"]} for n in range(messages)]
    config: Any = {"configurable": {"thread_id": f"t{messages}-{step}", "checkpoint_ns": ""}}
    done = 0

    async def write(count: int) -> None:
        nonlocal config, done
        for _ in range(count):
            done += 1
            point = empty_checkpoint()
            point["id"] = str(uuid6(clock_seq=done % 16_384))
            point["channel_values"] = {"messages": said}
            point["channel_versions"] = {"messages": f"{done:032}"}
            metadata = {"source": "loop", "step": done}
            config = saver.put(config, point, metadata, {"messages": f"{done:032}"})
            if step:
                saver.put_writes(config, [("messages", said[-1:])], f"task-{done}")

    return f"langgraph-checkpoint-postgres {version('langgraph-checkpoint-postgres')}", write


async def main() -> None:
    """Open what is there, and write when asked."""
    told = json.loads(sys.stdin.readline())
    stores: dict[str, Write] = {}
    names: dict[str, str] = {}
    for name, opening in (
        ("add_items", agents_session(told)),
        ("put", langgraph_saver(told, 1)),
        ("put of 50 messages", langgraph_saver(told, 50)),
        ("step of a graph, 50 messages", langgraph_saver(told, 50, step=True)),
    ):
        try:
            names[name], stores[name] = await opening
        except ImportError as error:
            names[name] = f"absent: {error}"
    answer({"stores": sorted(stores), "names": names})
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, _, count = line.strip().rpartition(" ")
        started = time.perf_counter()
        await stores[name](int(count))
        answer(time.perf_counter() - started)


def answer(found: Any) -> None:
    """Say one line."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
