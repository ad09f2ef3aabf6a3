"""Compaction: contexts become shorter, tasks and errors stay data, the log keeps all; paid from the session's cap."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from pydantic import SecretStr

from consolidator import Outcome, tool
from consolidator.context.build import Context, ContextRequest, build_context
from consolidator.context.compaction import Compaction, CompactionHooks, CompactionPlan
from consolidator.database import Database
from consolidator.errors import SessionBusy, StaleEpoch, UsageError
from consolidator.llm.client import ModelClient, ModelReply, ModelRequest
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.session.creation import SessionArguments, SessionRequest, open_session
from consolidator.runtime.turn.compaction import SummaryWriter, compact
from consolidator.service.sessions import context
from consolidator.service.sessions.context import compact_session
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.nights.test_night_digest import Webhook
from tests.integration.nights.test_night_digest import webhook as webhook  # a fixture
from tests.nights import query_number, query_rows
from tests.reuse import dsn, emptied
from tests.support import assistant_response, call_and_result, log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures

KEY = "ghp_" + "q7Xv2LmN9bTz4RkW8sYc3HdF6gJp1AeU5oQi"  # of nobody
SUMMARY = {"summary": f"They fix the login; key {KEY} was used.", "next_steps": ["run the tests"]}
WRONG = ScriptedReply(text="no JSON")
WORK = [
    NewEvent(EventType.TASK_START, {"task_id": "t1", "goal": "Fix the login"}),
    NewEvent(EventType.TASK_START, {"task_id": "t2", "goal": "Write the docs"}),
    NewEvent(EventType.TASK_END, {"task_id": "t2", "outcome": "success"}),
    user_message(f"Please fix the login, with {KEY}."),
    *call_and_result("a", "Bash", {"command": "pytest tests/login.py"}, "E   KeyError: 'user'\nFAILED", "error"),
    *call_and_result("b", "Bash", {"command": "ruff check --fx"}, "error: unexpected argument '--fx'", "error"),
    *call_and_result("c", "Bash", {"command": "ruff check --fix"}, "All checks passed!"),
    assistant_response("The test fails."),
]


async def log_long_session(database: Database, *, turns: int = 30, **columns: Any) -> None:
    """Log some work, and much talk after it."""
    talk = [
        event
        for n in range(turns)
        for event in (user_message(f"Question {n}? " * 15), assistant_response(f"Answer {n}. " * 15))
    ]
    await log_events(database, "one", [*WORK, *talk], **columns)


async def build_compacted(database: Database, **more: Any) -> Context:
    """Return the compacted context."""
    async with database.connection() as conn:
        return await build_context(conn, "one", ContextRequest("compacted", **more))


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A model that writes summaries."""
    async with ModelServer([ScriptedReply.json(SUMMARY)]) as running:
        yield running


async def compact_with_model(database: Database, server: ModelServer, model: str, **more: Any) -> Compaction:
    """Compact with a model's help."""
    client = ModelClient(server.url, "key", 10)
    try:
        compaction = await compact(database, "one", budget=3000, writer=SummaryWriter(client, model), **more)
    finally:
        await client.close()
    assert compaction is not None
    return compaction


async def test_without_a_model_a_digest_takes_the_place_of_what_was_said(database: Database) -> None:
    await log_long_session(database)
    before = await build_compacted(database, budget=3000)
    compaction = await compact(database, "one", budget=3000)
    assert compaction is not None
    assert (compaction.by, compaction.tokens_after < compaction.tokens_before) == ("digest", True)
    after = await build_compacted(database, budget=3000)
    assert not after.over_budget
    assert after.tokens < before.tokens
    text = after.messages[0]["content"]
    assert "Please fix the login" in text
    assert "Open tasks:\n- Fix the login" in text
    assert "Write the docs" not in text
    assert "Unresolved errors:\n- Bash: E KeyError: 'user'" in text
    assert "--fx" not in text.partition("Unresolved errors")[2].partition("\n\n")[0]
    assert await query_number(database, "select head from session") == len(WORK) + 61
    assert await query_number(database, "select compactions from session") == 1
    async with database.connection() as conn:
        assert "Question 0?" in str((await build_context(conn, "one", ContextRequest("full"))).messages)


async def test_the_next_compaction_goes_on_from_the_last(database: Database) -> None:
    await log_long_session(database)
    first = await compact(database, "one", budget=3000)
    assert await compact(database, "one", budget=3000) is None
    more = [
        event for n in range(20) for event in (user_message(f"More {n}? " * 15), assistant_response(f"Yes {n}. " * 15))
    ]
    fixed = call_and_result("d", "Bash", {"command": "pytest tests/login.py"}, "1 passed")
    await log_events(database, "one", [*fixed, NewEvent(EventType.TASK_END, {"task_id": "t1"}), *more])
    second = await compact(database, "one", budget=3000)
    assert first is not None
    assert second is not None
    assert second.kept_from > first.kept_from
    text = (await build_compacted(database, budget=3000)).messages[0]["content"]
    assert "Open tasks" not in text
    assert "Unresolved errors" not in text
    assert "Please fix the login" in text
    assert await query_number(database, "select compactions from session") == 2


async def test_a_model_writes_the_summary_and_is_paid_for(database: Database, server: ModelServer) -> None:
    await log_long_session(database, model="gpt-4o")
    compaction = await compact_with_model(database, server, "gpt-4o-mini")
    assert compaction.by == "model"
    text = (await build_compacted(database, budget=3000)).messages[0]["content"]
    assert "They fix the login" in text
    assert "Still to do:\n- run the tests" in text
    assert KEY not in text
    (spent,) = await query_rows(
        database, "select purpose, tier, strategy, cost, settled_at is not null as settled from spend"
    )
    assert (spent["purpose"], spent["tier"], spent["strategy"], spent["settled"]) == (
        "compaction", "cheap", "compacted", True,
    )  # fmt: skip
    assert await query_rows(database, "select cost, reserved from session") == [{"cost": spent["cost"], "reserved": 0}]
    script = server.requests[0]["messages"][1]["content"]
    assert "Question 0?" in script
    assert "failed: [error] E   KeyError" in script
    assert "[redacted:" in script
    assert KEY not in script


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply.failed(500),
        ScriptedReply.refused(),
        ScriptedReply.truncated(),
        ScriptedReply(text="no JSON"),
        ScriptedReply.json({"summary": ""}),
    ],
)
async def test_a_model_that_fails_leaves_it_to_the_digest(database: Database, reply: ScriptedReply) -> None:
    await log_long_session(database)
    async with ModelServer([reply]) as server:
        compaction = await compact_with_model(database, server, "gpt-4o-mini")
    assert compaction.by == "digest"
    (spent,) = await query_rows(database, "select cost, settled_at is not null as settled from spend")
    assert spent["settled"]
    assert (spent["cost"] == 0) == (reply.status == 500)


async def test_a_cap_that_is_reached_leaves_it_to_the_digest(database: Database, server: ModelServer) -> None:
    await log_long_session(database)
    async with database.connection() as conn:
        await conn.execute("update session set max_cost = 0.0001")
    compaction = await compact_with_model(database, server, "gpt-4o")
    assert compaction.by == "digest"
    assert server.requests == []
    assert await query_number(database, "select count(*) from spend") == 0


async def test_a_requested_compaction_costs_what_it_took_also_where_the_session_is_woken_meanwhile(
    database: Database, settings: Settings, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_long_session(database)
    refused: list[Exception] = []

    class WakingClient(ModelClient):
        async def send(self, request: ModelRequest) -> ModelReply:
            async with Consolidator(settings=settings, database=database) as agent:
                try:
                    await agent.wake("one")
                except SessionBusy as error:
                    refused.append(error)
            return await super().send(request)

    monkeypatch.setattr(context, "create_client", lambda _: WakingClient(server.url, "key", 10))
    configured = settings.model_copy(update={"model": "gpt-4o-mini"})
    compaction = await compact_session(database, configured, "one", budget=3000)
    assert compaction is not None
    assert len(refused) == 1
    (paid,) = await query_rows(database, "select cost, reserved, output_tokens from spend")
    assert 0 < paid["cost"] < paid["reserved"]
    (row,) = await query_rows(database, "select cost, reserved, lease_owner, output_tokens from session")
    assert row == {"cost": paid["cost"], "reserved": 0, "lease_owner": None, "output_tokens": paid["output_tokens"]}


async def test_a_zombie_compacts_nothing(database: Database) -> None:
    await log_long_session(database)
    with pytest.raises(StaleEpoch):
        await compact(database, "one", budget=3000, epoch=7)
    assert await query_number(database, "select count(*) from event where event_type = 'PolicyDecision'") == 0
    assert await query_number(database, "select compactions from session") == 0


async def test_hooks_are_called_before_and_after(database: Database, server: ModelServer) -> None:
    """B35."""
    await log_long_session(database)
    seen: list[Any] = []

    async def before(plan: CompactionPlan) -> str:
        seen.append(plan.kept_from)
        return "Keep every file's name."

    async def after(compaction: Compaction) -> None:
        seen.append(compaction)

    hooks = CompactionHooks(before, after)
    compaction = await compact_with_model(database, server, "gpt-4o-mini", hooks=hooks)
    assert seen == [compaction.kept_from, compaction]
    assert server.requests[0]["messages"][1]["content"].endswith("Keep every file's name.")


async def test_a_short_session_is_left_as_it_is(database: Database) -> None:
    await log_events(database, "one", [])
    assert await compact(database, "one") is None
    await log_events(database, "one", [user_message("Hello"), assistant_response("Hi")])
    assert await compact(database, "one") is None


async def test_a_conversation_that_grows_too_long_is_compacted_on_the_way(
    database: Database, settings: Settings
) -> None:
    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply(text="Noted. " * 30) if request.get("stream") else ScriptedReply.json(SUMMARY)

    async with ModelServer(create_reply) as server:
        agent_settings = settings.model_copy(update={"openai_base_url": server.url, "extract_model": "gpt-4o-mini"})
        async with Consolidator(settings=agent_settings, database=database) as agent:
            session = await agent.open(
                "coder:cli:ada", model="gpt-4o", max_cost_usd=Decimal(5), strategy="compacted", budget=2000
            )
            for n in range(16):
                answer = "".join([delta async for delta in session.send(f"Remember {n}. " * 20)])
                assert answer == "Noted. " * 30
    streamed = [request for request in server.requests if request.get("stream")]
    assert len(streamed) == 16
    compactions = await query_number(database, "select compactions from session")
    assert 1 <= compactions == len(server.requests) - 16
    assert "They fix the login" in streamed[-1]["messages"][0]["content"]
    (row,) = await query_rows(
        database, "select cost, reserved, turns, (select sum(cost) from spend) as paid from session"
    )
    assert (row["cost"], row["reserved"], row["turns"]) == (row["paid"], 0, 16)
    assert {
        spent["tier"] for spent in await query_rows(database, "select tier from spend where purpose = 'compaction'")
    } == {"cheap"}


@tool(side_effect=False)
async def note(text: str) -> Outcome:
    """Set the session's state."""
    return Outcome("noted", patch={"position": text})


async def test_a_session_asks_its_webhook_before_a_compaction(
    database: Database, settings: Settings, webhook: Webhook
) -> None:
    """B35."""

    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        if not request.get("stream"):
            return ScriptedReply.json(SUMMARY)
        is_first = request["messages"][-1]["content"] == "set position"
        return ScriptedReply.calling(("note", {"text": KEY})) if is_first else ScriptedReply(text="Noted. " * 30)

    desk, secret = {"desk": SecretStr(webhook.address.replace("json", "http"))}, "whsec"
    webhook.answer = {"instructions": "Keep every position."}
    async with ModelServer(create_reply) as server:
        own = {"openai_base_url": server.url, "webhooks": desk, "webhook_secret": SecretStr(secret)}
        configured = settings.model_copy(update=own)
        async with Consolidator([note], settings=configured, database=database) as agent:
            with pytest.raises(UsageError, match="CONSOLIDATOR_WEBHOOKS names desk"):
                await agent.open("coder:cli:ada", before_compact="another")
            options: SessionArguments = {"strategy": "compacted", "budget": 2000, "before_compact": "desk"}
            session = await agent.open("coder:cli:ada", model="gpt-4o", **options)
            for text in ("set position", *(f"Remember {n}. " * 20 for n in range(12))):
                assert "".join([delta async for delta in session.send(text)])
        summarised = [request for request in server.requests if not request.get("stream")]
        assert summarised[0]["messages"][1]["content"].endswith("Keep every position.")
        webhook.status = 500  # which stops nothing
        assert await compact_session(database, configured, session.id, budget=600, by_model=False)
        unsigned = settings.model_copy(update={"webhooks": desk})
        with pytest.raises(UsageError, match="CONSOLIDATOR_WEBHOOK_SECRET"):
            await open_session(database, unsigned, "coder:cli:bob", SessionRequest(before_compact="desk"))
    signature, body = webhook.signatures[0]
    moment, _, digest = signature.removeprefix("t=").partition(",v1=")
    assert digest == hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    message = webhook.messages[0]
    assert (message["event"], message["session_id"], message["agent_id"]) == ("before_compact", session.id, "coder")
    assert message["tokens_before"] > message["tokens_kept"] > 0
    assert list(message["state"]) == ["position"]
    assert KEY.encode() not in body


@pytest.mark.parametrize("by_model", [True, False], ids=["by a model", "a digest"])
@pytest.mark.parametrize("budget", [3000, 4000, 9000])
async def test_a_compaction_leaves_room_for_ten_turns_and_the_state_stays_in_every_context(
    database: Database, settings: Settings, budget: int, by_model: bool
) -> None:
    """B35, B36."""

    def create_reply(request: dict[str, Any]) -> ScriptedReply:
        if not request.get("stream"):
            return ScriptedReply.json({**SUMMARY, "summary": "They go on and on. " * 200}) if by_model else WRONG
        is_asked = "set position" in str(request["messages"][-1]["content"]).rpartition("</session-summary>")[2]
        return ScriptedReply.calling(("note", {"text": "x=3"})) if is_asked else ScriptedReply(text="Noted. " * 12)

    turn, compacted_in = 0, []

    async def after(_: Compaction) -> None:
        compacted_in.append(turn)

    async with ModelServer(create_reply) as server:
        agent_settings = settings.model_copy(update={"openai_base_url": server.url})
        async with Consolidator([note], settings=agent_settings, database=database) as agent:
            session = await agent.open("coder:cli:ada", model="gpt-4o", strategy="compacted", budget=budget)
            agent.harness.session_hooks[session.id] = CompactionHooks(after=after)
            for turn in range(45):
                text = f"Please go on with part {turn}. " * (budget // 185) if turn else "set position"
                assert "".join([delta async for delta in session.send(text)])
    assert len(compacted_in) >= 2
    assert all(later - earlier >= 10 for earlier, later in pairwise(compacted_in)), compacted_in
    streamed = [request["messages"] for request in server.requests if request.get("stream")]
    assert all('"x=3"' in str(messages).replace("\\", "") for messages in streamed[2:])
    assert "What came before, in short" in streamed[-1][0]["content"]
