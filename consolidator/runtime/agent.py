"""The agent: what an author builds on. Sessions that are opened by key, spoken to, steered, and survive any process.

Everything it knows is in the log; two of these on two machines may serve the same sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import TracebackType
from typing import Any

from consolidator.context.build import STRATEGIES
from consolidator.database import Database, open_database
from consolidator.errors import SessionBusy, StaleEpoch, UsageError
from consolidator.llm.client import client_of
from consolidator.models.payload import EventType
from consolidator.runtime import sessions
from consolidator.runtime import wake as waking
from consolidator.runtime.harness import Delta, Harness, Recall, Sender, StepResult
from consolidator.runtime.tools.mcp_servers import tools_of
from consolidator.runtime.tools.outcome import text_of
from consolidator.runtime.tools.tool import Tool, Toolbox
from consolidator.settings import Settings, load_settings
from consolidator.store.log import events
from consolidator.store.log import generation as store
from consolidator.store.log import sessions as rows
from consolidator.store.queries import Row

VOID = "\n\n[what was said above is void: it was cut off, and begins again]\n\n"
_PATIENCE = 0.1  # seconds between two looks at a session that another process drives


class Consolidator:
    """An agent over the log: its tools, its model's server, its database.

    `async with Consolidator(tools=[...]) as agent:`, then `await agent.open(key)`. `channels` are where messages go
    that a session owes to its channel, by the channel's name; `recall` says what memory knows of a message. Settings
    and database are the configured ones where none are given.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        settings: Settings | None = None,
        database: Database | None = None,
        mcp: Sequence[str] = (),
        channels: Mapping[str, Sender] | None = None,
        recall: Recall | None = None,
    ) -> None:
        self._toolbox = Toolbox(tools)
        self._settings = settings
        self._database = database
        self._mcp = tuple(mcp)
        self._channels = dict(channels or {})
        self._recall = recall
        self._stack = AsyncExitStack()
        self._harness: Harness | None = None

    async def __aenter__(self) -> Consolidator:
        settings = self._settings or load_settings()
        async with AsyncExitStack() as stack:
            database = self._database
            if database is None:
                database = await stack.enter_async_context(open_database(settings))
            for one in await stack.enter_async_context(tools_of(self._mcp)):
                self._toolbox.add(one)
            client = client_of(settings)
            stack.push_async_callback(client.close)
            self._harness = Harness(database, settings, client, self._toolbox, self._channels, recall=self._recall)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._harness = None
        await self._stack.aclose()

    @property
    def harness(self) -> Harness:
        """What the agent brings to every session; only while it is open."""
        if self._harness is None:
            raise RuntimeError("the agent is not open: use `async with Consolidator(...) as agent:`")
        return self._harness

    @property
    def database(self) -> Database:
        """The database the agent works on."""
        return self.harness.database

    async def open(
        self,
        key: str,
        model: str | None = None,
        *,
        max_cost_usd: float | Decimal | str | None = None,
        system: str | None = None,
        strategy: str | None = None,
        budget: int | None = None,
        last: int | None = None,
        answer_tokens: int | None = None,
        project: str | None = None,
    ) -> Session:
        """Return the session that a key (`agent:channel:peer`) names now, made or restored.

        What is given is set on it; what is not stays as it was. Raises UsageError for a cap that cannot be held, for a
        strategy that is none, and for a size below 1.
        """
        if strategy is not None and strategy not in STRATEGIES:
            raise UsageError(f"{strategy!r} is no strategy: {', '.join(STRATEGIES)}")
        sizes = {"budget": budget, "last": last, "answer_tokens": answer_tokens}
        for name, size in sizes.items():
            if size is not None and (type(size) is not int or size < 1):
                raise UsageError(f"{name} takes a number of 1 or more, not {size!r}")
        told = None if system is None else text_of(system)
        config = {"system": told, "strategy": strategy, **sizes, "tools": list(self.harness.tools.names)}
        cap = None if max_cost_usd is None else _amount(max_cost_usd)
        if cap is not None and model is None:
            model = await self._model_of(key)
        found = await sessions.open_session(
            self.database, key, model=model, max_cost=cap, config=config, project=project
        )
        return Session(self, found)

    async def _model_of(self, key: str) -> str | None:
        """Return the model that a key's session asks now; a cap is held for that one."""
        async with self.database.connection() as conn:
            found = await rows.current(conn, key)
        return (found["model"] if found else None) or self.harness.settings.model

    async def session(self, session_id: str) -> Session:
        """Return a session by its id; raise NotFound where there is none."""
        async with self.database.connection() as conn:
            return Session(self, await rows.get(conn, session_id))

    async def step(self, session_id: str) -> StepResult:
        """Take one step of a session; raise SessionBusy where another process drives it."""
        return await waking.step(self.harness, session_id)

    async def wake(self, session_id: str) -> StepResult:
        """Bring what is open in a session to its end; raise SessionBusy where another process drives it."""
        return await waking.wake(self.harness, session_id)

    async def wake_all(self) -> list[waking.Woken]:
        """Wake every session in which something is open."""
        return await waking.wake_all(self.harness)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a session's history, as a person saw it."""

    seq: int
    role: str  # user | assistant
    text: str
    mode: str | None = None


class Session:
    """A session, as a conversation: `async for delta in session.send("..."): ...`."""

    def __init__(self, agent: Consolidator, found: Row) -> None:
        self._agent = agent
        self.id: str = found["id"]
        self.key: str | None = found["key"]
        self.model: str | None = found["model"] or agent.harness.settings.model
        self.restored: int = found["turns"]  # turns that earlier processes had in it
        self.result: StepResult | None = None  # of the last `send` or `go_on`

    async def send(self, text: str, mode: sessions.Mode = "message") -> AsyncIterator[str]:
        """Say something, and yield the answer as it comes; `result` tells afterwards why it ended.

        Where another process drives the session, its answer is yielded when it is whole.
        """
        async for delta in self.stream(text, mode):
            yield delta.text if delta.kind == "text" else VOID

    async def stream(self, text: str | None = None, mode: sessions.Mode = "message") -> AsyncIterator[Delta]:
        """Say something, or nothing to go on with what is open, and yield the pieces of what comes, with their message.

        One of kind `void` says that its message does not count.
        """
        said = None if text is None else await sessions.say(self._agent.database, self.id, text, mode=mode)
        async for delta in self._listen(said):
            yield delta

    async def resume(self) -> AsyncIterator[str]:
        """Go on with whatever the last process was stopped in, and yield what is missing of it."""
        async for delta in self.stream():
            yield delta.text if delta.kind == "text" else VOID

    async def steer(self, text: str) -> int:
        """Say something that cancels what is in flight; whoever drives the session takes it up."""
        return await sessions.say(self._agent.database, self.id, text, mode="steer")

    async def follow_up(self, text: str) -> int:
        """Say something that is heard when the turn under way has ended."""
        return await sessions.say(self._agent.database, self.id, text, mode="follow_up")

    async def history(self, limit: int = 50) -> list[Message]:
        """Return the last messages, the oldest first."""
        async with self._agent.database.connection() as conn:
            found = await rows.get(conn, self.id)
            after = max(found["pruned_to"], found["head"] - 20 * limit)
            log = await events.read(conn, self.id, after=after, upto=found["head"])
        roles = {EventType.USER_MESSAGE: "user", EventType.ASSISTANT_RESPONSE: "assistant"}
        told = [
            Message(one.seq, roles[one.type], str(one.data.get("text") or ""), one.data.get("mode"))
            for one in log if one.type in roles and one.data.get("text") and one.data.get("origin", "user") == "user"
        ]  # fmt: skip
        return told[-limit:]

    async def info(self) -> Row:
        """Return the session's row: totals, cost, cap, what waits for a person."""
        async with self._agent.database.connection() as conn:
            return await rows.get(conn, self.id)

    async def end(self, reason: str = "ended by the user", *, hide: bool = False) -> None:
        """End the session; with `hide` it is not listed either. Nothing is deleted."""
        await sessions.end(self._agent.database, self.id, reason=reason, hide=hide)

    async def _listen(self, said: int | None) -> AsyncIterator[Delta]:
        sink, listeners = _DeltaQueue(), self._agent.harness.listeners
        driving = asyncio.create_task(self._drive(said, sink))
        driving.add_done_callback(lambda _: sink.close())
        try:
            async for delta in sink.deltas():
                yield delta
            self.result = await driving
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
            sink.leave()
            if listeners.get(self.id) is sink:
                del listeners[self.id]

    async def _drive(self, said: int | None, sink: _DeltaQueue) -> StepResult:
        """Wake the session until what was said is answered, by us or by whoever drives it."""
        listeners = self._agent.harness.listeners
        heard = True  # whether all that we drove came to our ears: a session has those of one at a time
        while True:
            heard = listeners.setdefault(self.id, sink) is sink and heard
            try:
                result = await waking.wake(self._agent.harness, self.id)
            except (SessionBusy, StaleEpoch):
                result = None
            found = await self.info()
            if not found["pending"] or (said is not None and found["settled_to"] >= said):
                break
            if found["status"] != "open" or (result is not None and result.finish_reason not in ("stop", "idle")):
                break
            await asyncio.sleep(_PATIENCE)
        drove = result is not None and result.finish_reason != "idle"
        if said is not None and not (drove and heard):
            await self._tell_the_rest(found, said, sink)
        if result is not None and drove:
            return result
        return StepResult(found["head"], "approval" if found["attention"] and said is None else "idle")

    async def _tell_the_rest(self, found: Row, said: int, sink: _DeltaQueue) -> None:
        """Tell what has not come to our ears of the answers that were given after what was said."""
        bounds = (found["created_at"], found["last_event_at"])
        async with self._agent.database.connection() as conn:
            answers = await store.messages(conn, self.id, "", after=said, bounds=bounds)
            for answer in answers:
                if answer["void_id"] in sink.upto:
                    sink.put(Delta(self.id, answer["void_id"], 0, "", "void"))
                if answer["message_id"] is None:
                    continue
                heard = sink.upto.get(answer["message_id"], 0)
                for chunk in await store.chunks(conn, self.id, answer["message_id"], after=heard):
                    sink.put(Delta(self.id, chunk.message_id, chunk.seq, chunk.delta))


class _DeltaQueue:
    """A channel that is an iterator: to ask for the next piece is to acknowledge the last one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Delta, asyncio.Future[None]] | None] = asyncio.Queue()
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False
        self.upto: dict[str, int] = {}  # the last piece put in of each message that counts

    async def __call__(self, delta: Delta) -> None:
        await self.put(delta)

    def put(self, delta: Delta) -> asyncio.Future[None]:
        """Put a piece in; what is returned is done when it was taken, or when nobody will take it any more."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            taken.set_result(None)
            return taken
        if delta.kind == "void":
            self.upto.pop(delta.message_id, None)
        else:
            self.upto[delta.message_id] = delta.seq
        self._waiting.add(taken)
        taken.add_done_callback(self._waiting.discard)
        self._queue.put_nowait((delta, taken))
        return taken

    def close(self) -> None:
        """Let the iteration end after what is in it."""
        self._closed = True
        self._queue.put_nowait(None)

    def leave(self) -> None:
        """Take nothing any more: who drives the session for somebody else must not wait for us."""
        self._closed = True
        for taken in list(self._waiting):
            if not taken.done():
                taken.set_result(None)

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield the pieces."""
        while (found := await self._queue.get()) is not None:
            delta, taken = found
            yield delta
            if not taken.done():
                taken.set_result(None)


async def step(agent: Consolidator, session_id: str) -> StepResult:
    """Take one step of a session with an agent's means, and return a pointer to what it committed."""
    return await agent.step(session_id)


async def wake(agent: Consolidator, session_id: str) -> StepResult:
    """Bring what is open in a session to its end with an agent's means."""
    return await agent.wake(session_id)


def _amount(told: float | Decimal | str) -> Decimal:
    """Return an amount of money as it is written; raise UsageError for what is none."""
    try:
        amount = Decimal(str(told))
    except InvalidOperation as error:
        raise UsageError(f"{told!r} is no amount in USD") from error
    if not amount.is_finite():
        raise UsageError(f"{told!r} is no amount in USD; without a cap, say none")
    return amount
