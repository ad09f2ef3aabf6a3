"""Following sessions through the hub: nothing is lost or doubled, whatever comes in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.models.payload import EventType
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.live import hub as hub_module
from consolidator.runtime.live.hub import FollowHub, open_hub
from consolidator.runtime.live.items import Cursor, FollowedItem
from consolidator.runtime.turn import sessions
from consolidator.service.sessions.following import acknowledge
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.turns import following as store
from consolidator.testing import ModelServer, ScriptedReply
from tests import nights
from tests.live import Writer
from tests.runtime import open_agent
from tests.support import FULL, PATIENCE, assistant_response, later, log_events, user_message

NEVER = 3600.0  # seconds between two polls: only notifications count


def describe(item: FollowedItem) -> str:
    """Return an item as a short line."""
    if item.piece is not None:
        return f"{item.cursor} {item.piece.delta}"
    return f"{item.cursor} {item.kind} {item.event.type.value if item.event else ''}".strip()


async def take(items: AsyncIterator[FollowedItem], count: int) -> list[str]:
    """Return the next items without states."""
    taken: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(taken) < count:
            item = await anext(items)
            if item.kind != "state":
                taken.append(describe(item))
    return taken


@asynccontextmanager
async def listening_hub(database: Database, **options: float) -> AsyncIterator[FollowHub]:
    """Open a hub that hears notifications."""
    async with open_hub(database) as hub:
        hub.poll_seconds = options.get("poll_seconds", NEVER)
        async with asyncio.timeout(PATIENCE):
            await hub.listener.connected.wait()
        yield hub


async def test_pieces_and_events_come_as_they_are_committed_by_notification_alone(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    async with nights.open_replica(database) as other, listening_hub(database) as hub:
        writer = Writer(other, "s")
        async with aclosing(hub.follow("s", after="0")) as items:
            assert await take(items, 1) == ["1 event UserMessage"]
            await writer.begin()
            assert await take(items, 1) == ["2 event ThinkingStart"]
            await writer.say("Good ")
            assert await take(items, 1) == ["2.1 Good "]
            await writer.append(EventType.USER_MESSAGE, text="quick!")
            assert await take(items, 1) == ["3.1 event UserMessage"]
            await writer.say("day.")
            await writer.end("Good day.")
            assert await take(items, 2) == ["3.2 day.", "4 event AssistantResponse"]


async def test_who_comes_later_gets_what_was_said_meanwhile_in_the_same_place(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    expected = ["2 event ThinkingStart", "2.1 Good ", "3.1 event UserMessage", "3.2 day.", "3.3 !"]
    async with nights.open_replica(database) as other, listening_hub(database) as hub, listening_hub(database) as late:
        writer = Writer(other, "s")
        async with aclosing(hub.follow("s", after="1")) as items:
            await writer.begin()
            await writer.say("Good ")
            await writer.append(EventType.USER_MESSAGE, text="quick!")
            await writer.say("day.")
            await writer.say("!")
            assert await take(items, 5) == expected
        for cursor, count in (("1", 5), ("2", 4), ("2.1", 3), ("3.1", 2), ("3.2", 1)):
            async with aclosing(late.follow("s", after=cursor)) as items:
                assert await take(items, count) == expected[5 - count :]


async def test_a_follower_of_pieces_that_are_replaced_gets_their_void_also_after_a_reconnect(
    database: Database,
) -> None:
    await log_events(database, "s", [])
    async with listening_hub(database) as hub:
        writer = Writer(database, "s")
        await writer.begin()
        await writer.say("Goo")
        async with aclosing(hub.follow("s", after=Cursor())) as items:
            assert await take(items, 2) == ["1 event ThinkingStart", "1.1 Goo"]
        await writer.replace()
        await writer.begin()
        await writer.say("Good ")
        async with aclosing(hub.follow("s", after="1.1")) as items:
            assert await take(items, 3) == ["2 void PolicyDecision", "3 event ThinkingStart", "3.1 Good "]
        async with aclosing(hub.follow("s", after="2")) as items:
            assert await take(items, 2) == ["3 event ThinkingStart", "3.1 Good "]
        async with aclosing(hub.follow("s", after="3.1", whole=True)) as items:
            await writer.end("Good ")
            assert await take(items, 1) == ["4 event AssistantResponse"]


async def test_what_is_committed_between_the_mark_and_the_read_is_not_missed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that began before the session was marked commits after it: the mark waits for it."""
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database) as hub:
        items = hub.follow("s", after="1")
        async with database.transaction() as conn:
            await events.append(conn, "s", [user_message("two")], now=database.clock.now())
            coming = asyncio.create_task(take(items, 1))
            await nights.wait_for_lock_waiters(database.dsn)
        assert await coming == ["2 event UserMessage"]
        read_marks = store.read_marks
        written = False

        async def write_first(conn: object, names: list[str]) -> object:
            nonlocal written
            if not written and names == ["t"]:
                written = True
                await Writer(database, "t").append(EventType.USER_MESSAGE, text="in between")
            return await read_marks(conn, names)  # type: ignore[arg-type]

        monkeypatch.setattr(store, "read_marks", write_first)
        await log_events(database, "t", [user_message("one")])
        assert await take(hub.follow("t", after="1"), 1) == ["2 event UserMessage"]
        await items.aclose()


async def test_a_lost_notification_is_made_up_for_by_looking(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database, poll_seconds=0.05) as hub, aclosing(hub.follow("s", after="1")) as items:
        coming = asyncio.create_task(take(items, 1))
        await nights.wait_until_counted(database, "select count(*) from session where followed_until is not null")
        async with database.connection() as conn:  # as if the notification had gone with its connection
            await conn.execute("update session set followed_until = null")
        await Writer(database, "s").append(EventType.USER_MESSAGE, text="two")
        assert await coming == ["2 event UserMessage"]


async def test_a_lost_listening_connection_is_opened_again(database: Database) -> None:
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and query ~ '^listen'"
    )
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database) as hub, aclosing(hub.follow("s", after="0")) as items:
        assert await take(items, 1) == ["1 event UserMessage"]
        for seq in range(2, 5):
            async with database.connection() as conn:
                assert (await conn.execute(kill)).rowcount == 1
            await Writer(database, "s").append(EventType.USER_MESSAGE, text=str(seq))
            assert await take(items, 1) == [f"{seq} event UserMessage"]
            async with asyncio.timeout(PATIENCE):
                await hub.listener.connected.wait()


async def test_nobody_notifies_of_a_session_that_is_not_followed(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    heard: list[str] = []
    async with listening_hub(database) as hub:
        hub.listener.subscribe(store.FOLLOWED_CHANNEL, heard.append)
        await log_events(database, "t", [user_message("one")])
        async with aclosing(hub.follow("t", after="0")) as items:
            await take(items, 1)
            await Writer(database, "s").append(EventType.USER_MESSAGE, text="two")
            await Writer(database, "t").append(EventType.USER_MESSAGE, text="two")
            assert await take(items, 1) == ["2 event UserMessage"]
    assert heard == ["t"]


async def test_no_more_than_two_pages_are_held_for_a_follower_that_takes_its_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "EVENTS_PER_READ", 3)
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database) as hub, aclosing(hub.follow("s", after="0")) as items:
        assert await take(items, 1) == ["1 event UserMessage"]  # and now it takes its time
        writer = Writer(database, "s")
        for _ in range(5):
            await writer.begin()
            for word in "abcde":
                await writer.say(word)
            await writer.end("abcde")
        [follower] = hub._followers["s"]
        async with asyncio.timeout(PATIENCE):
            while not (follower.items and follower.is_dirty):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert follower.fold.position.seq < 11
        expected = []
        for number in range(2, 12, 2):
            pieces = [f"{number}.{piece} {word}" for piece, word in enumerate("abcde", 1)]
            expected += [f"{number} event ThinkingStart", *pieces, f"{number + 1} event AssistantResponse"]
        assert await take(items, len(expected)) == expected
        await writer.begin()
        assert await take(items, 1) == ["12 event ThinkingStart"]


async def test_a_stream_ends_with_its_session_and_tells_where_it_stands(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database) as hub:
        items = [item async for item in _until_ended(hub, database)]
        assert [describe(item) for item in items if item.kind != "state"] == [
            "1 event UserMessage",
            "2 event SessionEnd",
        ]
        marks = items[-1].marks
        assert marks is not None
        assert (items[-1].kind, marks.status, marks.head) == ("state", "ended", 2)
        again = [item.kind async for item in hub.follow("s", after="2")]
        assert again == ["state"]


async def _until_ended(hub: FollowHub, database: Database) -> AsyncIterator[FollowedItem]:
    async for item in hub.follow("s", after="0"):
        if item.kind == "event" and item.cursor == Cursor(1):
            await Writer(database, "s").append(EventType.SESSION_END, reason="done")
        yield item


async def test_an_erased_session_ends_its_streams(database: Database) -> None:
    await log_events(database, "s", [])
    async with listening_hub(database, poll_seconds=0.05) as hub:
        following = asyncio.create_task(_count(hub.follow("s", after="0")))
        async with asyncio.timeout(PATIENCE):
            while not hub.followed_sessions:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        async with database.connection() as conn:
            await conn.execute("delete from session")
        async with asyncio.timeout(PATIENCE):
            await following


async def _count(items: AsyncIterator[FollowedItem]) -> int:
    return len([item async for item in items])


async def test_a_cursor_beyond_the_log_and_an_unknown_session_are_refused(database: Database) -> None:
    await log_events(database, "s", [user_message("one")])
    async with listening_hub(database) as hub:
        with pytest.raises(UsageError, match=r"cursor 2 is beyond the end of session s, which is 1"):
            await anext(hub.follow("s", after="2"))
        with pytest.raises(NotFound):
            await anext(hub.follow("nobody", after="0"))


async def test_nothing_is_read_for_a_follower_before_it_is_known_where_it_stands(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at all sessions, while a follower's place is looked up, took it to stand at the beginning."""
    await log_events(database, "s", [user_message(text) for text in ("one", "two", "three")])
    read_each, find_last_mark = events.read_each, store.find_last_mark
    has_read = asyncio.Event()

    async def note_read(*arguments: Any, **options: Any) -> Any:
        pages = await read_each(*arguments, **options)
        has_read.set()
        return pages

    async def find_late(*arguments: Any) -> Any:
        hub.listener._subscriptions[0].on_connected()  # what a new connection does: it may have missed anything
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await has_read.wait()
        return await find_last_mark(*arguments)

    async with listening_hub(database) as hub:
        monkeypatch.setattr(events, "read_each", note_read)
        monkeypatch.setattr(store, "find_last_mark", find_late)
        async with aclosing(hub.follow("s", after="2")) as items:
            assert await take(items, 1) == ["3 event UserMessage"]


async def test_a_surface_acknowledges_what_it_has_shown(database: Database, clock: FrozenClock) -> None:
    await log_events(database, "s", [])
    writer = Writer(database, "s")
    for _ in range(2):
        await writer.begin()
        for word in "abc":
            await writer.say(word)
        if writer.answers == 1:
            await writer.end("abc")
    rows = "select channel, message_id, upto_seq from delivery order by sent_at, message_id"
    assert await acknowledge(database, "s", "web", "3.2") == 2
    assert await acknowledge(database, "s", "web", Cursor(3, 2)) == 0
    clock.set(later(clock.now(), seconds=1))
    assert await acknowledge(database, "s", "web", "3.3") == 1
    assert await acknowledge(database, "s", "tv", "1.1") == 1
    assert [tuple(row.values()) for row in await nights.query_rows(database, rows)] == [
        ("web", "s-m1", 3), ("web", "s-m2", 2), ("tv", "s-m1", 1), ("web", "s-m2", 3),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="beyond the end"):
        await acknowledge(database, "s", "web", "9")
    for name in ("", " ", "web\0", "web\ud800"):
        with pytest.raises(UsageError, match="can be printed"):
            await acknowledge(database, "s", name, "1")


FOLLOWERS, SESSIONS, ROUNDS = (200, 20, 8) if FULL else (40, 8, 4)


async def test_followers_that_are_cut_at_random_miss_nothing_and_get_nothing_twice(
    database: Database, record_property: object
) -> None:
    """B37."""
    names = [f"s{number}" for number in range(SESSIONS)]
    for name in names:
        await log_events(database, name, [user_message("begin")])
    cuts = 0
    async with listening_hub(database, poll_seconds=0.5) as hub:

        async def follow_to_end(number: int) -> list[str]:
            nonlocal cuts
            chance, cursor, lines = random.Random(number), Cursor(), list[str]()
            while True:
                left = chance.randint(1, 25)
                async with aclosing(hub.follow(names[number % SESSIONS], after=cursor)) as items:
                    async for item in items:
                        if item.kind == "state":
                            continue
                        lines.append(describe(item))
                        cursor = item.cursor
                        left -= 1
                        if item.event and item.event.type is EventType.SESSION_END:
                            return lines
                        if not left:
                            cuts += 1
                            break
                        if chance.random() < 0.05:
                            await asyncio.sleep(0.01)

        async def write(number: int) -> list[str]:
            """Write a session; return what its followers must get."""
            lines = await Writer(database, names[number]).write_turns(ROUNDS, random.Random(1000 + number))
            return ["begin", *lines]

        async def interrupt() -> None:
            kill = (
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and query ~ '^listen'"
            )
            while True:
                await asyncio.sleep(0.2)
                async with database.connection() as conn:
                    await conn.execute(kill)

        following = [asyncio.create_task(follow_to_end(number)) for number in range(FOLLOWERS)]
        interrupting = asyncio.create_task(interrupt())
        async with asyncio.timeout(PATIENCE):
            written = await asyncio.gather(*(write(number) for number in range(SESSIONS)))
            received = await asyncio.gather(*following)
        interrupting.cancel()
    for number, lines in enumerate(received):
        got = ["begin" if line == "1 event UserMessage" else _essence(line) for line in lines]
        assert got == written[number % SESSIONS]
    assert cuts > FOLLOWERS


def _essence(line: str) -> str:
    words = line.split()
    return "void" if "void" in words else words[-1]


async def test_an_answer_that_another_process_gives_is_shown_piece_by_piece(database: Database) -> None:
    answers = [ScriptedReply(text="One two three four.", pace=0.1), ScriptedReply(text="Five six.", pace=0.1)]
    async with (
        ModelServer(answers=answers) as server,
        nights.open_replica(database) as other,
        open_agent(other, server) as driver,
        open_agent(database, server) as client,
    ):
        session = await client.open("main:test:ines")
        await sessions.send_message(other, session.id, "count")
        driving = asyncio.create_task(driver.wake(session.id))
        await nights.wait_until_counted(database, "select count(*) from session where lease_owner is not null")
        pieces: list[str] = []
        answered = "select count(*) from event where event_type = 'AssistantResponse'"
        async for text in session.send("and on"):
            if not pieces:
                assert await nights.query_number(database, answered) == 0
            pieces.append(text)
        await driving
    assert "".join(pieces) == "One two three four.Five six."
    assert len(pieces) > 3


async def test_a_child_begins_at_its_own_events_and_with_its_history_at_its_ancestors(
    database: Database, settings: Settings
) -> None:
    await log_events(database, "s", [user_message("one"), assistant_response("two")])
    child = await create_child(database, settings, "s", ChildRequest(kind="fork", at=2))
    await Writer(database, child.id).append(EventType.USER_MESSAGE, text="three")
    own = ["3 event SessionStart", "4 event UserMessage"]
    async with listening_hub(database) as hub:
        async with aclosing(hub.follow(child.id, after="0")) as items:
            assert await take(items, 2) == own
        async with aclosing(hub.follow(child.id, after="0", history=True)) as items:
            assert await take(items, 4) == ["1 event UserMessage", "2 event AssistantResponse", *own]
        async with aclosing(hub.follow(child.id, after="1", history=True)) as items:
            assert await take(items, 3) == ["2 event AssistantResponse", *own]


async def test_pieces_of_a_writer_whose_clock_is_behind_are_not_missed(database: Database, clock: FrozenClock) -> None:
    await log_events(database, "s", [user_message("one")])
    clock.set(later(clock.now(), minutes=-5))
    writer = Writer(database, "s")
    await writer.begin()
    await writer.say("late")
    async with listening_hub(database) as hub, aclosing(hub.follow("s", after="1")) as items:
        assert await take(items, 2) == ["2 event ThinkingStart", "2.1 late"]
    assert await acknowledge(database, "s", "web", "2.1") == 1
