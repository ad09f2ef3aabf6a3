"""Turns of DBOS: a workflow for each turn, whose model calls and tool calls are steps. It does not stream.

A workflow returns the messages of its turn. What the model is shown is looked up in the step that asks it, here in
memory; after a start it would be read from the outputs of the turns before. So a turn writes the same at any length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.runtime.turn_sides.side import ANSWER, create_client, run_tools, server_url, stream_reply

_histories: dict[str, list[dict[str, Any]]] = defaultdict(list)  # by session
_clients: list[Any] = []


@DBOS.step()
async def call_model(key: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask the model with the session's history and the messages of this turn."""
    return await stream_reply(_clients[0], [*_histories[key], *messages])


@DBOS.step()
async def call_tools(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the tools that a reply calls."""
    return run_tools(reply)


@DBOS.workflow()
async def take_turn(key: str, text: str) -> list[dict[str, Any]]:
    """Answer a message."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    while True:
        messages.append(await call_model(key, messages))
        if not messages[-1].get("tool_calls"):
            return messages
        messages += await call_tools(messages[-1])


class DbosSide:
    """Sessions, each a row of workflows."""

    version = f"dbos {version('dbos')}"

    def __init__(self) -> None:
        self._turns: dict[str, int] = defaultdict(int)

    async def open_session(self, key: str) -> None:
        """Do nothing: a session is its turns' workflows."""

    async def take_turn(self, key: str, text: str, mode: str) -> None:
        """Run a workflow and keep its messages."""
        with SetWorkflowID(f"{key}-{self._turns[key]}"):
            messages = await take_turn(key, text)
        assert messages[-1]["content"] == ANSWER, messages
        self._turns[key] += 1
        _histories[key] += messages

    async def count_messages(self, key: str) -> int:
        """Count the messages in the outputs of the session's finished workflows."""
        found = await DBOS.list_workflows_async(workflow_id_prefix=f"{key}-", status="SUCCESS")
        return sum(len(workflow.output or ()) for workflow in found)


@asynccontextmanager
async def open_side(request: dict[str, Any]) -> AsyncIterator[DbosSide]:
    """Launch DBOS with its tables in the side's database."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": server_url(request, "postgresql"),
        "sys_db_pool_size": 8,
        "log_level": "ERROR",
    }
    client = create_client(request)
    _clients.append(client)
    DBOS(config=config)
    DBOS.launch()
    try:
        yield DbosSide()
    finally:
        await client.close()
        DBOS.destroy()
