"""I1: an event changes only by its stamp, once; none that was not learned from is deleted, whoever asks and where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database, partitions
from consolidator.database.partitions import Connection
from consolidator.store import checks
from consolidator.store.log import events
from consolidator.store.turns import generation
from tests.integration.locks import wait_for_lock
from tests.support import log_events, user_message

Refused = psycopg.errors.IntegrityConstraintViolation
OTHERS = {
    "id": sql.SQL("0"),
    "session_id": sql.SQL("'another'"),
    "seq": sql.SQL("99"),
    "event_type": sql.SQL("'Error'"),
    "data": sql.SQL("jsonb '[]'"),
    "created_at": sql.SQL("created_at + interval '1 day'"),
    "task_id": sql.SQL("'t'"),
    "tool_name": sql.SQL("'Bash'"),
    "hash": sql.SQL("''"),
    "principal": sql.SQL("'operator'"),
}


async def texts(conn: Connection, session: str = "s") -> list[str]:
    """What the session's events say."""
    return [event.data["text"] for event in await events.read(conn, session)]


async def partition_of_today(conn: Connection) -> str:
    """The partition that holds the events."""
    cursor = await conn.execute("select distinct tableoid::regclass::text from event")
    ((name,),) = await cursor.fetchall()
    return str(name)


@pytest.fixture
async def log(dsn: str, clock: FrozenClock) -> AsyncIterator[Database]:
    """A log of three events, of which the first was learned from, as its owner: the writer may do none of this."""
    database = Database(dsn, clock)
    await log_events(database, "s", [user_message("one"), user_message("two"), user_message("three")])
    async with database.connection() as conn:
        await conn.execute("update event set consolidated_at = now() where seq = 1")
    yield database
    await database.close()


async def test_no_column_but_the_stamp_is_ever_updated(log: Database) -> None:
    """L2, A8."""
    async with log.connection() as conn:
        for column, value in OTHERS.items():
            with pytest.raises(Refused, match="append-only"):
                await conn.execute(
                    sql.SQL("update event set {} = {} where seq = 2").format(sql.Identifier(column), value)
                )
        assert await texts(conn) == ["one", "two", "three"]


async def test_every_column_is_covered(log: Database) -> None:
    async with log.connection() as conn:
        cursor = await conn.execute(
            "select attname from pg_attribute where attrelid = 'event'::regclass and attnum > 0 and not attisdropped"
        )
        assert {name for (name,) in await cursor.fetchall()} == {*OTHERS, "consolidated_at"}


async def test_a_change_cannot_hide_behind_the_stamp(log: Database) -> None:
    async with log.connection() as conn:
        with pytest.raises(Refused):
            await conn.execute("update event set consolidated_at = now(), data = '{}' where seq = 2")
        (_, second, _) = await events.read(conn, "s")
    assert second.consolidated_at is None


async def test_a_change_cannot_come_in_as_an_insert(log: Database) -> None:
    async with log.connection() as conn:
        part = sql.Identifier(await partition_of_today(conn))
        with pytest.raises(Refused):
            await conn.execute(
                sql.SQL(
                    "insert into {} select * from {} where seq = 2 "
                    "on conflict (session_id, seq, created_at) do update set data = '{{}}'"
                ).format(part, part)
            )
        assert await texts(conn) == ["one", "two", "three"]


async def test_an_event_is_stamped_once(log: Database) -> None:
    async with log.connection() as conn:
        with pytest.raises(Refused):
            await conn.execute("update event set consolidated_at = now() + interval '1 hour' where seq = 1")
        assert (await conn.execute("update event set consolidated_at = now() where seq = 2")).rowcount == 1


async def test_an_event_is_never_unstamped(log: Database) -> None:
    async with log.connection() as conn:
        with pytest.raises(Refused):
            await conn.execute("update event set consolidated_at = null where seq = 1")


async def test_what_was_not_learned_from_is_not_deleted_not_even_by_a_superuser(log: Database) -> None:
    async with log.connection() as conn:
        cursor = await conn.execute("select rolsuper from pg_roles where rolname = current_user")
        assert await cursor.fetchone() == (True,)
        with pytest.raises(Refused, match="has not been learned from"):
            await conn.execute("delete from event where seq = 2")
        with pytest.raises(Refused):
            await conn.execute(sql.SQL("delete from {}").format(sql.Identifier(await partition_of_today(conn))))
        assert await texts(conn) == ["one", "two", "three"]


async def test_what_was_learned_from_goes_once_it_is_marked_as_pruned(log: Database) -> None:
    async with log.connection() as conn:
        with pytest.raises(Refused, match="and pruned"):
            await conn.execute("delete from event where seq = 1")
        await conn.execute("update session set consolidated_to = 1, pruned_to = 1")
        assert (await conn.execute("delete from event where seq = 1")).rowcount == 1
        with pytest.raises(Refused):
            await conn.execute("delete from event")
        assert await texts(conn) == ["two", "three"]


async def test_neither_the_log_nor_a_day_of_it_is_truncated(log: Database) -> None:
    async with log.connection() as conn:
        with pytest.raises(Refused, match="TRUNCATE"):
            await conn.execute("truncate event")
        with pytest.raises(Refused, match="TRUNCATE"):
            await conn.execute(sql.SQL("truncate {}").format(sql.Identifier(await partition_of_today(conn))))
        with pytest.raises(Refused, match="TRUNCATE"):
            await conn.execute("truncate session, event cascade")
        assert await texts(conn) == ["one", "two", "three"]


async def test_a_day_that_is_made_later_is_guarded_too(log: Database, clock: FrozenClock) -> None:
    clock.advance(timedelta(days=40))
    await log_events(log, "later", [user_message("kept")])
    async with log.connection() as conn:
        for attempt in (
            "update event set data = '{}' where session_id = 'later'",
            "delete from event where session_id = 'later'",
            "truncate event_20260411",
        ):
            with pytest.raises(Refused):
                await conn.execute(attempt)
        assert await texts(conn, "later") == ["kept"]
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == []


async def test_a_session_that_replays_replication_is_refused_as_well(log: Database) -> None:
    async with log.transaction() as conn:
        await conn.execute("set local session_replication_role = replica")
        for attempt in (
            "update event set data = '{}' where seq = 2",
            "update event set consolidated_at = null where seq = 1",
            "delete from event where seq = 2",
            "truncate event",
        ):
            with pytest.raises(Refused):
                async with conn.transaction():
                    await conn.execute(attempt)


async def test_erasing_takes_only_the_session_that_it_names_and_is_logged(log: Database) -> None:
    await log_events(log, "other", [user_message("mine")])
    async with log.transaction() as conn:
        await conn.execute("select erase_session('s', 'e', 0, 'asked to', now())")
        with pytest.raises(Refused, match="session other"):
            async with conn.transaction():
                await conn.execute("delete from event")
    async with log.connection() as conn:
        assert await texts(conn) == []
        assert await texts(conn, "other") == ["mine"]
        assert await (await conn.execute("select session_id, events from erasure")).fetchall() == [("s", 3)]


async def test_a_word_alone_or_an_older_erasure_lets_go_of_nothing(log: Database) -> None:
    async with log.connection() as conn:
        await conn.execute(
            "insert into erasure (id, session_id, events, derived, reason, erased_at) "
            "values ('e', 's', 0, 0, '', now())"
        )
        async with conn.transaction():
            await conn.execute("select set_config('consolidator.erase', 's', true)")
            with pytest.raises(Refused):
                async with conn.transaction():
                    await conn.execute("delete from event where seq = 2")


async def test_verify_names_a_day_that_lost_its_guards(log: Database) -> None:
    async with log.connection() as conn:
        part = await partition_of_today(conn)
        await conn.execute(sql.SQL("alter table {} disable trigger event_kept").format(sql.Identifier(part)))
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == [
            f"{part} lacks the trigger event_kept"
        ]


async def test_a_partition_cannot_be_made_twice(log: Database, clock: FrozenClock) -> None:
    async with log.connection() as conn:
        assert await partitions.ensure_ahead(conn, clock.now()) == 0
        assert await partitions.ensure_ahead(conn, clock.now() + timedelta(days=3)) == 3


@pytest.mark.parametrize("inside", [False, True], ids=["statements", "transactions"])
async def test_two_who_miss_the_same_days_both_find_them_made(log: Database, clock: FrozenClock, inside: bool) -> None:
    """Both have seen that the days are missing before either makes them: the second must see what the first made."""
    later = clock.now() + timedelta(days=60)
    await log_events(log, "t", [user_message("one")])
    warm = asyncio.Barrier(3)

    async def missing(session: str, earlier: int) -> int:
        async with log.connection() as conn:
            await partitions.ensure_ahead(
                conn, clock.now() + timedelta(days=earlier)
            )  # what it asks of the catalogue is cached
            await warm.wait()
            await warm.wait()
            async with conn.transaction() if inside else nullcontext():
                await partitions.ensure_ahead(conn, later)
                await generation.append_chunks(conn, session, "m", ["hot"], after=0, started=1, epoch=0, now=later)
                return (await events.append(conn, session, [user_message("in summer")], now=later)).last_seq

    both = [asyncio.create_task(missing(session, days)) for session, days in (("s", 15), ("t", 30))]
    await warm.wait()
    async with log.transaction() as conn:
        await conn.execute("select pg_advisory_xact_lock(hashtext('consolidator.partition'))")
        await warm.wait()
        await wait_for_lock(log, 2)
    assert await asyncio.gather(*both) == [4, 2]
    async with log.connection() as conn:
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == []
