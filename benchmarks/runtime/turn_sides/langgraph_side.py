"""Turns of langgraph with AsyncPostgresSaver: a model node and a tool node, tokens by the custom stream.

As its documentation shows for a client of one's own: messages are dicts that are added up. A saver does one thing at a
time, also over a pool, so each of the sessions that run at once has its own saver, in a graph that is compiled once.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.runtime.turn_sides.side import ANSWER, create_client, run_tools, stream_reply

_AT_ONCE = 8


class State(TypedDict):
    """The conversation."""

    messages: Annotated[list[dict[str, Any]], operator.add]


class LanggraphSide:
    """Graphs over one pool, one for each session that runs at once."""

    version = (
        f"langgraph {version('langgraph')}, langgraph-checkpoint-postgres {version('langgraph-checkpoint-postgres')}"
    )

    def __init__(self, graphs: list[Any]) -> None:
        self._graphs = graphs
        self._slots: dict[str, int] = {}

    def _graph(self, key: str) -> Any:
        return self._graphs[self._slots.setdefault(key, len(self._slots) % _AT_ONCE)]

    async def open_session(self, key: str) -> None:
        """Give a session its graph; a thread begins with its first turn."""
        self._graph(key)

    async def take_turn(self, key: str, text: str, mode: str) -> None:
        """Run the graph with a message, durability by the mode, and read the answer's tokens."""
        message = {"messages": [{"role": "user", "content": text}]}
        config = {"configurable": {"thread_id": key}}
        stream = self._graph(key).astream(message, config, stream_mode="custom", durability=mode)
        answer = "".join([token async for token in stream])
        assert answer == ANSWER, answer

    async def count_messages(self, key: str) -> int:
        """Count the messages of the thread's latest checkpoint."""
        state = await self._graph(key).aget_state({"configurable": {"thread_id": key}})
        return len(state.values["messages"])


@asynccontextmanager
async def open_side(request: dict[str, Any]) -> AsyncIterator[LanggraphSide]:
    """Open the pool, create the tables and compile the graphs."""
    client = create_client(request)

    async def call_model(state: State) -> dict[str, Any]:
        return {"messages": [await stream_reply(client, state["messages"], get_stream_writer())]}

    async def call_tools(state: State) -> dict[str, Any]:
        return {"messages": run_tools(state["messages"][-1])}

    def route(state: State) -> Literal["tools", "__end__"]:
        return "tools" if state["messages"][-1].get("tool_calls") else "__end__"

    builder = StateGraph(State)
    builder.add_node("model", call_model)
    builder.add_node("tools", call_tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", route)
    builder.add_edge("tools", "model")
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        make_conninfo(**request["server"]), min_size=_AT_ONCE, max_size=_AT_ONCE, kwargs=options, open=False
    )
    async with pool, client:
        await pool.wait()
        await AsyncPostgresSaver(pool).setup()
        graphs = [builder.compile(checkpointer=AsyncPostgresSaver(pool)) for _ in range(_AT_ONCE)]
        yield LanggraphSide(graphs)
