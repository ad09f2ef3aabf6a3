"""Sessions of the OpenAI Agents SDK: what its `Session` promises, over an append-only log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, InvalidEvent, UsageError
from consolidator.models.event import Event
from consolidator.runtime.session.creation import SessionRequest, open_session
from consolidator.runtime.turn.sessions import send_message
from consolidator.service.log.record import record_events
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.queries import fetch_all
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.model_server import build_completion
from tests.nights import query_number, query_rows
from tests.support import assert_invariants, later, read_memory, run_job

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed: pip install 'consolidator[agents]'")

import agents
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

from consolidator.integrations.openai_agents import ConsolidatorSession

KEY = "shop:web:mara"
ODD_ITEMS: list[Any] = [
    {"role": "user", "content": "a\x00b \ud800 \ue000 😀", "metadata": {"z": 1, "a": [1.0, -1.5e-7, 1e23, 1.5e300]}},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "A" * 50_000},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"b": 1,  "a": 2}'},
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}],
    },
    {
        "type": "computer_call_output",
        "call_id": "c2",
        "output": {"type": "computer_screenshot", "image_url": "B" * 40_000},
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tabs"}},
    {"type": "something_new", "data_ref": {"item": "mine"}, "nothing": None, "nested": {"item": {"item": 1}}},
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "x"}],
    },
]


def message(text: str) -> dict[str, Any]:
    """A message as the SDK passes it."""
    return {"role": "user", "content": text}


def texts(items: list[Any]) -> list[str]:
    """Return what items say."""
    return [item["content"] for item in items]


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    """The SDK sends traces to its maker by default."""
    agents.set_tracing_disabled(True)


@pytest.fixture
def session(database: Database) -> ConsolidatorSession:
    """A session on the test's database."""
    return ConsolidatorSession(KEY, database=database)


async def read_events(database: Database) -> list[Event]:
    """Return the events of the only session."""
    async with database.connection() as conn:
        [session_id] = await sessions.list_ids(conn)
        return await events.read(conn, session_id)


@asynccontextmanager
async def open_agent(answers: Any, *tools: Callable[..., Any]) -> AsyncIterator[tuple[Agent[None], ModelServer]]:
    """An agent of the SDK, and the stand-in model that it asks."""
    async with ModelServer(answers) as server, AsyncOpenAI(base_url=server.url, api_key="none") as client:
        model = OpenAIChatCompletionsModel("gpt-4o-mini", client)
        yield Agent(name="clerk", model=model, tools=[function_tool(tool) for tool in tools]), server


async def test_items_come_back_as_they_were(database: Database, session: ConsolidatorSession) -> None:
    assert isinstance(session, agents.Session)
    assert await session.get_items() == []
    await session.add_items(ODD_ITEMS)
    assert await session.get_items() == ODD_ITEMS
    assert json.dumps(await session.get_items(), sort_keys=True) == json.dumps(ODD_ITEMS, sort_keys=True)
    assert await ConsolidatorSession(KEY, database=database).get_items(limit=3) == ODD_ITEMS[-3:]
    assert [await session.pop_item() for _ in ODD_ITEMS] == ODD_ITEMS[::-1]
    await assert_invariants(database)


async def test_nothing_is_written_for_nothing(database: Database, session: ConsolidatorSession) -> None:
    await session.add_items([])
    await session.clear_session()
    assert await session.pop_item() is None
    async with database.connection() as conn:
        assert await sessions.list_ids(conn) == []


async def test_the_latest_items_within_a_limit(database: Database) -> None:
    session = ConsolidatorSession(KEY, database=database, session_settings={"limit": 2})
    await session.add_items([message(str(number)) for number in range(5)])
    assert texts(await session.get_items()) == ["3", "4"]
    assert texts(await session.get_items(limit=3)) == ["2", "3", "4"]
    assert texts(await session.get_items(limit=10)) == ["0", "1", "2", "3", "4"]
    assert texts(await session.get_items(limit=-1)) == ["0", "1", "2", "3", "4"]
    assert await session.get_items(limit=0) == []
    with pytest.raises(TypeError, match="limitt"):
        ConsolidatorSession(KEY, database=database, session_settings={"limitt": 2})


async def test_what_is_popped_or_cleared_stays_in_the_log(database: Database, session: ConsolidatorSession) -> None:
    await session.add_items([message("one"), message("two"), message("three")])
    assert await session.pop_item() == message("three")
    assert await session.pop_item() == message("two")
    await session.add_items([message("four")])
    assert texts(await session.get_items()) == ["one", "four"]
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([message("five")])
    assert texts(await session.get_items()) == ["five"]

    log = await read_events(database)
    said = [event.data["text"] for event in log if event.type == "UserMessage"]
    assert said == ["one", "two", "three", "four", "five"]
    withdrawn = [event.data for event in log if event.data.get("decision") == "items_withdrawn"]
    assert [(data["after"], data["upto"], data["operation"]) for data in withdrawn] == [
        (2, 3, "pop_item"),
        (1, 4, "pop_item"),
        (0, 6, "clear_session"),
    ]
    await assert_invariants(database)


async def test_any_order_of_operations_is_a_list(database: Database, session: ConsolidatorSession) -> None:
    """The same as a list's append and pop, also where what was withdrawn is more than one read."""
    stack: list[str] = []
    for round_number in range(40):
        for number in range(1 + round_number % 3):
            stack.append(f"{round_number}/{number}")
            await session.add_items([message(stack[-1])])
        for _ in range(round_number % 4):
            popped = await session.pop_item()
            assert (popped and popped["content"]) == (stack.pop() if stack else None)
    assert texts(await session.get_items()) == stack
    for limit in (1, 2, 5):
        assert texts(await session.get_items(limit=limit)) == stack[-limit:]


async def test_a_limit_reads_a_window_of_the_log(
    database: Database, session: ConsolidatorSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    async def count_rows(*arguments: Any) -> list[Any]:
        rows = await fetch_all(*arguments)
        read.append(len(rows))
        return rows

    monkeypatch.setattr("consolidator.store.log.items.fetch_all", count_rows)
    await session.add_items([message(str(number)) for number in range(1500)])
    assert texts(await session.get_items(limit=5)) == ["1495", "1496", "1497", "1498", "1499"]
    await session.pop_item()
    assert sum(read) < 60
    await session.clear_session()
    await session.add_items([message("new")])
    read.clear()
    assert texts(await session.get_items()) == ["new"]
    assert await session.pop_item() == message("new")
    assert len(read) == 2  # it jumps over what was withdrawn, however much that is


async def test_concurrent_pops_take_each_item_once(database: Database, session: ConsolidatorSession) -> None:
    await session.add_items([message(str(number)) for number in range(6)])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(8)))
    assert sorted(item["content"] for item in popped if item) == [str(number) for number in range(6)]
    assert popped.count(None) == 2


async def test_concurrent_first_writes_share_one_session(database: Database) -> None:
    many = [ConsolidatorSession(KEY, database=database) for _ in range(6)]
    await asyncio.gather(*(one.add_items([message(str(number))]) for number, one in enumerate(many)))
    assert sorted(texts(await many[0].get_items())) == [str(number) for number in range(6)]
    assert await query_number(database, "select count(*) from session") == 1


async def test_all_items_of_a_call_or_none(database: Database, session: ConsolidatorSession) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        await session.add_items([message("kept"), {"role": "user", "content": object()}])
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidEvent, match="item 2 is nested deeper"):
        await session.add_items([message("kept"), {"role": "user", "content": deep}])
    with pytest.raises(InvalidEvent, match="item 1 is a str"):
        await session.add_items(["hi"])
    assert await session.get_items() == []


async def test_an_append_whose_answer_was_lost_is_repeated_once(
    database: Database, session: ConsolidatorSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = session._log.add
    lost: list[str] = []

    async def add_and_lose(*arguments: Any, **options: Any) -> None:
        await add(*arguments, **options)
        if len(lost) < 2:
            lost.append(options["idempotency_key"])
            raise DatabaseUnavailable("the database went away")

    monkeypatch.setattr(session._log, "add", add_and_lose)
    monkeypatch.setattr("consolidator.integrations.openai_agents._FIRST_PAUSE_SECONDS", 0)
    await session.add_items([message("once"), message("and once")])
    assert len(set(lost)) == 1
    assert texts(await session.get_items()) == ["once", "and once"]


async def test_who_says_what(database: Database) -> None:
    session = ConsolidatorSession(KEY, database=database, surface="kiosk")
    await session.add_items([message("Use tabs."), *ODD_ITEMS[2:4], {"role": "system", "content": "be brief"}])
    await session.clear_session()
    assert [(event.type.value, event.principal) for event in await read_events(database)] == [
        ("UserMessage", "user:kiosk"),
        ("ToolCall", "client:openai-agents"),
        ("ToolResult", "client:openai-agents"),
        ("PolicyDecision", "harness:openai-agents"),
        ("PolicyDecision", "harness:openai-agents"),
    ]
    by_program = ConsolidatorSession("shop:cron:daily", database=database, origin="harness")
    await by_program.add_items([message("Use tabs.")])
    said = await query_rows(database, "select principal from event where data ->> 'origin' = 'harness'")
    assert said == [{"principal": "client:openai-agents"}]


async def test_its_sessions_are_its_own(database: Database, session: ConsolidatorSession, settings: Settings) -> None:
    """Neither the runtime nor a client appends to them, and it appends to none of theirs."""
    await session.add_items([message("for the SDK")])
    await record_events(database, KEY, [{"type": "UserMessage", "data": {"text": "for a client"}}])
    driven = await open_session(database, settings, KEY, SessionRequest())
    await send_message(database, driven.id, "for the runtime")
    assert texts(await session.get_items()) == ["for the SDK"]
    rows = await query_rows(database, "select recorded_by, agent, channel, peer from session order by 1 nulls last")
    assert [row["recorded_by"] for row in rows] == ["library:openai-agents", "owner", None]
    assert {(row["agent"], row["channel"], row["peer"]) for row in rows} == {("shop", "web", "mara")}
    recorded = await query_rows(database, "select id from session where recorded_by = 'library:openai-agents'")
    with pytest.raises(UsageError, match="recorded by library:openai-agents"):
        await send_message(database, recorded[0]["id"], "drive it")


async def test_an_ended_session_is_not_continued(database: Database, session: ConsolidatorSession) -> None:
    await session.add_items([message("before")])
    async with database.connection() as conn:
        await conn.execute("update session set status = 'ended'")
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([message("after")])
    assert texts(await session.get_items()) == ["after"]


async def test_a_closed_session_is_not_used(database: Database) -> None:
    async with ConsolidatorSession(KEY, database=database) as session:
        await session.add_items([message("hi")])
    with pytest.raises(RuntimeError, match="ConsolidatorSession is closed"):
        await session.add_items([])
    with pytest.raises(UsageError, match="not a valid session key"):
        ConsolidatorSession("", database=database)
    with pytest.raises(UsageError, match="leave settings out"):
        ConsolidatorSession(KEY, database=database, settings=Settings())


async def test_what_is_pruned_is_gone(
    database: Database, session: ConsolidatorSession, clock: FrozenClock, settings: Settings
) -> None:
    await session.add_items([message("old")])
    clock.set(later(clock.now(), days=1))
    await run_job(database, settings)
    clock.set(later(clock.now(), days=60))
    await run_job(database, settings, "retention")
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([message("new")])
    assert texts(await session.get_items(limit=5)) == ["new"]


BOOKINGS = {"BK0001": "economy", "BK0002": "economy", "BK0003": "business"}


def get_booking(booking: str) -> str:
    """Look a booking up."""
    return json.dumps({"booking_id": booking, "cabin": BOOKINGS[booking]})


def move_booking(booking: str, day: str) -> str:
    """Move a booking to another day."""
    return f"{booking} is moved to {day}"


def clerk(booking: str, *more: str) -> Callable[[dict[str, Any]], ScriptedReply | str]:
    """A model that looks a booking up, moves it, says so, and then says `more`.

    The SDK accepts an id for one call only.
    """
    replies: list[ScriptedReply | str] = [
        ScriptedReply.calling(("get_booking", {"booking": booking})),
        ScriptedReply.calling(("move_booking", {"booking": booking, "day": "monday"})),
        *("It is moved.", *more),
    ]

    def answer(body: dict[str, Any]) -> ScriptedReply | str:
        reply = replies.pop(0)
        if isinstance(reply, str):
            return reply
        completion = build_completion(body, reply)
        completion["choices"][0]["message"]["tool_calls"][0]["id"] = f"call_{booking}_{len(replies)}"
        return ScriptedReply(body=completion)

    return answer


async def test_the_runner_goes_on_where_a_conversation_ended(database: Database) -> None:
    async with open_agent(clerk("BK0001", "You are welcome."), get_booking, move_booking) as (agent, server):
        moved = await Runner.run(agent, "Move BK0001", session=ConsolidatorSession(KEY, database=database))
        thanked = Runner.run_streamed(agent, "Thank you", session=ConsolidatorSession(KEY, database=database))
        _ = [event async for event in thanked.stream_events()]
    assert (moved.final_output, thanked.final_output) == ("It is moved.", "You are welcome.")
    roles = [entry["role"] for entry in server.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
    log = await read_events(database)
    assert [event.type.value for event in log] == [
        *("UserMessage", "ToolCall", "ToolResult", "ToolCall", "ToolResult", "AssistantResponse"),
        *("UserMessage", "AssistantResponse"),
    ]
    assert [event.tool_name for event in log[1:5]] == ["get_booking"] * 2 + ["move_booking"] * 2


async def test_nights_learn_from_what_the_sdk_ran(database: Database, clock: FrozenClock, settings: Settings) -> None:
    for peer, booking in zip(("mara", "ines", "jon"), BOOKINGS, strict=True):
        session = ConsolidatorSession(f"shop:web:{peer}", database=database)
        async with open_agent(clerk(booking), get_booking, move_booking) as (agent, _):
            await Runner.run(agent, f"From now on, always use tabs. Move {booking}", session=session)
    clock.set(later(clock.now(), days=1))
    await run_job(database, settings)
    memory = await read_memory(database)
    assert {title: support for _, title, support, *_ in memory["procedure"]} == {"get_booking → move_booking": 3}
    assert len(memory["fact"]) == 3
