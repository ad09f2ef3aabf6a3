"""`db verify` proves that a session's row is the fold of its log: state, open task, totals, scratchpad."""

from __future__ import annotations

import math
from typing import Any

import pytest

from consolidator import Outcome, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.service.database import verify_database
from consolidator.service.sessions.listing import read_state
from consolidator.settings import Settings
from consolidator.store.log.verification import FoldCheck, check_folds
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import run_next_night
from tests.runtime import KEY, Replies, open_agent, send_and_collect
from tests.support import later, run_job


@tool(idempotent=True)
async def note(key: str, value: Any) -> Outcome:
    """Set something in the session's state."""
    return Outcome("set", patch={key: value})


ANSWERS: Replies = [
    ScriptedReply.calling(("note", {"key": "a", "value": 1}), ("note", {"key": "b", "value": [1.5, {"c": None}]})),
    ScriptedReply.calling(("note", {"key": "a", "value": "two"})),
    "Done.",
    ScriptedReply.calling(("note", {"key": "a", "value": 3})),
    "Done again.",
    "In the fork.",
]


async def check(database: Database) -> FoldCheck:
    """Return what comes of comparing rows with logs."""
    async with database.connection() as conn:
        return await check_folds(conn)


async def make_sessions(database: Database) -> tuple[str, str]:
    """Let an agent work, and fork its session in the middle of a task; return the ids."""
    async with ModelServer(answers=ANSWERS) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY)
        await session.set_scratchpad("be kind")
        async with session.task("Set things"):
            await send_and_collect(session, "set")
            middle = (await session.info()).head
            await send_and_collect(session, "set again")
        child = await session.fork(at=middle)
        task = await child.open_task()
        assert (await child.info()).open_task is not None
        assert task is not None
        await send_and_collect(child, "go on")
        assert (await child.finish_task("failure")).outcome == "failure"
    return session.id, child.id


async def test_what_the_runtime_wrote_is_the_fold_of_its_logs(database: Database) -> None:
    """L24, P13."""
    parent, child = await make_sessions(database)
    found = await check(database)
    assert (found.problems, found.describe()) == ([], "2 compared whole")
    state, open_task = await read_state(database, parent)
    assert state.state == {"a": 3, "b": [1.5, {"c": None}]}
    assert (state.turns, open_task, state.output_tokens > 0) == (2, None, True)
    assert (await read_state(database, child))[0].state["a"] == "two"


@tool(idempotent=True)
async def measure(size: int) -> Outcome:
    """Set numbers that jsonb and a blob hold in different ways."""
    return Outcome("set", patch={"numbers": [1e300, 1e15, -0.0, math.nan], "log": "x" * size})


@pytest.mark.parametrize("size", [1, 40_000])
async def test_numbers_of_a_state_are_the_same_in_its_row_and_in_a_blob(database: Database, size: int) -> None:
    replies: Replies = [ScriptedReply.calling(("measure", {"size": size})), "Done."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [measure]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "measure")
        await session.fork()
    assert (await check(database)).problems == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("state = '{\"a\": 4}'", "its row's state is"),
        ("turns = 7", "its row's turns is '7', by its log it is '2'"),
        ("cost = 12", "its row's cost is '12'"),
        ("output_tokens = 0", "its row's output_tokens is"),
        ("compactions = 1", "its row's compactions is"),
        ("open_task = 'x'", "its row's open task is 'x', by its log it is 'None'"),
    ],
)
async def test_a_row_that_says_something_else_is_found(database: Database, change: str, said: str) -> None:
    parent, _ = await make_sessions(database)
    async with database.connection() as conn:
        await conn.execute(f"update session set {change} where id = '{parent}'".encode())
    (problem,) = (await check(database)).problems
    assert problem.startswith(f"{parent}: {said}")
    violations = await verify_database(database)
    assert violations["session rows are the fold of their logs (2 compared whole)"] == [problem]


async def test_a_pruned_session_is_compared_in_what_is_kept(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await make_sessions(database)
    await run_next_night(database, clock, settings, hours=30)
    clock.set(later(clock.now(), days=40))
    await run_job(database, settings, "retention")
    found = await check(database)
    assert found.problems == []
    assert found.whole + found.pruned == 2


async def test_a_part_of_the_sessions_is_compared_and_the_rest_later(database: Database) -> None:
    parent, child = await make_sessions(database)
    async with database.connection() as conn:
        await conn.execute("update session set turns = 7")
        first = await check_folds(conn, limit=1)
        rest = await check_folds(conn, after=first.stopped_after or "")
    assert first.describe() == f"1 compared whole; stopped: --after {parent} compares the rest"
    assert [problem.partition(":")[0] for problem in first.problems + rest.problems] == [parent, child]
    assert rest.stopped_after is None
    violations = await verify_database(database, after=parent)
    (compared,) = [name for name in violations if name.startswith("session rows")]
    assert compared == "session rows are the fold of their logs (1 compared whole)"


async def test_it_stops_at_so_many_problems_and_says_where(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, _ = await make_sessions(database)
    monkeypatch.setattr("consolidator.store.log.verification.MAX_PROBLEMS", 1)
    async with database.connection() as conn:
        await conn.execute("update session set turns = 7")
    found = await check(database)
    assert (len(found.problems), found.stopped_after) == (1, parent)
