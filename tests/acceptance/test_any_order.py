"""Messages, steers, crashes, two harnesses and a lost database, in any order: I1 to I6 hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from ulid import ULID

from consolidator import CallContext, Consolidator, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, SessionBusy, StaleEpoch
from consolidator.runtime.session import lease
from consolidator.runtime.session.boundaries import set_hook
from consolidator.runtime.turn import generation, sessions
from consolidator.runtime.turn.harness import Delta
from consolidator.testing import ModelServer
from tests.acceptance import chatter, matrix
from tests.runtime import open_agent
from tests.support import FULL, PATIENCE, SimulatedKill, assert_invariants

NAMES = (
    "after lease", "after commit thinking", "after model", "before commit chunk", "after commit chunk", "after send",
    "after delivery", "before commit response", "after commit response", "before tool", "after tool",
    "after commit results", "after commit call started", "after commit decision", "before commit settled",
)  # fmt: skip
POSITIONS = st.one_of(
    st.tuples(st.integers(1, 2), st.sampled_from(NAMES)),
    st.tuples(st.integers(1, 2), st.sampled_from(NAMES)),
    st.tuples(st.integers(1, 60), st.none()),
)
WISHES = st.sampled_from(["talk", "act", "act", "ask", None])
EXAMPLES, STEPS = (200, 20) if FULL else (14, 10)
LEASE = timedelta(minutes=1)  # longer than a lease
LOST = (DatabaseUnavailable, StaleEpoch, SessionBusy)


BoundaryPosition = tuple[int, str | None]  # the n-th boundary of a name, or of all


@dataclass
class Stage:
    """Two harnesses on one database, their model server, and what they did outside of it."""

    runner: asyncio.Runner
    clock: FrozenClock
    database: Database
    first_agent: Consolidator
    second_agent: Consolidator
    server: ModelServer
    shown: list[matrix.Shown] = field(default_factory=list)
    effects: list[matrix.Effect] = field(default_factory=list)


@asynccontextmanager
async def open_stage(dsn: str, clock: FrozenClock, runner: asyncio.Runner) -> AsyncIterator[Stage]:
    """Open both harnesses."""
    shown: list[matrix.Shown] = []
    effects: list[matrix.Effect] = []

    async def channel(delta: Delta) -> None:
        shown.append((delta.message_id, delta.seq, delta.text, delta.kind))

    def tool_with(name: str, **more: Any) -> Any:
        async def act(call: CallContext, what: str = "", to: str = "", where: str = "") -> str:
            """Act."""
            effects.append((name, call.call_id))
            return f"{name} done"

        act.__name__ = name
        return tool(act, **more) if not more else tool(**more)(act)

    tools = [tool_with("look", idempotent=True), tool_with("send_mail"), tool_with("deploy", needs_approval=True)]
    database = Database(dsn, clock, pool_size=12)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        server = await stack.enter_async_context(ModelServer(answers=chatter.create_reply))
        mine, theirs = [await stack.enter_async_context(open_agent(database, server, tools)) for _ in range(2)]
        for agent in (mine, theirs):
            agent.harness.senders["test"] = channel
        yield Stage(runner, clock, database, mine, theirs, server, shown, effects)


class Conversation(RuleBasedStateMachine):
    """One session, and the disturbances that may happen to it."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        stage.server.requests.clear()
        self.stage = stage
        self.sent: list[str] = []
        self.steered = False
        self.disturbances = 0  # after each, one chunk may be sent again
        session = self.run(stage.first_agent.open(f"main:test:{ULID()}"))
        self.id: str = session.id

    def run(self, work: Any) -> Any:
        """Run a coroutine to its end."""

        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE):
                return await work

        return self.stage.runner.run(bounded())

    @rule(wish=st.sampled_from(["talk", "act", "ask"]), mode=st.sampled_from(["message", "follow_up", "steer"]))
    def says(self, wish: chatter.Wish, mode: sessions.MessageMode) -> None:
        self.run(self._say(wish, mode))

    async def _say(self, wish: chatter.Wish, mode: sessions.MessageMode) -> None:
        number = f"m{len(self.sent) + 1}"
        self.sent.append(number)
        self.steered |= mode == "steer"
        await sessions.send_message(self.stage.database, self.id, f"{number} {wish}", mode=mode)

    @rule(allow=st.booleans())
    def answers_for_a_call(self, allow: bool) -> None:
        self.run(self._decide(allow))

    async def _decide(self, allow: bool) -> None:
        row = await (await self.stage.first_agent.session(self.id)).info()
        for call, request in row.attention.items():
            if request["kind"] == "approval":
                await sessions.decide_approval(self.stage.database, call, allow=allow)

    @rule()
    def is_woken(self) -> None:
        self.run(self.stage.first_agent.wake(self.id))

    @rule()
    def takes_a_step(self) -> None:
        self.run(self.stage.first_agent.step(self.id))

    @rule(position=POSITIONS, wish=WISHES, whole=st.booleans())
    def dies(self, position: BoundaryPosition, wish: chatter.Wish | None, whole: bool) -> None:
        """Die at a boundary: this process passes no other one after it, and so writes nothing."""
        self._maybe_send(wish)

        def be_dead(_: str) -> None:
            raise SimulatedKill

        def die(_: str) -> None:
            self._expire_lease()
            set_hook(be_dead)
            raise SimulatedKill

        with BoundaryListener(call_once_at(position, die)), suppress(SimulatedKill):
            self.run((self.stage.first_agent.wake if whole else self.stage.first_agent.step)(self.id))

    @rule(position=POSITIONS, wish=WISHES)
    def is_overtaken(self, position: BoundaryPosition, wish: chatter.Wish | None) -> None:
        """Stand still at a boundary for longer than the lease, while another harness acquires the session."""
        self._maybe_send(wish)
        self.run(self._compete(position))

    async def _compete(self, position: BoundaryPosition) -> None:
        late = asyncio.Event()

        def stand_still(_: str) -> None:
            self._expire_lease()
            late.set()

        async def overtake() -> None:
            await late.wait()
            with suppress(SessionBusy, StaleEpoch):
                await self.stage.second_agent.wake(self.id)

        async with asyncio.TaskGroup() as group:
            other = group.create_task(overtake())
            with BoundaryListener(call_once_at(position, stand_still)), suppress(SessionBusy, StaleEpoch):
                await self.stage.first_agent.wake(self.id)
            if not late.is_set():
                other.cancel()

    @rule(position=POSITIONS, wish=WISHES, other=st.sampled_from(["talk", "act"]))
    def is_steered_in_the_middle(
        self, position: BoundaryPosition, wish: chatter.Wish | None, other: chatter.Wish
    ) -> None:
        self._maybe_send(wish)
        self.run(self._steered(position, other))

    async def _steered(self, position: BoundaryPosition, wish: chatter.Wish) -> None:
        async with asyncio.TaskGroup() as group:

            def steer(_: str) -> None:
                group.create_task(self._say(wish, "steer"))

            with BoundaryListener(call_once_at(position, steer)):
                await self.stage.first_agent.wake(self.id)

    @rule(position=POSITIONS, wish=WISHES)
    def loses_the_database(self, position: BoundaryPosition, wish: chatter.Wish | None) -> None:
        self._maybe_send(wish)

        def hang_up(_: str) -> None:
            self._expire_lease()
            with psycopg.connect(self.stage.database.dsn, autocommit=True) as conn:
                conn.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
                )

        with BoundaryListener(call_once_at(position, hang_up)), suppress(*LOST):
            self.run(self.stage.first_agent.wake(self.id))

    def _maybe_send(self, wish: chatter.Wish | None) -> None:
        if wish is not None:
            self.says(wish, "message")

    def _expire_lease(self) -> None:
        """Let the lease run out."""
        self.disturbances += 1
        self.stage.clock.advance(LEASE)

    def teardown(self) -> None:
        """Wake the session until nothing is open, and check it."""
        self.run(self._end())

    async def _end(self) -> None:
        self.stage.clock.advance(LEASE)
        for _ in range(40):
            result = await self.stage.second_agent.wake(self.id)
            await self._decide(allow=False)
            if result.finish_reason == "idle":
                break
        outcome = await matrix.inspect_session(self.stage.database, self.id, self.stage.shown, self.stage.effects)
        try:
            self._check(outcome)
        except AssertionError as error:
            error.add_note(outcome.describe())
            raise

    def _check(self, outcome: matrix.SessionOutcome) -> None:
        matrix.assert_consistent(outcome, kills=self.disturbances)
        assert [event.seq for event in outcome.log] == list(range(1, len(outcome.log) + 1))
        assert sorted(chatter.message_numbers(outcome.log)) == sorted(self.sent)
        answered = chatter.count_answers(outcome.log)
        assert max(answered.values(), default=0) <= 1
        assert self.steered or answered.keys() == set(self.sent)
        requests = self.stage.server.requests
        assert matrix.find_unpaired_messages(requests) == []
        assert [request["messages"] for request in requests if request["messages"][-1]["role"] == "assistant"] == []


def call_once_at(position: BoundaryPosition, do: Callable[[str], None]) -> Callable[[str], None]:
    """Return a hook that calls a function at one boundary, and then removes itself."""
    passed, (number, name) = 0, position

    def count(this: str) -> None:
        nonlocal passed
        passed += name in (None, this)
        if passed == number and name in (None, this):
            set_hook(None)
            do(this)

    return count


class BoundaryListener:
    """Set a boundary hook for the block."""

    def __init__(self, hook: Callable[[str], None]) -> None:
        self._hook = hook

    def __enter__(self) -> None:
        set_hook(self._hook)

    def __exit__(self, *_: object) -> None:
        set_hook(None)


def test_whatever_happens_in_whatever_order_the_history_is_right(
    dsn: str,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("summary", f"conversations in any order: {EXAMPLES} of up to {STEPS} steps")
    monkeypatch.setattr(generation, "BATCH_PIECES", 4)
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.02)  # notice steers at once
    monkeypatch.setattr(lease, "uptime", lambda: clock.now().timestamp())
    chosen = hypothesis.settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, derandomize=not FULL, database=None, deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
        phases=[phase for phase in hypothesis.Phase if FULL or phase != hypothesis.Phase.shrink],  # slow
    )  # fmt: skip
    with asyncio.Runner() as runner:
        stage = runner.run(_enter(open_stage(dsn, clock, runner), stack := AsyncExitStack()))
        try:
            run_state_machine_as_test(partial(Conversation, stage), settings=chosen)  # type: ignore[arg-type]
            runner.run(assert_invariants(stage.database))
        finally:
            runner.run(stack.aclose())


async def _enter(opening: Any, stack: AsyncExitStack) -> Stage:
    stage: Stage = await stack.enter_async_context(opening)
    return stage
