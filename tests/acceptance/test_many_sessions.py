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
from consolidator.runtime import sessions
from consolidator.testing import ModelServer
from tests.acceptance import chatter, matrix
from tests.acceptance.matrix_agent import Forker, tools_of
from tests.runtime import agent_on
from tests.support import FULL, PATIENCE, assert_invariants

SESSIONS = 20
SECONDS, FEWEST = (150.0, 20) if FULL else (0.0, 1)  # that they are spoken to, and messages in each at least
DEATHS = 1000 if FULL else 5  # of each process
KILLED_AFTER = (0.3, 3.0)  # seconds
KILLED = (-9, -14)  # at a boundary, or by its alarm


@pytest.fixture
def dice(record_property: Callable[[str, object], None]) -> random.Random:
    """Dice whose seed is told."""
    seed = random.randrange(2**32) if FULL else 4
    record_property("told", f"twenty sessions: seed {seed}")
    return random.Random(seed)


async def test_twenty_sessions_on_two_harnesses_that_die_have_every_message_answered_once(
    database: Database,
    environment: dict[str, str],
    tmp_path: Path,
    dice: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    forkers = [Forker(environment) for _ in range(2)]
    async with ModelServer(answers=chatter.answers) as server:
        told = {"dsn": database.dsn, "url": server.url, "world": str(tmp_path), "do": [["serve"]]}
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(_served(forker, told, dice)) for forker in forkers]
            try:
                said = await _all_heard(database, server, dice)
            finally:
                (tmp_path / "stop").touch()
        for forker in forkers:
            await asyncio.to_thread(forker.close)
        deaths = sum(one.result() for one in serving)
        assert matrix.orphans(server.requests) == []
        assert deaths >= 1  # which of the two got how far is chance
        async with agent_on(database, server, tools_of(tmp_path, database)) as agent:
            for name in said:  # whoever died with nothing left to do could not give it back
                assert (await agent.wake(name)).finish_reason == "idle"
    await _each_answered(database, tmp_path, said, deaths)
    await assert_invariants(database)
    many = sum(map(len, said.values()))
    record_property("told", f"twenty sessions: {many} messages, each answered once; two harnesses died {deaths} times")


async def _served(forker: Forker, told: dict[str, Any], dice: random.Random) -> int:
    """Have a harness wake sessions until nobody needs it any more, and another each time it dies; count these."""
    deaths = 0
    while True:
        alarm = dice.uniform(*KILLED_AFTER) if 0 < deaths < DEATHS and dice.random() < 0.5 else 0
        kill = None if alarm or deaths >= DEATHS else [dice.randrange(20, 400 if deaths else 100), None]
        code, found = await asyncio.to_thread(forker.run, {**told, "alarm": alarm, "kill": kill})
        if code == 0:
            return deaths
        assert code in KILLED, found
        deaths += 1


async def _all_heard(database: Database, server: ModelServer, dice: random.Random) -> dict[str, list[str]]:
    """Say things in all sessions, until the time is up and all is answered; return what was said, by session."""
    until = time.monotonic() + SECONDS
    async with agent_on(database, server) as agent, asyncio.TaskGroup() as group:
        names = [(await agent.open(f"main:test:{ULID()}")).id for _ in range(SESSIONS)]
        talks = [group.create_task(_talk(database, name, dice, until)) for name in names]
    return {name: talk.result() for name, talk in zip(names, talks, strict=True)}


async def _talk(database: Database, session: str, dice: random.Random, until: float) -> list[str]:
    """Say one thing after the other, at times before the last one is answered."""
    said: list[str] = []
    while len(said) < FEWEST or time.monotonic() < until:
        said.append(f"m{len(said) + 1}")
        await sessions.send_message(database, session, f"{said[-1]} {dice.choice(['talk', 'act'])}")
        if dice.random() < 0.7:
            await _answered(database, session)
    await _answered(database, session)
    return said


async def _answered(database: Database, session: str) -> None:
    """Wait until nothing is open in a session."""
    query = "select 1 from session where id = %s and not pending"
    async with asyncio.timeout(PATIENCE):
        while True:
            async with database.connection() as conn:
                if await (await conn.execute(query, [session])).fetchone():
                    return
            await asyncio.sleep(0.1)


async def _each_answered(database: Database, world: Path, said: dict[str, list[str]], deaths: int) -> None:
    shown, effects = matrix.read_world(world)
    for session, numbers in said.items():
        outcome = await matrix.outcome_of(database, session, shown, effects)
        try:
            matrix.check(outcome, kills=deaths)
            assert chatter.said_in(outcome.log) == numbers
            assert chatter.answered_in(outcome.log) == dict.fromkeys(numbers, 1)
        except AssertionError as error:
            error.add_note(outcome.words())
            raise
