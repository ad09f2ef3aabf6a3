"""The agent, the API for authors: sessions that are opened by key, take messages and steers, and survive any process.

An agent holds no state that is not in the log. Several agents on several machines may serve the same sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any, Unpack

from consolidator.database import Database, open_database
from consolidator.llm import tokens
from consolidator.llm.client import create_client
from consolidator.runtime.agent_session import Session
from consolidator.runtime.lineage import checkpoints
from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.runtime.session import creation
from consolidator.runtime.session.overrides import NO_OVERRIDES, Overrides
from consolidator.runtime.session.routing import RoutePolicy
from consolidator.runtime.session.session_request import SessionArguments, session_request
from consolidator.runtime.tools.builtin import BuiltinGroup, builtin_tools
from consolidator.runtime.tools.mcp_config import start_mcp_servers
from consolidator.runtime.tools.tool import Tool, Toolbox
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import Harness, RecallFunction, Sender, StepResult
from consolidator.settings import Settings, load_settings
from consolidator.store.sessions import sessions as session_store


class Consolidator:
    """An agent over the log: its tools, its model server, its database.

    Use `async with Consolidator(tools=[...]) as agent:`, then `await agent.open(key)`. `channels` sends the messages
    of sessions, by channel name; `builtin` names groups of our own tools that the model is offered; `recall` returns
    what memory knows about a message; `policy` chooses models where a session's is `auto`. `surface` names where people
    type their messages: what they send is logged as said by `user:SURFACE`. `settings` and `database` default to the
    configured ones.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        settings: Settings | None = None,
        database: Database | None = None,
        mcp: Sequence[str] = (),
        builtin: Iterable[BuiltinGroup] = (),
        channels: Mapping[str, Sender] | None = None,
        recall: RecallFunction | None = None,
        policy: RoutePolicy | None = None,
        surface: str = sessions.LIBRARY,
    ) -> None:
        self.surface = surface
        self._toolbox = Toolbox(tools)
        self._builtin = tuple(builtin)
        self._settings = settings
        self._database = database
        self._mcp = tuple(mcp)
        self._channels = dict(channels or {})
        self._recall = recall
        self._policy = policy
        self._stack = AsyncExitStack()
        self._harness: Harness | None = None
        self._hub: FollowHub | None = None
        self._opening_hub = asyncio.Lock()

    async def __aenter__(self) -> Consolidator:
        settings = self._settings or load_settings()
        tokens.use_folder(settings.vocabulary_folder)
        async with AsyncExitStack() as stack:
            database = self._database
            if database is None:
                database = await stack.enter_async_context(open_database(settings))
            mcp_tools = await stack.enter_async_context(start_mcp_servers(self._mcp))
            for tool in (*builtin_tools(self._builtin), *mcp_tools):
                self._toolbox.add(tool)
            client = create_client(settings)
            stack.push_async_callback(client.close)
            self._harness = Harness(
                database, settings, client, self._toolbox, self._channels, recall=self._recall, policy=self._policy
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._harness = self._hub = None
        await self._stack.aclose()

    @property
    def harness(self) -> Harness:
        """What the agent brings to every session; only while it is open."""
        if self._harness is None:
            raise RuntimeError("the agent is not open: use `async with Consolidator(...) as agent:`")
        return self._harness

    @property
    def database(self) -> Database:
        """The agent's database; only while it is open."""
        return self.harness.database

    async def hub(self) -> FollowHub:
        """Return what follows sessions that other processes drive; it has a connection of its own from now on."""
        async with self._opening_hub:
            if self._hub is None:
                self._hub = await self._stack.enter_async_context(open_hub(self.database))
            return self._hub

    async def open(
        self,
        key: str,
        model: str | None = None,
        *,
        max_cost_usd: float | Decimal | str | None = None,
        **wanted: Unpack[SessionArguments],
    ) -> Session:
        """Return the session that a key (`agent:channel:peer`) names now; create it if there is none.

        A new session takes what is not named from its agent's defaults (`consolidator agent`). Arguments that are not
        None are set on a session that exists; the others stay as they were. Raises UsageError for a cap that cannot be
        enforced, an unknown strategy, and a size below 1, and SessionDiffers for another project, conversation, trigger
        or seeds than a session that exists began with.
        """
        request = session_request(model, max_cost_usd, wanted)
        row = await creation.open_session(
            self.database, self.harness.settings, key, request, tools=tuple(self.harness.tools.names)
        )
        return Session(self, row)

    async def create(
        self,
        agent: str | None = None,
        model: str | None = None,
        *,
        key: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        max_cost_usd: float | Decimal | str | None = None,
        **wanted: Unpack[SessionArguments],
    ) -> Session:
        """Create a session of an agent in any case; a `key` names it from now on, and it continues that conversation.

        The arguments are those of `open`. Raises UsageError as it does.
        """
        request = session_request(model, max_cost_usd, wanted)
        row = await creation.create_session(
            self.database, self.harness.settings, request, agent=agent, channel=channel, peer=peer, key=key,
            tools=tuple(self.harness.tools.names),
        )  # fmt: skip
        return Session(self, row)

    async def session(self, session_id: str) -> Session:
        """Return a session by its id. Raises NotFound."""
        async with self.database.connection() as conn:
            return Session(self, await session_store.get(conn, session_id))

    async def restore(
        self, checkpoint_id: str, *, overrides: Overrides = NO_OVERRIDES, is_current: bool = False
    ) -> Session:
        """Return a new session that goes on from a checkpoint. Raises NotFound, and UsageError as `fork` does."""
        self.harness.check_tools(overrides)
        row = await checkpoints.restore_checkpoint(
            self.database, self.harness.settings, checkpoint_id, overrides=overrides, is_current=is_current
        )
        return Session(self, row)

    async def step(self, session_id: str) -> StepResult:
        """Take one step of a session. Raises SessionBusy if another process drives it."""
        return await waking.step_session(self.harness, session_id)

    async def wake(self, session_id: str) -> StepResult:
        """Step a session until nothing is open in it. Raises SessionBusy if another process drives it."""
        return await waking.wake_session(self.harness, session_id)

    async def wake_all(self) -> list[waking.WakeResult]:
        """Wake every session in which something is open."""
        return await waking.wake_all(self.harness)


async def step(agent: Consolidator, session_id: str) -> StepResult:
    """Take one step of an agent's session, and return a pointer to what it committed."""
    return await agent.step(session_id)


async def wake(agent: Consolidator, session_id: str) -> StepResult:
    """Step an agent's session until nothing is open in it."""
    return await agent.wake(session_id)
