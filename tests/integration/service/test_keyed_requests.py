"""A request with a key is done once: its answer is committed with its effect, and kept for a day."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import KeyReused, RequestUnderWay, UsageError
from consolidator.jobs.retention import prune
from consolidator.models.credential import UNDER_WAY, ApiRequestRow
from consolidator.process import machine_prefix
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.requests import LONGEST_WORK, Answer, KeyedRequest, answer_again, answer_once
from consolidator.settings import Settings
from consolidator.store.sessions import credentials, sessions
from tests.databases import fetch_dicts
from tests.support import SimulatedKill, log_events

REQUEST = KeyedRequest("web", "k1", b"hash")


async def open_a_session(database: Database) -> Answer:
    """Open a session, and say so."""
    async with database.connection() as conn:
        values = {"id": f"s{await count_sessions(database)}", "agent": "main"}
        await sessions.open_session(conn, values, now=database.clock.now())
    async with database.transaction() as conn:  # a savepoint
        await conn.execute("select 1")
    return Answer(201, "{}", f"/v1/sessions/{values['id']}", values["id"])


async def count_sessions(database: Database) -> int:
    async with database.connection() as conn:
        return len(await sessions.list_ids(conn))


async def test_it_is_done_once_and_answered_as_the_first_time(database: Database) -> None:
    """P12."""
    first = await answer_once(database, REQUEST, open_a_session)
    again = await answer_once(database, REQUEST, open_a_session)
    assert (again.status, again.document, again.location, again.repeated) == (201, "{}", first.location, True)
    other = KeyedRequest("phone", "k1", b"hash")
    assert not (await answer_once(database, other, open_a_session)).repeated
    assert not (await answer_once(database, None, open_a_session)).repeated
    assert await count_sessions(database) == 3
    with pytest.raises(KeyReused):
        await answer_once(database, KeyedRequest("web", "k1", b"other"), open_a_session)


async def test_a_death_before_the_commit_leaves_neither_effect_nor_answer(database: Database) -> None:
    async def die(inner: Database) -> Answer:
        await open_a_session(inner)
        raise SimulatedKill

    for _ in range(2):
        with pytest.raises(SimulatedKill):
            await answer_once(database, REQUEST, die)
    assert await count_sessions(database) == 0
    assert not (await answer_once(database, REQUEST, open_a_session)).repeated
    assert await count_sessions(database) == 1


async def test_of_two_at_once_one_is_told_to_ask_again(database: Database) -> None:
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait(inner: Database) -> Answer:
        begun.set()
        await may_go_on.wait()
        return await open_a_session(inner)

    first = asyncio.create_task(answer_once(database, REQUEST, wait))
    await begun.wait()
    with pytest.raises(RequestUnderWay):
        await answer_once(database, REQUEST, wait)
    may_go_on.set()
    await first
    assert (await answer_once(database, REQUEST, wait)).repeated


async def test_work_outside_of_a_transaction_keeps_its_answer_too(database: Database) -> None:
    assert not (await answer_again(database, REQUEST, open_a_session)).repeated
    assert (await answer_again(database, REQUEST, open_a_session)).repeated
    assert await count_sessions(database) == 1


async def test_while_work_waits_for_a_model_its_key_is_taken_in_every_process(database: Database) -> None:
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait(inner: Database) -> Answer:
        begun.set()
        await may_go_on.wait()
        return await open_a_session(inner)

    async def fail(_: Database) -> Answer:
        raise UsageError("it went wrong")

    other_process = Database(database.dsn, database.clock)
    another = KeyedRequest("web", "k1", b"another body")
    first = asyncio.create_task(answer_again(database, REQUEST, wait))
    await begun.wait()
    for do in (answer_again, answer_once):
        with pytest.raises(RequestUnderWay):
            await do(other_process, REQUEST, open_a_session)
        with pytest.raises(KeyReused):
            await do(other_process, another, open_a_session)
    may_go_on.set()
    await first
    assert (await answer_again(other_process, REQUEST, open_a_session)).repeated
    await other_process.close()
    failing = KeyedRequest("web", "k2", b"hash")
    with pytest.raises(UsageError):
        await answer_again(database, failing, fail)
    assert not (await answer_again(database, failing, open_a_session)).repeated  # a failure takes no key
    assert await count_sessions(database) == 2


@pytest.mark.parametrize("is_dead", [True, False])
async def test_work_whose_process_was_killed_is_done_again(
    database: Database, clock: FrozenClock, is_dead: bool
) -> None:
    owner = f"{machine_prefix()}4194999/7/of-a-process-that-ended" if is_dead else "other-machine/1/2/x"
    async with database.connection() as conn:
        now = clock.now()
        await credentials.add_request(conn, ApiRequestRow("web", "k1", b"hash", UNDER_WAY, owner, None, None, now))
    if not is_dead:
        with pytest.raises(RequestUnderWay):
            await answer_again(database, REQUEST, open_a_session)
        clock.advance(LONGEST_WORK + timedelta(seconds=1))  # no request takes so long
    assert not (await answer_again(database, REQUEST, open_a_session)).repeated
    assert (await answer_again(database, REQUEST, open_a_session)).repeated


async def test_an_answer_is_forgotten_after_a_day_and_goes_with_its_session(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await answer_once(database, REQUEST, open_a_session)
    await log_events(database, "s0", [])
    clock.advance(timedelta(days=1, seconds=1))
    assert not (await answer_once(database, REQUEST, open_a_session)).repeated  # also before it is pruned
    clock.advance(timedelta(days=2))
    await prune(database, older_than=timedelta(days=30))
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select key from api_request")
    answer = await answer_once(database, REQUEST, open_a_session)
    assert answer.session_id is not None
    plan = await plan_erasure(database, session=answer.session_id)
    await erase_sessions(database, settings, plan, reason="asked to")
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select key from api_request")
