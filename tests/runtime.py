"""What tests of the runtime say often: an agent on the test's database, a channel that can be read, a log in words."""

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
from consolidator.runtime.harness import Delta
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply

KEY = "main:test:ines"
SECRET = "ghp_" + "Zk3" * 12  # what an error may hold, and no log line
Replies = list[ScriptedReply | str]


@dataclass
class Channel:
    """A channel that keeps what it was sent; `broken` makes it fail."""

    got: list[Delta] = field(default_factory=list)
    broken: bool = False

    async def __call__(self, delta: Delta) -> None:
        if self.broken:
            raise ConnectionError(f"nobody listens to {SECRET}")
        self.got.append(delta)

    @property
    def text(self) -> str:
        """All that was sent and not taken back."""
        void = {delta.message_id for delta in self.got if delta.kind == "void"}
        return "".join(delta.text for delta in self.got if delta.message_id not in void)


def settings_of(server: ModelServer | str, home: Path, **more: Any) -> Settings:
    """Return settings that ask a stand-in, or a server at an address."""
    url = server if isinstance(server, str) else server.url
    return Settings(home=home, openai_base_url=url, model="gpt-4o-mini", health_port=0, **more)


@asynccontextmanager
async def agent_on(
    database: Database,
    server: ModelServer | str,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    *,
    channel: Channel | None = None,
    **more: Any,
) -> AsyncIterator[Consolidator]:
    """Open an agent on a database that never waits between two tries."""
    settings = settings_of(server, Path("/nonexistent"), **more)
    channels = {} if channel is None else {"test": channel}
    async with Consolidator(tools, settings=settings, database=database, channels=channels) as agent:
        agent.harness.sleep = _at_once
        yield agent


async def _at_once(_: float) -> None:
    return None


async def heard(session: Session, text: str) -> str:
    """Say something and return the answer as it was yielded."""
    return "".join([piece async for piece in session.send(text)])


async def log_of(database: Database, session_id: str) -> list[Event]:
    """Return a session's log."""
    async with database.connection() as conn:
        return await events.read(conn, session_id)


def in_words(log: Iterable[Event]) -> list[str]:
    """Return a log as short lines, to be compared."""
    return [_line(event) for event in log]


def _line(event: Event) -> str:
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
