"""Helpers of the runtime's tests: an agent on the test database, a recording channel, a log as short lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator import Consolidator, Session, Tool
from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.runtime.tools.builtin import BuiltinGroup
from consolidator.runtime.turn.harness import Delta
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply

KEY = "main:test:ines"
SECRET = "ghp_" + "Zk3" * 12  # errors may contain it, log lines must not
Replies = list[ScriptedReply | str]


@dataclass
class RecordingChannel:
    """A channel that records what it receives; `is_broken` makes it fail."""

    deltas: list[Delta] = field(default_factory=list)
    is_broken: bool = False

    async def __call__(self, delta: Delta) -> None:
        if self.is_broken:
            raise ConnectionError(f"nobody listens to {SECRET}")
        self.deltas.append(delta)

    @property
    def text(self) -> str:
        """The text of all messages that are not void."""
        void = {delta.message_id for delta in self.deltas if delta.kind == "void"}
        return "".join(delta.text for delta in self.deltas if delta.message_id not in void)


def create_settings(server: ModelServer | str, home: Path, **more: Any) -> Settings:
    """Return settings for a stand-in server, or for one at a URL."""
    url = server if isinstance(server, str) else server.url
    return Settings(**{"home": home, "openai_base_url": url, "model": "gpt-4o-mini", "health_port": 0} | more)


@asynccontextmanager
async def open_agent(
    database: Database,
    server: ModelServer | str,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    *,
    channel: RecordingChannel | None = None,
    builtin: Iterable[BuiltinGroup] = (),
    **more: Any,
) -> AsyncIterator[Consolidator]:
    """Open an agent that does not wait between two attempts."""
    settings = create_settings(server, Path("/nonexistent"), **more)
    channels = {} if channel is None else {"test": channel}
    async with Consolidator(tools, settings=settings, database=database, channels=channels, builtin=builtin) as agent:
        agent.harness.sleep = _skip_sleep
        yield agent


async def _skip_sleep(_: float) -> None:
    return None


async def send_and_collect(session: Session, text: str) -> str:
    """Send a message and return the answer as it was yielded."""
    return "".join([piece async for piece in session.send(text)])


async def read_log(database: Database, session_id: str) -> list[Event]:
    """Return a session's log."""
    async with database.connection() as conn:
        return await events.read(conn, session_id)


def describe_log(log: Iterable[Event]) -> list[str]:
    """Return a log as short lines, to compare it."""
    return [_describe_event(event) for event in log]


def _describe_event(event: Event) -> str:
    data = event.data
    match event.type:
        case EventType.USER_MESSAGE:
            return f"user: {data['text']}"
        case EventType.ASSISTANT_RESPONSE:
            return f"model: {data['text']}" + (" [interrupted]" if data.get("finish") == "interrupted" else "")
        case EventType.TOOL_CALL:
            return f"call: {data['tool']}"
        case EventType.TOOL_RESULT:
            return f"result: {data['tool']} {data['status']}" + (f" {data['reason']}" if data.get("reason") else "")
        case EventType.POLICY_DECISION:
            return f"decision: {data['decision']}"
        case EventType.ERROR:
            return "error"
        case _:
            return str(event.type)
