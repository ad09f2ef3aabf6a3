"""What is kept of sessions' logs between two steps never changes what a model is shown."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from consolidator.clock import FrozenClock
from consolidator.context.build import (
    Context,
    ContextRequest,
    advance_history,
    build_context,
    fold_values,
    fold_view,
)
from consolidator.context.reader import STRATEGIES, TailCache
from consolidator.database import Database
from consolidator.errors import DatabaseError, NotFound
from consolidator.jobs.retention import prune
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.lineage.children import create_child
from consolidator.runtime.session.budget import plan_reserve
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import turns
from consolidator.store.turns.context import load_view
from tests.nights import run_next_night
from tests.support import FULL, assistant_response, call_and_result, log_events, user_message

_numbers = itertools.count()
BUDGETS = (400, 1500, 5000, 30_000)


def turn_events(rng: random.Random, head: int) -> list[NewEvent]:
    """Return a turn, with what makes folding hard: ids used twice, results in parts, answers that missed a message."""
    number = next(_numbers)
    turn = [user_message(f"message {number} " + "word " * rng.choice([0, 3, 60]))]
    if rng.random() < 0.5:
        call_id = rng.choice(["again", f"call {number}"])
        call, result = call_and_result(call_id, rng.choice(["look", "search"]), {"number": number})
        message = {"message_id": "m"} if rng.random() < 0.5 else {}  # an answer may go on with another call
        call = NewEvent(call.type, {**call.data, **message})
        turn = [] if message else turn
        turn += rng.choice([[call, result], [call], [result], [call, user_message("meanwhile"), result]])
    if rng.random() < 0.8:
        answer = assistant_response(f"answer {number}")
        message = {"message_id": "m"} if rng.random() < 0.5 else {}
        turn.append(NewEvent(answer.type, {**answer.data, **message, "upto_seq": head + rng.randint(0, 3)}))
    if rng.random() < 0.15:
        turn.append(NewEvent(EventType.POLICY_DECISION, {"decision": "scratchpad_set", "text": f"note {number}"}))
    if rng.random() < 0.1 and head > 2:
        kept = {"kept_from": rng.randint(1, head), "summary": f"summary {number}", "next_steps": []}
        turn.append(NewEvent(EventType.POLICY_DECISION, {"decision": "compaction", **kept}))
    return turn


LIMITS = {"search": 200}


async def follow(database: Database, session_id: str, tails: TailCache, first: int) -> None:
    """Have a process read the end of a session's log from an event on, as a step does before it builds a context."""
    async with database.connection() as conn:
        view = await load_view(conn, session_id)
        lineage = await load_lineage(conn, session_id, view)
        newest = await events.read(conn, session_id, after=first - 1, upto=view.head, bounds=view.ingest_bounds)
    tails.follow(lineage, LIMITS, newest)


async def build(
    database: Database, session_id: str, tails: TailCache | None, strategy: str, budget: int, withheld: list[int]
) -> Context:
    """Return a session's context as a process builds it that keeps these tails."""
    async with database.connection() as conn:
        request = ContextRequest(strategy, budget, 7, limits=LIMITS, withheld=withheld)
        return await build_context(conn, session_id, request, tails=tails)


@examples(
    max_examples=60 if FULL else 10,
    deadline=None,
    derandomize=not FULL,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32), length=st.sampled_from([30, 90]))
async def test_each_context_is_the_same_with_and_without_what_was_kept(
    database: Database, settings: Settings, seed: int, length: int
) -> None:
    rng = random.Random(seed)
    root = f"tails {next(_numbers)}"
    await log_events(database, root, [user_message("begin")])
    heads = {root: 1}
    processes = [TailCache(), TailCache(), TailCache(max_bytes=60_000)]
    strategy, budget = rng.choice(list(STRATEGIES)), rng.choice(BUDGETS)
    for _ in range(length):
        session_id = rng.choice(list(heads))
        new = [event for _ in range(rng.choice([1, 1, 1, 20])) for event in turn_events(rng, heads[session_id])]
        await log_events(database, session_id, new)
        heads[session_id] += len(new)
        if rng.random() < 0.1:
            strategy, budget = rng.choice(list(STRATEGIES)), rng.choice(BUDGETS)
        if rng.random() < 0.03 and len(heads) < 4:
            fork = await create_child(database, settings, session_id)
            heads[fork.id] = fork.head
        withheld = [heads[session_id] - rng.randint(0, 3)] if rng.random() < 0.2 else []
        process = rng.choice(processes)
        if rng.random() < 0.05:
            process.clear()
        if session_id == root and rng.random() < 0.6:  # as much of it as no step has settled
            await follow(database, root, process, max(1, heads[root] - rng.choice([0, len(new), 2 * len(new), 400])))
        kept = await build(database, session_id, process, strategy, budget, withheld)
        assert kept == await build(database, session_id, None, strategy, budget, withheld)


async def test_what_retention_took_is_shown_no_more_and_kept_no_more(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "one", [user_message(f"message {n}") for n in range(299)])
    tails = TailCache()
    before = await build(database, "one", tails, "budget", 30_000, [])
    assert before.first_seq == 1
    async with database.connection() as conn:
        await conn.execute("update session set settled_to = head, pending = false where id = 'one'")
    await run_next_night(database, clock, settings)
    clock.advance(timedelta(days=40))
    await log_events(database, "one", [user_message("still here")])
    assert (await prune(database, older_than=timedelta(days=30))).events > 0
    after = await build(database, "one", tails, "budget", 30_000, [])
    assert after == await build(database, "one", None, "budget", 30_000, [])
    assert after.first_seq > 1
    assert "message 7\n" not in str(after.messages)


@pytest.mark.parametrize("follows", [False, True])
async def test_an_erased_session_is_not_shown_from_what_was_kept(
    database: Database, settings: Settings, *, follows: bool
) -> None:
    await log_events(database, "one", [user_message("a secret"), assistant_response("I keep it.")])
    tails = TailCache()
    await build(database, "one", tails, "budget", 30_000, [])
    plan = await plan_erasure(database, session="one")
    await erase_sessions(database, settings, plan, reason="asked to")
    with pytest.raises(NotFound):
        await build(database, "one", tails, "budget", 30_000, [])
    await log_events(database, "one", [user_message("anew"), assistant_response("Hello.")])
    if follows:
        await follow(database, "one", tails, 2)
    again = await build(database, "one", tails, "budget", 30_000, [])
    assert again.messages == [{"role": "user", "content": "anew"}, {"role": "assistant", "content": "Hello."}]


async def test_the_end_of_a_log_that_was_just_read_is_not_read_again(database: Database) -> None:
    """Nor is it believed a second time: another process may write meanwhile."""
    await log_events(database, "one", [user_message(f"message {n}") for n in range(9)])
    tails = TailCache()
    await follow(database, "one", tails, 1)
    async with database.connection() as conn:
        await conn.execute("alter table event rename to event_elsewhere")
        try:
            context = await build(database, "one", tails, "budget", 30_000, [])
            with pytest.raises(DatabaseError):
                await build(database, "one", tails, "budget", 30_000, [])
        finally:
            await conn.execute("alter table event_elsewhere rename to event")
    assert "message 0" in str(context.messages)
    assert "message 8" in str(context.messages)


async def test_what_is_kept_has_a_bound(database: Database) -> None:
    tails = TailCache(max_bytes=40_000)
    for number in range(10):
        await log_events(database, f"s{number}", [user_message("word " * 200) for _ in range(5)])
        await build(database, f"s{number}", tails, "budget", 30_000, [])
    assert 0 < tails.size <= 40_000
    tails.clear()
    assert tails.size == 0


async def test_a_reader_who_folds_a_past_for_the_first_time_stops_no_call(database: Database) -> None:
    """Each waits for the other where a call locks its session against those who but refer to it."""
    await log_events(database, "parent", [user_message("begin")])
    await log_events(
        database, "child", [user_message("begin")], parent_id="parent", root_id="parent", kind="sub-agent", parent_seq=1
    )
    async with database.connection() as conn:
        view = await fold_view(conn, await load_view(conn, "child"))
        epoch = (await sessions.get(conn, "child")).lease_epoch
    now = database.clock.now()
    reserve = plan_reserve("child", model="gpt-4o-mini", input_tokens=10, now=now, epoch=epoch)
    new = [NewEvent(EventType.THINKING_START, {"message_id": "m", "model": "gpt-4o-mini", "upto_seq": 1})]

    async def begin_call() -> None:
        async with database.connection() as conn:
            statement = turns.begin_call(reserve, fold_values(view))
            await events.append(conn, "child", new, now=now, epoch=epoch, statement=statement)

    async def fold() -> None:
        async with database.connection() as conn:
            await advance_history(conn, "child")

    async with database.transaction() as conn:  # the parent, who pays, is busy
        await conn.execute("select from session where id = 'parent' for update")
        calling = asyncio.create_task(begin_call())
        await asyncio.sleep(0.3)
        folding = asyncio.create_task(fold())
        await asyncio.sleep(0.3)
    await asyncio.gather(calling, folding)
    async with database.connection() as conn:
        assert (await load_view(conn, "child")).upto is not None


async def test_a_fold_of_what_was_kept_is_the_one_of_what_is_stored(database: Database) -> None:
    """A tool whose results are shown at greater length has more of them kept than a fold reads."""
    lines = [f"line {n} of a long report" for n in range(4000)]
    lines[2000] = "ValueError: the middle is wrong"
    call, result = call_and_result("c", "search", {"what": "all"}, "\n".join(lines), "error")
    await log_events(database, "one", [user_message("begin"), call, result, assistant_response("No.")])
    tails, limits = TailCache(), {"search": 1_000_000}
    async with database.connection() as conn:
        await build_context(conn, "one", ContextRequest("budget", 30_000, limits=limits), tails=tails)
        await log_events(database, "one", [user_message("again")])
        view = await load_view(conn, "one")
        lineage = await load_lineage(conn, "one", view)
        newest = await events.read(conn, "one", after=3, upto=view.head, bounds=view.ingest_bounds)
        tails.follow(lineage, limits, newest)
        kept = await fold_view(conn, view, tails=tails)
        assert kept == await fold_view(conn, view)
