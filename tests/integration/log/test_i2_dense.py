"""I2: seq is dense in every session under any number of writers, and a repeated key is answered as the first time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database, partitions
from consolidator.database.partitions import Connection
from consolidator.errors import AppendError, HeadConflict, InvalidEvent, NotFound, StaleEpoch
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store import checks
from consolidator.store.log import events
from consolidator.store.log.events import AppendResult
from consolidator.store.sessions import sessions
from tests.integration.locks import wait_for_lock
from tests.support import assistant_response, count_examples, log_events, user_message

EPOCH = 2  # of every session in the property
_numbers = count()


@dataclass(frozen=True)
class Write:
    """One writer's append."""

    session: int
    size: int
    bulk: bool = False
    expected: int | None = None
    epoch: int | None = None
    key: str | None = None


writes = st.builds(
    Write,
    session=st.integers(0, 1),
    size=st.integers(1, 4),
    bulk=st.sampled_from([False, False, True]),
    expected=st.none() | st.integers(0, 6),
    epoch=st.sampled_from([None, EPOCH, EPOCH - 1]),
    key=st.sampled_from([None, None, "a", "b"]),
)


def texts(write: Write, number: int) -> list[NewEvent]:
    """Events that say whose they are."""
    return [user_message(f"{number}.{n}") for n in range(write.size)]


async def attempt(database: Database, run: int, number: int, write: Write) -> AppendResult | None:
    """Make a writer's append on a connection of its own; None where it was refused."""
    session, now = f"{run}-{write.session}", database.clock.now()
    try:
        if write.bulk:
            prepared = [events.prepare(event) for event in texts(write, number)]
            async with database.transaction() as conn:
                return (await events.load_each(conn, {session: prepared}, now=now))[session]
        async with database.connection() as conn:
            return await events.append(
                conn, session, texts(write, number), now=now,
                expected_head=write.expected, epoch=write.epoch, key=write.key,
            )  # fmt: skip
    except HeadConflict:
        assert write.expected is not None
    except StaleEpoch:
        assert write.epoch not in (None, EPOCH)
    return None


@settings(
    max_examples=count_examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(writes, min_size=2, max_size=12))
async def test_seq_is_dense_under_any_writers(database: Database, todo: list[Write]) -> None:
    """L3."""
    run = next(_numbers)
    async with database.transaction() as conn:
        for name in (f"{run}-0", f"{run}-1"):
            await sessions.open_session(conn, {"id": name, "agent": "a"}, now=database.clock.now())
        await conn.execute("update session set lease_epoch = %s", [EPOCH])
    results = await asyncio.gather(*(attempt(database, run, n, write) for n, write in enumerate(todo)))
    for session in (0, 1):
        mine = [(n, w, a) for n, (w, a) in enumerate(zip(todo, results, strict=True)) if w.session == session]
        async with database.connection() as conn:
            log = await events.read(conn, f"{run}-{session}")
            head = (await sessions.get(conn, f"{run}-{session}")).head
        written = {n: (w, a) for n, w, a in mine if a is not None and not a.repeated}
        assert [event.seq for event in log] == list(range(1, head + 1))
        assert head == sum(write.size for write, _ in written.values())
        for number, (write, at) in written.items():
            logged = [event.data["text"] for event in log[at.first_seq - 1 : at.last_seq]]
            assert logged == [event.data["text"] for event in texts(write, number)]
        answers: dict[str, set[tuple[int, int]]] = {}
        for _, write, result in mine:
            if write.key and not write.bulk and result:
                answers.setdefault(write.key, set()).add((result.first_seq, result.last_seq))
        assert all(len(seq_ranges) == 1 for seq_ranges in answers.values())


async def test_a_repeated_key_writes_nothing_and_answers_as_the_first_time(database: Database) -> None:
    await log_events(database, "s", [user_message("before")])
    now = database.clock.now()
    async with database.connection() as conn:
        first = await events.append(conn, "s", [user_message("a"), user_message("b")], now=now, key="k")
        second = await events.append(
            conn, "s", [user_message("other"), user_message("b"), user_message("c")], now=now, key="k", expected_head=1
        )
        assert (first.first_seq, first.last_seq, first.repeated) == (2, 3, False)
        assert (second.first_seq, second.last_seq, second.repeated) == (2, 3, True)
        assert len(await events.read(conn, "s")) == 3


@asynccontextmanager
async def hold_session(database: Database, session: str, key: str) -> AsyncIterator[Connection]:
    """An append under a key in a transaction that stays open, and with it the session's lock."""
    async with database.transaction() as conn:
        await events.append(conn, session, [user_message("first")], now=database.clock.now(), key=key)
        yield conn


async def append_alone(database: Database, key: str, expected: int | None = None) -> AppendResult:
    async with database.connection() as conn:
        return await events.append(
            conn, "s", [user_message("second")], now=database.clock.now(), key=key, expected_head=expected
        )


@pytest.mark.parametrize("expected", [None, 0])
async def test_two_writers_with_one_key_at_once_are_one(database: Database, expected: int | None) -> None:
    await log_events(database, "s", [])
    async with hold_session(database, "s", "k"):
        other = asyncio.create_task(append_alone(database, "k", expected))
        await wait_for_lock(database)
    result = await other
    assert (result.first_seq, result.last_seq, result.repeated) == (1, 1, True)
    async with database.connection() as conn:
        assert [event.data["text"] for event in await events.read(conn, "s")] == ["first"]


async def test_the_second_writer_of_a_key_writes_where_the_first_gave_up(database: Database) -> None:
    await log_events(database, "s", [])
    async with hold_session(database, "s", "k") as conn, conn.transaction(force_rollback=True):
        await events.append(conn, "s", [user_message("given up")], now=database.clock.now(), key="other")
        other = asyncio.create_task(append_alone(database, "other"))
        await wait_for_lock(database)
    assert await other == AppendResult(2, 2)


async def test_the_slower_of_two_that_expect_the_same_head_is_refused(database: Database) -> None:
    await log_events(database, "s", [])
    async with hold_session(database, "s", "k"):
        other = asyncio.create_task(append_alone(database, "other", expected=0))
        await wait_for_lock(database)
    with pytest.raises(HeadConflict, match="expected head 0, it is 1"):
        await other


async def test_a_zombie_cannot_append_and_a_person_can(database: Database) -> None:
    await log_events(database, "s", [])
    now = database.clock.now()
    async with database.connection() as conn:
        await conn.execute("update session set lease_epoch = 5")
        with pytest.raises(StaleEpoch, match="epoch 4 is over, it is 5"):
            await events.append(conn, "s", [assistant_response("late")], now=now, epoch=4)
        await events.append(conn, "s", [assistant_response("here")], now=now, epoch=5)
        await events.append(conn, "s", [user_message("stop")], now=now)
        assert [event.seq for event in await events.read(conn, "s")] == [1, 2]


async def test_a_refused_append_spoils_no_transaction(database: Database) -> None:
    await log_events(database, "s", [])
    async with database.transaction() as conn:
        for expected in (7, 8):
            with pytest.raises(AppendError):
                await events.append(conn, "s", [user_message("no")], now=database.clock.now(), expected_head=expected)
        await events.append(conn, "s", [user_message("yes")], now=database.clock.now(), key="k")
        assert (await events.append(conn, "s", [user_message("yes")], now=database.clock.now(), key="k")).repeated
    async with database.connection() as conn:
        assert [event.data["text"] for event in await events.read(conn, "s")] == ["yes"]


async def test_all_of_a_batch_is_appended_or_none(database: Database) -> None:
    await log_events(database, "s", [])
    async with database.connection() as conn:
        with pytest.raises(InvalidEvent, match="ToolCall does not fit: tool"):
            await events.append(
                conn,
                "s",
                [user_message("a"), NewEvent(EventType.TOOL_CALL, {"call_id": "1"})],
                now=database.clock.now(),
            )
        assert (await sessions.get(conn, "s")).head == 0
        with pytest.raises(NotFound):
            await events.append(conn, "nobody", [user_message("a")], now=database.clock.now())


async def test_a_missing_day_is_made_by_the_write_door(database: Database, clock: FrozenClock) -> None:
    await log_events(database, "s", [user_message("today")])
    async with database.owner_connection() as conn:
        ahead = (await partitions.list_attached(conn))[-1][0]
        await conn.execute(sql.SQL("drop table {}").format(sql.Identifier(ahead)))
    clock.advance(timedelta(days=14))
    async with database.connection() as conn:  # each statement by itself
        assert (await events.append(conn, "s", [user_message("a fortnight later")], now=clock.now())).last_seq == 2
    clock.advance(timedelta(days=60))
    async with database.transaction() as conn:  # inside somebody's transaction
        assert (
            await events.append(conn, "s", [user_message("in summer"), user_message("x" * 20_000)], now=clock.now())
        ).last_seq == 4
    clock.advance(timedelta(days=60))
    async with database.transaction() as conn:  # by COPY
        await events.load_each(conn, {"s": [events.prepare(user_message("in autumn"))]}, now=clock.now())
    async with database.connection() as conn:
        assert [event.seq for event in await events.read(conn, "s")] == [1, 2, 3, 4, 5]
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == []


async def test_ingest_times_never_run_backwards_in_a_session(database: Database, clock: FrozenClock) -> None:
    for hours in (0, 5, -30, 1, 40, -2):
        clock.advance(timedelta(hours=hours))
        await log_events(database, "s", [user_message(str(hours))])
        async with database.transaction() as conn:
            await events.load_each(conn, {"s": [events.prepare(user_message("bulk"))]}, now=clock.now())
    async with database.connection() as conn:
        log = await events.read(conn, "s")
    assert [event.seq for event in log] == list(range(1, 13))
    assert [event.created_at for event in log] == sorted(event.created_at for event in log)
