"""A session of the OpenAI Agents SDK over this log, and memory as its tools.

`Runner.run(Agent(..., tools=memory_tools(Memory())), "hi", session=ConsolidatorSession(key))`: the SDK drives the agent
and keeps its items here; nights learn from them as from any other session. What the SDK takes back is withdrawn by an
event, and nothing is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from ulid import ULID

from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.integrations.memory_tools import MemoryTools
from consolidator.library.memory import Memory
from consolidator.library.shared_database import DatabaseUse
from consolidator.service.database import Database
from consolidator.service.log.items import ItemLog
from consolidator.settings import Settings

try:
    from agents import FunctionTool, function_tool
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise UsageError("this needs the OpenAI Agents SDK: pip install 'consolidator[agents]'") from error

FRAMEWORK = "openai-agents"
_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.2


def memory_tools(memory: Memory) -> list[FunctionTool]:
    """Return a memory's tools: recall, look an error up, explain, remember and forget, each with a short answer."""
    return [function_tool(function) for function in MemoryTools(memory).list_functions()]


class ConsolidatorSession:
    """The conversation that the SDK has under a key (`agent:channel:peer`); an instance holds none of it.

    Without `database` the configured one is opened, shared by the process, and closed at its end; a `database` is used
    on the event loop that it was opened on. `origin="harness"` says that a program writes what the SDK sends as the
    user; `surface` is where people type it, and `project` the folder or repository that it is about. Raises UsageError
    for a key that is not valid.
    """

    def __init__(
        self,
        key: str,
        *,
        database: Database | None = None,
        settings: Settings | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        project: str | None = None,
        origin: Literal["user", "harness"] = "user",
        surface: str = "library",
    ) -> None:
        self.session_id = key
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or {})
        self._log = ItemLog(key, framework=FRAMEWORK, surface=surface, origin=origin, project=project)
        self._use = DatabaseUse(database, settings)
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the latest `limit` items, the oldest first; without a limit that of `session_settings`, else all.

        A negative limit is none, as in the SDK's own sessions.
        """
        self._check_open()
        most = resolve_session_limit(limit, self.session_settings)
        latest = None if most is None or most < 0 else most
        return await self._use.run(lambda database: self._log.read(database, latest))

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append items, all or none. A call that lost its connection is repeated, and still writes them once."""
        self._check_open()
        if not items:
            return
        idempotency_key = str(ULID())
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._use.run(lambda database: self._log.add(database, items, idempotency_key=idempotency_key))
                return
            except DatabaseUnavailable:
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))

    async def pop_item(self) -> Any | None:
        """Withdraw the latest item and return it; None if there is none."""
        self._check_open()
        return await self._use.run(self._log.pop)

    async def clear_session(self) -> None:
        """Withdraw all items. They stay in the log: `consolidator erase` deletes what must be gone."""
        self._check_open()
        await self._use.run(self._log.clear)

    async def close(self) -> None:
        """Close this session; the last one of a process closes the shared database, too."""
        self._closed = True
        await asyncio.to_thread(self._use.close)

    async def __aenter__(self) -> ConsolidatorSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed: open another one under the key {self.session_id!r}")
