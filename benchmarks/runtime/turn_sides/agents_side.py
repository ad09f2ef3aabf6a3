"""Turns of openai-agents with SQLAlchemySession over asyncpg: one agent, one engine, `Runner.run_streamed`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.extensions.memory import SQLAlchemySession
from openai.types.responses import ResponseTextDeltaEvent
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.runtime.turn_sides.side import ANSWER, MODEL, create_client, look, server_url


class AgentsSide:
    """An agent, and sessions by key over one engine."""

    version = f"openai-agents {version('openai-agents')}, SQLAlchemy {version('sqlalchemy')}"

    def __init__(self, agent: Any, engine: AsyncEngine) -> None:
        self._agent = agent
        self._engine = engine
        self._sessions: dict[str, Any] = {}

    async def open_session(self, key: str) -> None:
        """Create the session's object; its row begins with its first turn."""
        self._sessions[key] = SQLAlchemySession(key, engine=self._engine)

    async def take_turn(self, key: str, text: str, mode: str) -> None:
        """Run the agent with a message and read the answer's tokens."""
        result = Runner.run_streamed(self._agent, text, session=self._sessions[key])
        answer = ""
        async for event in result.stream_events():
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                answer += event.data.delta
        assert answer == ANSWER, answer

    async def count_messages(self, key: str) -> int:
        """Count the items that a new session object reads."""
        return len(await SQLAlchemySession(key, engine=self._engine).get_items())


@asynccontextmanager
async def open_side(request: dict[str, Any]) -> AsyncIterator[AgentsSide]:
    """Open the engine with a connection for each session that runs at once, and create the tables."""
    set_tracing_disabled(True)  # spans would go to another server
    engine = create_async_engine(server_url(request, "postgresql+asyncpg"), pool_size=8, max_overflow=0)
    client = create_client(request)
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
    agent = Agent(name="bench", model=model, tools=[function_tool(look)])
    try:
        await SQLAlchemySession("tables", engine=engine, create_tables=True).get_items()
        yield AgentsSide(agent, engine)
    finally:
        await client.close()
        await engine.dispose()
