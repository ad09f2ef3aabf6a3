"""Turns of consolidator: its defaults, tokens streamed to the caller."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from benchmarks.runtime.turn_sides.side import ANSWER, MODEL, TOOL, look
from consolidator import Consolidator, tool
from consolidator.clock import Clock
from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.runtime.agent import Session
from consolidator.settings import Settings
from consolidator.store.log import events

_MESSAGES = (EventType.USER_MESSAGE, EventType.TOOL_CALL, EventType.TOOL_RESULT, EventType.ASSISTANT_RESPONSE)


class ConsolidatorSide:
    """An agent and its sessions by key."""

    version = f"consolidator {version('consolidator')}"

    def __init__(self, agent: Consolidator) -> None:
        self._agent = agent
        self._sessions: dict[str, Session] = {}

    async def open_session(self, key: str) -> None:
        """Open a session with the defaults of a new installation."""
        self._sessions[key] = await self._agent.open(f"bench:{key}:someone", MODEL)

    async def take_turn(self, key: str, text: str, mode: str) -> None:
        """Send a message and read the answer's tokens."""
        answer = "".join([token async for token in self._sessions[key].send(text)])
        assert answer == ANSWER, answer

    async def count_messages(self, key: str) -> int:
        """Count the messages, calls, results and answers in the log (a reply that only calls has an empty answer)."""
        async with self._agent.database.connection() as conn:
            logged = await events.read(conn, self._sessions[key].id)
        return sum(event.type in _MESSAGES and event.data.get("text") != "" for event in logged)


@asynccontextmanager
async def open_side(request: dict[str, Any]) -> AsyncIterator[ConsolidatorSide]:
    """Open an agent on the migrated database."""
    with tempfile.TemporaryDirectory(prefix="consolidator-bench-") as home:
        settings = Settings(home=Path(home), sources=[], model=MODEL, openai_base_url=request["model_url"])
        database = Database(make_conninfo(**request["server"]), Clock())
        try:
            tools = [tool(idempotent=True, name=TOOL)(look)]
            async with Consolidator(tools, settings=settings, database=database) as agent:
                yield ConsolidatorSide(agent)
        finally:
            await database.close()
