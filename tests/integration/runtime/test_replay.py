"""Replay: what people saw comes back from the log, byte for byte and piece by piece, also what turned out void."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.agent import VOID_NOTICE, Consolidator
from consolidator.runtime.rerun.replay import ALL_CHANNELS, ReplayedItem, replay
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.turns import generation
from consolidator.testing import ModelServer, ScriptedReply
from tests.reuse import dsn, emptied
from tests.support import assistant_response, log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures


async def collect_replay(database: Database, session: str, channel: str | None = None) -> list[ReplayedItem]:
    """Return all that a replay shows."""
    async with database.connection() as conn:
        return [shown async for shown in replay(conn, session, channel=channel)]


def text_of(shown: list[ReplayedItem]) -> str:
    """Return what a person saw of answers."""
    return "".join(VOID_NOTICE if item.kind == "void" else item.text for item in shown if item.kind != "user")


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_what_was_streamed_comes_back_byte_for_byte(database: Database, settings: Settings) -> None:
    """L22."""
    words = "Zwei\tWörter, \U0001f600 und\r\nmehr — \x1b[31mrot\x1b[0m. " * 40
    request_count = 0

    def answers(body: dict[str, Any]) -> ScriptedReply:
        nonlocal request_count
        request_count += 1
        if request_count == 2:
            return ScriptedReply(text=words, disconnect=True)
        return ScriptedReply(text=f"{request_count}: {words}")

    yielded: list[str] = []
    async with ModelServer(answers) as server:
        mine = settings.model_copy(update={"openai_base_url": server.url})
        async with Consolidator(tools=[add], settings=mine, database=database) as agent:
            agent.harness.sleep = _skip_sleep
            session = await agent.open("coder:cli:ada", model="gpt-4o")
            for question in ("first", "second", "third"):
                async for delta in session.send(question):
                    yielded.append(delta)
    items = await collect_replay(database, session.id)
    assert [item.text for item in items if item.kind == "user"] == ["first", "second", "third"]
    assert text_of(items) == "".join(yielded)
    assert [VOID_NOTICE if item.kind == "void" else item.text for item in items if item.kind != "user"] == yielded
    assert yielded.count(VOID_NOTICE) == 1
    assert text_of(await collect_replay(database, session.id, ALL_CHANNELS)) == "".join(yielded)
    assert text_of(await collect_replay(database, session.id, "elsewhere")) == ""


async def _skip_sleep(_: float) -> None:
    return


async def append_streamed(
    database: Database, name: str, pieces: list[str], *, after: int = 0, delivered: int = 0
) -> None:
    """Commit pieces of a message that begins with the session's last event."""
    async with database.transaction() as conn:
        (row,) = await (await conn.execute("select head, lease_epoch from session where id = 'one'")).fetchall()
        now = database.clock.now()
        await generation.append_chunks(conn, "one", name, pieces, after=after, started=row[0], epoch=row[1], now=now)
        if delivered:
            await generation.record_delivery(conn, "one", name, "direct", upto=delivered, started=row[0], now=now)


def thinking_start(name: str) -> NewEvent:
    """The model is asked."""
    return NewEvent(EventType.THINKING_START, {"message_id": name, "model": "m"})


async def test_a_piece_that_the_channel_never_had_is_not_replayed(database: Database) -> None:
    await log_events(database, "one", [user_message("Go."), thinking_start("m1")])
    await append_streamed(database, "m1", ["a", "b", "c"], delivered=2)
    items = await collect_replay(database, "one")
    assert [(item.kind, item.text) for item in items] == [("user", "Go."), ("piece", "a"), ("piece", "b")]
    assert [item.text for item in await collect_replay(database, "one", ALL_CHANNELS)] == ["Go.", "a", "b", "c"]
    assert [item.piece for item in items] == [0, 1, 2]


async def test_a_word_in_between_stands_where_it_was_said(database: Database) -> None:
    await log_events(database, "one", [user_message("Go."), thinking_start("m1")])
    await append_streamed(database, "m1", ["a", "b"], delivered=2)
    replaced = NewEvent(EventType.POLICY_DECISION, {"decision": "generation_replaced", "message_id": "m1"})
    await log_events(database, "one", [user_message("Stop!", mode="steer"), replaced, thinking_start("m2")])
    await append_streamed(database, "m2", ["c"], delivered=1)
    answer = {"text": "c", "message_id": "m2", "chunks": 1}
    await log_events(database, "one", [NewEvent(EventType.ASSISTANT_RESPONSE, answer)])
    items = await collect_replay(database, "one")
    assert [item.text or item.kind for item in items] == ["Go.", "a", "b", "Stop!", "void", "c"]


async def test_an_imported_session_is_replayed_by_its_turns(database: Database) -> None:
    await log_events(
        database,
        "one",
        [user_message("Hello", speaker="Ada"), user_message("hint", origin="harness"), assistant_response("Hi")],
    )
    items = await collect_replay(database, "one")
    assert [(item.kind, item.text, item.speaker) for item in items] == [("user", "Hello", "Ada"), ("piece", "Hi", None)]
    with pytest.raises(NotFound):
        await collect_replay(database, "two")


async def test_a_long_session_is_replayed_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consolidator.runtime.rerun.replay.PAGE", 3)
    for n in range(5):
        await log_events(database, "one", [user_message(f"Q{n}"), thinking_start(f"m{n}")])
        await append_streamed(database, f"m{n}", [f"a{n}", f"b{n}"])
        answer = {"text": f"a{n}b{n}", "message_id": f"m{n}", "chunks": 2}
        await log_events(database, "one", [NewEvent(EventType.ASSISTANT_RESPONSE, answer)])
    items = await collect_replay(database, "one")
    assert "".join(item.text for item in items) == "".join(f"Q{n}a{n}b{n}" for n in range(5))
    async with database.connection() as conn:
        assert len(await events.read(conn, "one")) == 15


async def test_pieces_stand_where_they_were_committed_whatever_the_clock_says(database: Database) -> None:
    """All of it has one time: of the pieces, one came before a steer and one after it."""
    await log_events(database, "one", [user_message("question"), thinking_start("m")], agent="main", channel="chat")
    await append_streamed(database, "m", ["before "])
    await log_events(database, "one", [user_message("steer")])
    async with database.connection() as conn:
        await generation.append_chunks(
            conn, "one", "m", ["after"], after=1, started=2, epoch=0, now=database.clock.now()
        )
    shown = await collect_replay(database, "one", ALL_CHANNELS)
    assert [item.text for item in shown] == ["question", "before ", "steer", "after"]
