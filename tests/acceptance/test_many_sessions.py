"""Twenty sessions at once on two harness processes that die at random: every message is answered once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from consolidator.database import Database
from consolidator.runtime.turn import sessions
from consolidator.testing import ModelServer
from tests.acceptance import chatter, matrix
from tests.acceptance.matrix_agent import ForkServer, create_tools
from tests.runtime import open_agent
from tests.support import FULL, PATIENCE, assert_invariants

SESSIONS = 20
SECONDS, FEWEST = (150.0, 20) if FULL else (0.0, 1)  # how long messages are sent, and the least number for each session
DEATHS = 1000 if FULL else 5  # of each process
KILLED_AFTER = (0.3, 3.0)  # seconds
KILLED = (-9, -14)  # at a boundary, or by its alarm


@pytest.fixture
def dice(record_property: Callable[[str, object], None]) -> random.Random:
    """A random generator; the report names its seed."""
    seed = random.randrange(2**32) if FULL else 4
    record_property("summary", f"twenty sessions: seed {seed}")
    return random.Random(seed)


async def test_twenty_sessions_on_two_harnesses_that_die_have_every_message_answered_once(
    database: Database,
    environment: dict[str, str],
    tmp_path: Path,
    dice: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    forkers = [ForkServer(environment) for _ in range(2)]
    async with ModelServer(answers=chatter.create_reply) as server:
        request = {"dsn": database.dsn, "url": server.url, "world": str(tmp_path), "do": [["serve"]]}
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(_serve_until_done(forker, request, dice)) for forker in forkers]
            try:
                messages = await _talk_in_all_sessions(database, server, dice)
            finally:
                (tmp_path / "stop").touch()
        for forker in forkers:
            await asyncio.to_thread(forker.close)
        deaths = sum(task.result() for task in serving)
        assert matrix.find_unpaired_messages(server.requests) == []
        assert deaths >= 1  # which of the two got how far is random
        async with open_agent(database, server, create_tools(tmp_path, database)) as agent:
            for name in messages:  # a harness that died with nothing left to do could not release it
                assert (await agent.wake(name)).finish_reason == "idle"
    await _assert_each_answered(database, tmp_path, messages, deaths)
    await assert_invariants(database)
    many = sum(map(len, messages.values()))
    record_property(
        "summary", f"twenty sessions: {many} messages, each answered once; two harnesses died {deaths} times"
    )


async def _serve_until_done(forker: ForkServer, request: dict[str, Any], dice: random.Random) -> int:
    """Run a harness until the stop file exists, restarting it each time it dies; return the number of deaths."""
    deaths = 0
    while True:
        alarm = dice.uniform(*KILLED_AFTER) if 0 < deaths < DEATHS and dice.random() < 0.5 else 0
        kill = None if alarm or deaths >= DEATHS else [dice.randrange(20, 400 if deaths else 100), None]
        code, report = await asyncio.to_thread(forker.run, {**request, "alarm": alarm, "kill": kill})
        if code == 0:
            return deaths
        assert code in KILLED, report
        deaths += 1


async def _talk_in_all_sessions(database: Database, server: ModelServer, dice: random.Random) -> dict[str, list[str]]:
    """Send messages in all sessions until the time is up and all are answered; return them by session."""
    until = time.monotonic() + SECONDS
    async with open_agent(database, server) as agent, asyncio.TaskGroup() as group:
        names = [(await agent.open(f"main:test:{ULID()}")).id for _ in range(SESSIONS)]
        talks = [group.create_task(_talk(database, name, dice, until)) for name in names]
    return {name: talk.result() for name, talk in zip(names, talks, strict=True)}


async def _talk(database: Database, session: str, dice: random.Random, until: float) -> list[str]:
    """Send one message after the other, sometimes before the last one is answered."""
    messages: list[str] = []
    while len(messages) < FEWEST or time.monotonic() < until:
        messages.append(f"m{len(messages) + 1}")
        await sessions.send_message(database, session, f"{messages[-1]} {dice.choice(['talk', 'act'])}")
        if dice.random() < 0.7:
            await _wait_for_answer(database, session)
    await _wait_for_answer(database, session)
    return messages


async def _wait_for_answer(database: Database, session: str) -> None:
    """Wait until nothing is open in a session."""
    query = "select 1 from session where id = %s and not pending"
    async with asyncio.timeout(PATIENCE):
        while True:
            async with database.connection() as conn:
                if await (await conn.execute(query, [session])).fetchone():
                    return
            await asyncio.sleep(0.1)


async def _assert_each_answered(database: Database, world: Path, messages: dict[str, list[str]], deaths: int) -> None:
    shown, effects = matrix.read_world(world)
    for session, numbers in messages.items():
        outcome = await matrix.inspect_session(database, session, shown, effects)
        try:
            matrix.assert_consistent(outcome, kills=deaths)
            assert chatter.message_numbers(outcome.log) == numbers
            assert chatter.count_answers(outcome.log) == dict.fromkeys(numbers, 1)
        except AssertionError as error:
            error.add_note(outcome.describe())
            raise
