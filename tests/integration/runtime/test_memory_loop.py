"""What tonight learns is in tomorrow's context, and is not learned again from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, advance_history, build_context
from consolidator.database import Database
from consolidator.memory.text.markers import RECALL_BEGIN, RECALL_END
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.turn.compaction import compact
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import query_number, query_rows, run_next_night
from tests.runtime import send_and_collect
from tests.support import (
    assistant_response,
    call_and_result,
    later,
    log_events,
    run_job,
    tool_call,
    tool_result,
    user_message,
)

RULE = "From now on, always use tabs for indentation."


def create_recall(database: Database, settings: Settings) -> Callable[[SessionRow, str], Awaitable[str | None]]:
    """Return what asks memory about each message."""

    async def recall_block(row: SessionRow, text: str) -> str | None:
        return (
            await recall(database, text, MemoryScope(agent=row.agent, peer=row.peer), settings=settings)
        ).block or None

    return recall_block


async def load_facts(database: Database) -> list[Any]:
    """Return the facts, and what proves them."""
    return await query_rows(database, "select sentence, evidence, sessions from fact order by id")


async def test_what_a_night_learns_is_in_the_next_context_and_is_not_learned_again_from_there(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        shown = str(request["messages"][0]["content"])
        recalled = shown.partition(RECALL_BEGIN)[2].partition(RECALL_END)[0]
        # A model that repeats all it was shown, marks and all.
        return ScriptedReply(
            text=f"As you told me: {RECALL_BEGIN}{recalled}{RECALL_END} So: {RULE if recalled else 'I see.'}"
        )

    async with ModelServer(create_reply) as server:
        mine = settings.model_copy(update={"openai_base_url": server.url})
        asking = create_recall(database, settings)
        async with Consolidator(settings=mine, database=database, recall=asking) as agent:
            first = await agent.open("coder:cli:ada", model="gpt-4o")
            async for _ in first.send(RULE):
                pass
            assert RECALL_BEGIN not in str(server.requests[0]["messages"])
            await first.end()
            await run_next_night(database, clock, settings)
            before = await load_facts(database)
            assert len(before) == 1
            second = await agent.open("coder:cli:ada", model="gpt-4o")
            assert second.id != first.id
            async for _ in second.send("How shall I use indentation here, tabs or spaces?"):
                pass
            shown = server.requests[-1]["messages"][0]
            block = shown["content"].partition(RECALL_BEGIN)[2].partition(RECALL_END)[0]
            assert "tabs for indentation" in block
            assert "[fact:" in block
            cited = "select f.id ^@ (e.data -> 'recalled' ->> 0) as is_cited from event e, fact f"  # `blame` reads it
            cited += " where event_type = 'ThinkingStart' order by e.created_at"
            assert await query_rows(database, cited) == [{"is_cited": None}, {"is_cited": True}]
            await second.end()
            await run_next_night(database, clock, settings)
    assert await load_facts(database) == before
    echoes = "select count(*) from episode where text like '%recalled-memory%' or text like '%From earlier sessions%'"
    assert await query_number(database, echoes) == 0
    said_by = "select distinct event_type from event where data::text like '%recalled-memory%'"
    assert await query_rows(database, said_by) == [{"event_type": "AssistantResponse"}]


async def test_what_a_tool_recalled_is_not_learned_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """A model asks for memory by a tool, or a harness pastes it into a message: neither teaches anything."""
    await log_events(database, "one", [user_message(RULE)], peer="ada")
    await run_next_night(database, clock, settings)
    before = await load_facts(database)
    block = (await recall(database, "tabs for indentation", MemoryScope(agent="coder"))).block
    assert "tabs" in block

    def extract(request: dict[str, Any]) -> dict[str, Any]:
        prompts.append(request["messages"][1]["content"])
        return {"facts": []}

    prompts: list[str] = []
    echo = [
        user_message(f"{block}\nWhat now?"),
        tool_call("c", "recall", {}),
        tool_result("c", f"{block}\nplus 1 more"),
    ]
    await log_events(database, "two", [*echo, user_message(block, origin="memory")], peer="ada")
    async with ModelServer(extract) as server:
        mine = settings.model_copy(update={"openai_base_url": server.url, "model": "reader"})
        clock.set(later(clock.now(), hours=1))
        await run_next_night(database, clock, mine)
    assert await load_facts(database) == before
    assert any("What now?" in prompt for prompt in prompts)
    assert not any("plus 1 more" in prompt for prompt in prompts)
    assert not any("From earlier sessions" in prompt for prompt in prompts)


async def test_the_nights_learn_nothing_from_a_summary(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    talk = [
        event
        for n in range(10)
        for event in (user_message(f"Question {n}? " * 15), assistant_response(f"Answer {n}. " * 15))
    ]
    await log_events(database, "one", [user_message(RULE), assistant_response("I will."), *talk])
    assert await compact(database, "one", budget=1000)
    await run_next_night(database, clock, settings)
    assert [len(fact["evidence"]) for fact in await load_facts(database)] == [1]
    assert await query_number(database, "select count(*) from episode where text like '%Session so far%'") == 0


async def test_the_summary_goes_on_from_what_the_night_folded(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    calls = [event for n in range(30) for event in call_and_result(f"c{n}", "read", {"path": f"{n}"}, "ok")]
    await log_events(database, "one", [user_message("Go."), *calls])
    await run_next_night(database, clock, settings)
    await log_events(database, "one", [user_message("On."), *call_and_result("z", "write", {}, "ok")])
    async with database.connection() as conn:
        before = await build_context(conn, "one", ContextRequest("window", last=4))
        assert "Tools used: read 30x." in before.messages[0]["content"]
        assert await advance_history(conn, "one", limit=3) == 0
        after = await build_context(conn, "one", ContextRequest("window", last=4))
    assert "Tools used: read 30x, write." in after.messages[0]["content"]


async def test_notes_and_summary_outlive_their_events_and_are_found_in_a_log_that_came_from_elsewhere(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    landmarks: list[dict[str, Any]] = [
        {"decision": "scratchpad_set", "text": "old"},
        {"decision": "scratchpad_set", "text": "be kind"},
        {"decision": "compaction", "kept_from": 3, "summary": "They read."},
    ]
    calls = [event for n in range(150) for event in call_and_result(f"c{n}", "read", {"path": f"{n}"}, "ok")]
    decisions = [NewEvent(EventType.POLICY_DECISION, data) for data in landmarks]
    await log_events(database, "one", [user_message("Go."), *decisions, *calls])
    await run_next_night(database, clock, settings)
    async with database.connection() as conn:
        assert await advance_history(conn, "one") == 0
    clock.set(later(clock.now(), days=20))
    await log_events(database, "one", [user_message("On."), *call_and_result("z", "write", {}, "ok")])
    await run_next_night(database, clock, settings)
    clock.set(later(clock.now(), days=20))
    await run_job(database, settings, "retention")
    assert await query_number(database, "select pruned_to from session") > 100
    async with database.connection() as conn:
        assert await advance_history(conn, "one") == 0
        assert await advance_history(conn, "one") == 0
        context = await build_context(conn, "one", ContextRequest("compacted"))
    assert "Tools used: read 150x, write." in context.messages[0]["content"]
    assert "They read." in context.messages[0]["content"]
    assert "be kind" in context.messages[-1]["content"]
    (row,) = await query_rows(
        database, "select v.upto = s.head as folded from session_view v join session s on s.id = session_id"
    )
    assert row["folded"]


ANYTHING = ["I prefer tabs\0 over spaces.", "\ud800", "From now on \udfff use `'\\ %s {0}` \x1b[31m\u202e", "\0"]


@pytest.mark.parametrize("text", ANYTHING)
async def test_whatever_is_said_is_answered_remembered_and_recalled_for(
    database: Database, clock: FrozenClock, settings: Settings, text: str
) -> None:
    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        if request["messages"][-1]["role"] == "tool":
            return ScriptedReply(text=f"It said {text}.")
        return ScriptedReply.calling(("look", {"at": {text: text}}))

    def look(at: dict[str, str]) -> str:
        """Look at anything."""
        return f"{at} {text}"

    async with ModelServer(create_reply) as server:
        mine = settings.model_copy(update={"openai_base_url": server.url})
        asking = create_recall(database, settings)
        async with Consolidator([look], settings=mine, database=database, recall=asking) as agent:
            session = await agent.open("coder:cli:ada", model="gpt-4o", max_cost_usd=1)
            for _ in range(2):
                assert await send_and_collect(session, text) == f"It said {text}."
            await session.end()
    done = await run_next_night(database, clock, settings)
    assert done["dead"] == 0
    assert (await recall(database, text, MemoryScope(agent="coder"), settings=settings)) is not None
