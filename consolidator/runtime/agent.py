"""The agent, the API for authors: sessions that are opened by key, take messages and steers, and survive any process.

An agent holds no state that is not in the log. Several agents on several machines may serve the same sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypedDict, Unpack

from ulid import ULID

from consolidator.database import Database, open_database
from consolidator.llm.client import create_client
from consolidator.models.event import Event
from consolidator.models.lineage import CheckpointRow
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.models.viewer import Viewer
from consolidator.runtime.lineage import checkpoints
from consolidator.runtime.lineage.children import BranchKind, ChildRequest, create_child
from consolidator.runtime.live.answer_stream import AnswerStream
from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.runtime.rerun import branches
from consolidator.runtime.rerun.branches import BranchRequest, SessionComparison
from consolidator.runtime.session import creation
from consolidator.runtime.session.agent_defaults import (
    NO_OVERRIDES,
    Overrides,
    ResultMode,
    SpawnRequest,
    SpawnResult,
    parse_amount,
)
from consolidator.runtime.session.creation import SessionArguments, session_request
from consolidator.runtime.session.hydration import HydratedSession, hydrate_session
from consolidator.runtime.session.routing import RoutePolicy
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit, change_scratchpad, read_scratchpad
from consolidator.runtime.session.tasks import PROGRAM, Task, TaskOutcome, finish_task
from consolidator.runtime.tools.builtin import BuiltinGroup, builtin_tools
from consolidator.runtime.tools.mcp_config import start_mcp_servers
from consolidator.runtime.tools.procedure_tool import load_procedures
from consolidator.runtime.tools.tool import Tool, Toolbox
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import Delta, GuardFunction, Harness, RecallFunction, Sender, StepResult
from consolidator.settings import Settings, load_settings
from consolidator.store.sessions import sessions as session_store
from consolidator.store.sessions import tasks as task_store
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from consolidator.store.sessions.tasks import TaskRow


class Consolidator:
    """An agent over the log: its tools, its model server, its database.

    Use `async with Consolidator(tools=[...]) as agent:`, then `await agent.open(key)`. `channels` sends the messages
    of sessions, by channel name; `builtin` names groups of our own tools that the model is offered; `recall` returns
    what memory knows about a message; `guard` says what to do about a call before it is logged; `policy` chooses models
    where a session's is `auto`. `surface` names where people type their messages: what they send is logged as said by
    `user:SURFACE`. `settings` and `database` default to the configured ones.
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
        guard: GuardFunction | None = None,
        policy: RoutePolicy | None = None,
        surface: str = sessions.LIBRARY,
    ) -> None:
        self.viewer = Viewer(surface=surface)
        self._toolbox = Toolbox(tools)
        self._builtin = tuple(builtin)
        self._settings = settings
        self._database = database
        self._mcp = tuple(mcp)
        self._channels = dict(channels or {})
        self._recall = recall
        self._guard = guard
        self._policy = policy
        self._stack = AsyncExitStack()
        self._harness: Harness | None = None
        self._hub: FollowHub | None = None
        self._opening_hub = asyncio.Lock()

    async def __aenter__(self) -> Consolidator:
        settings = self._settings or load_settings()
        async with AsyncExitStack() as stack:
            database = self._database
            if database is None:
                database = await stack.enter_async_context(open_database(settings))
            mcp_tools = await stack.enter_async_context(start_mcp_servers(self._mcp))
            for tool in (*builtin_tools(self._builtin), *mcp_tools):
                self._toolbox.add(tool)
            client = create_client(settings)
            stack.push_async_callback(client.close)
            procedures = await load_procedures(database)
            self._harness = Harness(
                database, settings, client, self._toolbox, procedures, self._channels,
                recall=self._recall, guard=self._guard, policy=self._policy,
            )  # fmt: skip
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
        **arguments: Unpack[SessionArguments],
    ) -> Session:
        """Return the session that a key (`agent:channel:peer`) names now; create it if there is none.

        A new session takes what is not named from its agent's defaults (`consolidator agent`). Arguments that are not
        None are set on a session that exists; the others stay as they were. Raises UsageError for a cap that cannot be
        enforced, an unknown strategy, and a size below 1, and SessionDiffers for another project, conversation, trigger
        or seeds than a session that exists began with.
        """
        request = session_request(model, max_cost_usd, arguments)
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
        **arguments: Unpack[SessionArguments],
    ) -> Session:
        """Create a session of an agent in any case; a `key` names it from now on, and it continues that conversation.

        The arguments are those of `open`. Raises UsageError as it does.
        """
        request = session_request(model, max_cost_usd, arguments)
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
        row = await checkpoints.restore_checkpoint(
            self.database, self.harness.settings, checkpoint_id, overrides=overrides, is_current=is_current,
            driver_tools=self.harness.tools.names,
        )  # fmt: skip
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


VOID_NOTICE = "\n\n[the answer above was cut off and is void; it begins again]\n\n"
_EVENTS_PER_MESSAGE = 20  # read for each message of a history


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a session's history, as a person saw it."""

    seq: int
    role: str  # user | assistant
    text: str
    mode: str | None = None  # of a user's message: message | steer | follow_up


class SpawnArguments(TypedDict, total=False):
    """What a program may name of a sub-agent, beside its task and cap."""

    model: str | None
    context: str | Sequence[Mapping[str, Any]] | None
    tools: Sequence[str] | None
    mode: ResultMode
    max_tokens: int | None
    system: str | None


class Session:
    """A session as a conversation: `async for text in session.send("..."): ...`."""

    def __init__(self, agent: Consolidator, session: SessionRow) -> None:
        self._agent = agent
        self.id: str = session.id
        self.key: str | None = session.key
        self.model: str | None = session.model or agent.harness.settings.model
        self.restored_turns: int = session.turns  # turns that were in the session when it was opened
        self.result: StepResult | None = None  # of the last `send`, `stream` or `resume`

    async def send(self, text: str, mode: sessions.MessageMode = "message") -> AsyncIterator[str]:
        """Send a message and yield the answer as it comes; `result` tells afterwards why it ended.

        If another process drives the session, its answer is yielded as that process commits it.
        """
        async for delta in self.stream(text, mode):
            yield delta.text if delta.kind == "text" else VOID_NOTICE

    async def stream(self, text: str | None = None, mode: sessions.MessageMode = "message") -> AsyncIterator[Delta]:
        """Send a message, or with None resume what is open, and yield the deltas of what comes.

        A delta of kind `void` says that its message does not count.
        """
        harness, viewer = self._agent.harness, self._agent.viewer
        seq, lease = None, None
        if text is not None:
            seq, lease = await sessions.send_and_hold(harness, self.id, text, mode=mode, viewer=viewer)
        answers = AnswerStream(harness, self.id, seq, lease=lease, load_session=self.info, open_hub=self._agent.hub)
        async for delta in answers.deltas():
            yield delta
        self.result = answers.result

    async def resume(self) -> AsyncIterator[str]:
        """Resume an interrupted turn and yield the missing deltas."""
        async for delta in self.stream():
            yield delta.text if delta.kind == "text" else VOID_NOTICE

    async def steer(self, text: str) -> int:
        """Send a message that cancels what is in flight, and return its seq. Whoever drives the session answers it."""
        return await self._say(text, "steer")

    async def follow_up(self, text: str) -> int:
        """Send a message that is answered after the current turn, and return its seq."""
        return await self._say(text, "follow_up")

    async def _say(self, text: str, mode: sessions.MessageMode) -> int:
        return await sessions.send_message(self._agent.database, self.id, text, mode=mode, viewer=self._agent.viewer)

    async def history(self, limit: int = 50) -> list[Message]:
        """Return the last messages, the oldest first."""
        async with self._agent.database.connection() as conn:
            session = await session_store.get(conn, self.id)
            lineage = await load_lineage(conn, self.id, session)
            after = session.head - _EVENTS_PER_MESSAGE * limit
            log = await read_lineage(conn, lineage, after=after, upto=session.head)
        messages = [message for event in log if (message := _to_message(event)) is not None]
        return messages[-limit:]

    async def hydrate(self, *, limit: int = 50, before: int | None = None) -> HydratedSession:
        """Return all that a surface needs to show the session, of one moment, with the latest messages before an event.

        `earlier_before` of the result is the `before` of the messages before those.
        """
        harness = self._agent.harness
        async with harness.database.snapshot() as conn:
            session = await session_store.get(conn, self.id)
            now = harness.database.clock.now()
            return await hydrate_session(conn, harness.settings, session, now=now, before=before, limit=limit)

    async def info(self) -> SessionRow:
        """Return the session's row: totals, cost, cap, what waits for a person."""
        async with self._agent.database.connection() as conn:
            return await session_store.get(conn, self.id)

    async def end(self, reason: str = "ended by the user", *, hide: bool = False) -> None:
        """End the session; with `hide` it is not listed either. Nothing is deleted."""
        await sessions.end_session(self._agent.database, self.id, reason=reason, hide=hide)

    async def fork(
        self,
        at: int | None = None,
        *,
        overrides: Overrides = NO_OVERRIDES,
        is_current: bool = False,
        same_conversation: bool = False,
    ) -> Session:
        """Return a new session that reads this one's log up to an event as its own past; this one is untouched.

        By default it begins after the latest event at which nothing is open, and a conversation of its own. Raises
        UsageError for tools that the agent does not have, and for an event in the middle of a call or an answer, naming
        the nearest others.
        """
        request = ChildRequest(
            kind="fork", at=at, overrides=overrides, is_current=is_current, same_conversation=same_conversation
        )
        harness = self._agent.harness
        row = await create_child(harness.database, harness.settings, self.id, request, driver_tools=harness.tools.names)
        return Session(self._agent, row)

    async def branch(
        self,
        kind: BranchKind = "sim",
        message: str | None = None,
        *,
        at: int | None = None,
        overrides: Overrides = NO_OVERRIDES,
        live_tools: bool = False,
    ) -> Session:
        """Return a branch of this session, in which things can be tried: `await branch.send(...)`, or `resume` it.

        This session is untouched; tools with side effects are dry runs, unless `live_tools`. Nothing in a branch is
        evidence of anything. Raises UsageError as `fork` does.
        """
        harness = self._agent.harness
        state = await harness.before_branch(await self.info(), kind) if harness.before_branch else None
        request = BranchRequest(
            kind=kind,
            message=message,
            at=at,
            overrides=overrides,
            live_tools=live_tools,
            state=state if kind == "dream" else None,
        )
        row = await branches.create_branch(
            harness.database, harness.settings, self.id, request, driver_tools=harness.tools.names,
            viewer=self._agent.viewer,
        )  # fmt: skip
        return Session(self._agent, row)

    async def propose_steer(
        self, text: str, *, overrides: Overrides = NO_OVERRIDES, live_tools: bool = False, name: str | None = None
    ) -> SessionComparison:
        """Try a steer in a branch, alongside this session, and return how it compares; `commit_steer` sends it.

        After a crash the same call goes on with the branch that is there; a `name` has one branch in any case.
        """
        request = BranchRequest(kind="pre_steer", message=text, overrides=overrides, live_tools=live_tools, name=name)
        return await branches.run_branch(self._agent.harness, self.id, request, viewer=self._agent.viewer)

    async def compare(self, branch_id: str) -> SessionComparison:
        """Compare a branch with this session, from the branch's point on. Raises UsageError for no branch."""
        async with self._agent.database.connection() as conn:
            branch = await session_store.get(conn, branch_id)
        return await branches.compare_with(self._agent.database, branch, self.id)

    async def commit_steer(self, branch_id: str) -> int:
        """Send the steer of a proposal, once, and return its seq. Whoever drives the session answers it."""
        return (await branches.commit_steer(self._agent.database, branch_id, viewer=self._agent.viewer))[1]

    async def discard_branch(self, branch_id: str) -> None:
        """End a branch; what it did can still be read."""
        await branches.discard_branch(self._agent.database, branch_id)

    async def checkpoint(
        self,
        label: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        at: int | None = None,
        time_to_live: timedelta | None = None,
    ) -> CheckpointRow:
        """Set a checkpoint here, or after an earlier event, and return it; `Consolidator.restore` goes on from it."""
        return await checkpoints.create_checkpoint(
            self._agent.database, self.id, label=label, metadata=metadata, at=at, time_to_live=time_to_live
        )

    async def spawn(
        self,
        task: str,
        *,
        max_cost_usd: float | Decimal | str | None = None,
        call_id: str | None = None,
        **options: Unpack[SpawnArguments],
    ) -> SpawnResult:
        """Give a task to a sub-agent, and return what came of it. It sees the task and the context, and nothing else.

        A `call_id` has one sub-agent, however often this is called with it. `SpawnRequest` says what the rest is.
        Raises UsageError for a session that may have no sub-agent, and for what none could run with.
        """
        cap = None if max_cost_usd is None else parse_amount(max_cost_usd)
        request = SpawnRequest(task=task, max_cost=cap, **options)
        return await waking.spawn_sub_agent(self._agent.harness, self.id, call_id or f"spawn_{ULID()}", request)

    def task(self, title: str, *, resume: bool = False) -> Task:
        """Return a task as a block: `async with session.task("...") as task:`. What happens in it belongs to it.

        With `resume` it goes on with the open task if that has the same title, as after a crash.
        """
        return Task(self._agent.database, self.id, title, resume=resume)

    async def open_task(self) -> TaskRow | None:
        """Return the task that is open; None if none is."""
        async with self._agent.database.connection() as conn:
            return await task_store.get_open_task(conn, self.id)

    async def finish_task(self, outcome: TaskOutcome, note: str | None = None) -> TaskRow:
        """End the open task, as one that a crash left open, and return it. Raises UsageError if none is open."""
        return await finish_task(self._agent.database, self.id, outcome, note=note, principal=PROGRAM)

    async def scratchpad(self) -> Scratchpad:
        """Return the notes at the end of the session's contexts, and their version."""
        return await read_scratchpad(self._agent.database, self.id)

    async def set_scratchpad(self, text: str, *, expected_seq: int | None = None) -> Scratchpad:
        """Replace the notes; with `expected_seq`, only if that is still their version, else HeadConflict is raised."""
        edit = ScratchpadEdit("replace", text)
        return await change_scratchpad(
            self._agent.database, self.id, edit, expected_seq=expected_seq, principal=PROGRAM
        )


_ROLES = {EventType.USER_MESSAGE: "user", EventType.ASSISTANT_RESPONSE: "assistant"}


def _to_message(event: Event) -> Message | None:
    """Return an event as a person saw it; None if it is no message, or has no text."""
    role = _ROLES.get(event.type)
    text = str(event.data.get("text") or "")
    if role is None or not text or event.data.get("origin", "user") != "user":
        return None
    return Message(event.seq, role, text, event.data.get("mode"))
