"""The model `auto`: a policy chooses once a turn, the log says what and why, and a crash changes no decision."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consolidator import Consolidator, RouteDecision, RouteRequest, tool
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.session import SessionRow
from consolidator.runtime.session.routing import default_policy
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.nights import query_rows
from tests.reuse import dsn, emptied
from tests.runtime import Replies, create_settings, describe_log, open_agent, read_log, send_and_collect
from tests.support import SimulatedKill

__all__ = ["dsn", "emptied"]  # fixtures
KEY = "router:test:ines"
MODELS: dict[str, Any] = {"model": "gpt-4o", "extract_model": "gpt-4o-mini"}


@tool(idempotent=True)
def look(what: str) -> str:
    """Look."""
    return what


def alternate(*names: str) -> Any:
    """Return a policy that chooses another model at each call, and notes what it was asked."""
    asked: list[RouteRequest] = []

    def policy(request: RouteRequest) -> RouteDecision:
        asked.append(request)
        return RouteDecision(names[(len(asked) - 1) % len(names)], f"choice {len(asked)}")

    return policy, asked


async def routes(database: Database, session_id: str) -> list[tuple[str, str]]:
    """Return the models and reasons that a session's log names."""
    log = await read_log(database, session_id)
    return [(e.data["model"], e.data["reason"]) for e in log if e.data.get("decision") == "model_routed"]


async def test_a_persons_turns_go_to_the_strong_model_and_the_log_says_why(database: Database) -> None:
    """B3."""
    replies: Replies = [ScriptedReply.calling(("look", {"what": "a"})), "One.", "Two."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [look], **MODELS) as agent:
        session = await agent.open(KEY, "auto")
        await send_and_collect(session, "first")
        await send_and_collect(session, "second")
        row = await session.info()
    assert [request["model"] for request in server.requests] == ["gpt-4o"] * 3
    words = describe_log(await read_log(database, session.id))
    assert words[1:5] == ["user: first", "decision: model_routed", "ThinkingStart", "model: "]
    assert words.count("decision: model_routed") == 2  # once a turn, not once a step
    assert await routes(database, session.id) == [("gpt-4o", "a turn of a person: the strong model")] * 2
    assert (row.model, row.pending, row.settled_to) == ("auto", False, row.head)


async def test_a_nearly_spent_cap_goes_to_the_cheap_model_and_holds_at_its_price(database: Database) -> None:
    async with ModelServer(answers=["Ok."] * 3) as server, open_agent(database, server, **MODELS) as agent:
        session = await agent.open(KEY, "auto", max_cost_usd="0.01", answer_tokens=100)
        await send_and_collect(session, "first")
        async with database.connection() as conn:
            await conn.execute("update session set cost = 0.009 where id = %s", [session.id])
        await send_and_collect(session, "second")
        row = await session.info()
    assert [request["model"] for request in server.requests] == ["gpt-4o", "gpt-4o-mini"]
    assert [model for model, _ in await routes(database, session.id)] == ["gpt-4o", "gpt-4o-mini"]
    assert row.cost < Decimal("0.01")
    tiers = [spend["tier"] for spend in await query_rows(database, "select tier from spend order by reserved_at")]
    assert tiers == ["main", "cheap"]


async def test_a_cap_needs_the_price_of_every_model_that_may_be_chosen(database: Database) -> None:
    async with open_agent(database, "http://127.0.0.1:9", model="gpt-4o", extract_model="home-made") as agent:
        with pytest.raises(UsageError, match="home-made is unknown"):
            await agent.open(KEY, "auto", max_cost_usd=1)


@pytest.mark.parametrize("boundary", ["after commit thinking", "before commit response", "after commit response"])
async def test_a_turn_that_a_crash_interrupted_goes_on_with_the_logged_decision(
    database: Database, boundary: str
) -> None:
    policy, asked = alternate("gpt-4o", "gpt-4o-mini")
    replies: Replies = [ScriptedReply.calling(("look", {"what": "a"})), "Done.", "Done.", "Done."]

    def die(_: str) -> None:
        raise SimulatedKill

    async with ModelServer(answers=replies) as server:
        settings = create_settings(server, Path("/nonexistent"), session_lease_seconds=1, **MODELS)
        async with Consolidator([look], settings=settings, database=database, policy=policy) as agent:
            session = await agent.open(KEY, "auto")
            with pytest.raises(BaseException), interrupt_at(1, die, boundary):  # noqa: B017 - the kill
                await send_and_collect(session, "go")
        async with database.connection() as conn:  # the process is gone, and its lease with it
            await conn.execute("update session set lease_owner = null, lease_until = null")
        async with Consolidator([look], settings=settings, database=database, policy=policy) as agent:
            agent.harness.sleep = _skip
            await agent.wake(session.id)
    assert len(asked) == 1
    assert [model for model, _ in await routes(database, session.id)] == ["gpt-4o"]
    assert {request["model"] for request in server.requests} == {"gpt-4o"}
    assert describe_log(await read_log(database, session.id))[-1] == "model: Done."


async def _skip(_: float) -> None:
    return None


async def test_a_policy_that_fails_falls_back_to_the_default_one(database: Database) -> None:
    def broken(_: RouteRequest) -> RouteDecision:
        raise RuntimeError("no idea")

    async with ModelServer(answers=["Ok."]) as server:
        settings = create_settings(server, Path("/nonexistent"), **MODELS)
        async with Consolidator(settings=settings, database=database, policy=broken) as agent:
            session = await agent.open(KEY, "auto")
            assert await send_and_collect(session, "hi") == "Ok."
    assert await routes(database, session.id) == [
        ("gpt-4o", "the policy failed (RuntimeError); a turn of a person: the strong model")
    ]


async def test_a_summary_goes_to_the_cheap_model_and_says_why(database: Database) -> None:
    def reply(request: dict[str, Any]) -> ScriptedReply:
        if not request.get("stream"):
            return ScriptedReply.json({"summary": "They talked.", "next_steps": []})
        return ScriptedReply(text="Yes, it is so. " * 40)

    async with ModelServer(reply) as server, open_agent(database, server, **MODELS) as agent:
        session = await agent.open(KEY, "auto", strategy="compacted", budget=1500, answer_tokens=400)
        for number in range(8):
            await send_and_collect(session, f"Question {number}? " * 40)
    summaries = [request["model"] for request in server.requests if not request.get("stream")]
    assert summaries
    assert set(summaries) == {"gpt-4o-mini"}
    log = await read_log(database, session.id)
    [first, *_] = [event.data for event in log if event.data.get("decision") == "compaction"]
    assert (first["model"], first["routed"]) == ("gpt-4o-mini", "compaction: the cheap model")


async def test_without_models_to_choose_between_the_turn_says_what_to_set(database: Database) -> None:
    async with ModelServer(answers=[]) as server:
        settings = create_settings(server, Path("/nonexistent")).model_copy(update={"model": None})
        async with Consolidator(settings=settings, database=database) as agent:
            session = await agent.open(KEY)
            async with database.connection() as conn:
                await conn.execute("update session set model = 'auto'")
            assert "CONSOLIDATOR_MODEL" in await send_and_collect(session, "hi")


def request(row: SessionRow, purpose: Any = "turn", tokens: int = 1000) -> RouteRequest:
    """A request to choose between a small and a large window."""
    return RouteRequest(purpose, row, tokens, 1000, "gpt-4o-mini", "gpt-4.1")


async def test_the_default_policy_minds_purpose_and_window(database: Database) -> None:
    async with open_agent(database, "http://127.0.0.1:9") as agent:
        row = await (await agent.open(KEY)).info()
    assert default_policy(request(row)).model == "gpt-4.1"
    assert default_policy(request(row, "spawned")).model == "gpt-4o-mini"
    long = default_policy(request(row, "spawned", tokens=300_000))
    assert (long.model, "do not fit" in long.reason) == ("gpt-4.1", True)


def test_auto_is_no_model_of_the_settings() -> None:
    with pytest.raises(ValueError, match="auto is for agents and sessions"):
        Settings(model="auto")
