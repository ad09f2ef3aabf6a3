"""A fork reads its parent's log as its own past, from any safe point, and leaves the parent as it is."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator import Outcome, tool
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of
from consolidator.runtime.lineage.checkpoints import restore_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.rerun.branches import BranchRequest, create_branch
from consolidator.runtime.rerun.replay import replay
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, Replies, describe_log, open_agent, read_log, send_and_collect
from tests.support import assert_invariants


@tool
async def note(text: str) -> Outcome:
    """Note something down."""
    return Outcome(f"noted {text}", patch={"note": text})


def transcript(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a model was shown, as role and text."""
    return [(message["role"], message["content"]) for message in request["messages"]]


async def test_a_fork_goes_on_from_its_parents_log_and_leaves_it_as_it_is(database: Database) -> None:
    """L23, P17."""
    async with ModelServer(answers=["One.", "Two.", "Otherwise."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        await send_and_collect(session, "second")
        before = await session.info()
        fork = await session.fork(at=4)
        assert await send_and_collect(fork, "another way") == "Otherwise."
        row = await fork.info()
        history = [(message.seq, message.text) for message in await fork.history()]
        assert await session.info() == before
        words = describe_log(await read_log(database, fork.id))
        start = (await read_log(database, fork.id))[0]
    assert transcript(server.requests[-1]) == [("user", "first"), ("assistant", "One."), ("user", "another way")]
    assert words == ["SessionStart", "user: another way", "ThinkingStart", "model: Otherwise."]
    assert history == [(2, "first"), (4, "One."), (6, "another way"), (8, "Otherwise.")]
    assert (row.kind, row.parent_id, row.parent_seq, row.base_seq, row.head) == ("fork", session.id, 4, 4, 8)
    assert (row.root_id, row.key, row.current) == (session.id, KEY, False)
    assert (row.conversation_id, row.config["parent_conversation_id"]) == (fork.id, session.id)
    assert (row.settled_to, row.pending, row.turns) == (8, False, 1)
    assert start.data["kind"] == "fork"
    assert (start.data["parent"], start.data["point"], start.data["overrides"]) == (session.id, 4, {})
    assert role_of(start.principal) is Role.OPERATOR
    await assert_invariants(database)


async def test_a_fork_at_a_message_has_it_to_answer(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two.", "Other two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        await send_and_collect(session, "second")
        fork = await session.fork(at=5)
        assert (await fork.info()).pending
        assert [piece async for piece in fork.resume()] == ["Other two."]
        assert not (await fork.info()).pending
    assert transcript(server.requests[-1]) == [("user", "first"), ("assistant", "One."), ("user", "second")]


async def test_a_fork_may_be_forked_again_and_at_an_ancestors_event(database: Database) -> None:
    answers: Replies = ["One.", "Two.", "Three.", "Four.", "Five."]
    async with ModelServer(answers=answers) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "a")
        fork = await session.fork()
        await send_and_collect(fork, "b")
        again = await fork.fork()
        await send_and_collect(again, "c")
        assert [text for _, text in transcript(server.requests[-1])] == ["a", "One.", "b", "Two.", "c"]
        early = await again.fork(at=4)
        row = await early.info()
        assert (row.parent_id, row.root_id, row.base_seq) == (session.id, session.id, 4)
        await send_and_collect(early, "d")
        assert [text for _, text in transcript(server.requests[-1])] == ["a", "One.", "d"]
    await assert_invariants(database)


async def test_an_unsafe_point_is_refused_and_the_nearest_safe_ones_are_named(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("note", {"text": "x"})), "Done."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "note x")
        log = await read_log(database, session.id)
        call = next(event.seq for event in log if event.type is EventType.TOOL_CALL)
        result = next(event.seq for event in log if event.type is EventType.TOOL_RESULT)
        with pytest.raises(UsageError, match=f"nothing is open after event 2 and event {result}"):
            await session.fork(at=call)
        with pytest.raises(UsageError, match="has no event 99"):
            await session.fork(at=99)
        with pytest.raises(UsageError, match="has no event 0"):
            await session.fork(at=0)
        fork = await session.fork(at=result)  # the turn goes on with the result
        assert (await fork.info()).pending


async def test_what_a_child_inherits_is_what_stood_at_the_point(database: Database) -> None:
    replies: Replies = [
        ScriptedReply.calling(("note", {"text": "x"})), "Done x.",
        ScriptedReply.calling(("note", {"text": "y"})), "Done y.",
    ]  # fmt: skip
    async with ModelServer(answers=replies) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "note x")
        await session.set_scratchpad("remember x")
        point = (await session.info()).head
        await send_and_collect(session, "note y")
        await session.set_scratchpad("remember y")
        assert (await (await session.fork()).info()).state == {"note": "y"}
        assert (await (await session.fork(at=2)).info()).state == {}
        early = await session.fork(at=point)
        assert (await early.info()).state == {"note": "x"}
        await send_and_collect(early, "and now?")
    shown = str(server.requests[-1]["messages"])
    assert "remember x" in shown
    assert "remember y" not in shown


async def test_overrides_change_the_child_alone(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two.", "Three."]) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY, system="You are terse.", max_cost_usd="1")
        await send_and_collect(session, "first")
        overrides = Overrides(
            model="gpt-4o", prompt_patch={"append": "Be kind.", "replace": {"terse": "verbose"}}, tools=[]
        )
        fork = await session.fork(overrides=overrides)
        await send_and_collect(fork, "second")
        request = server.requests[-1]
        assert request["messages"][0]["content"] == "You are verbose.\n\nBe kind."
        assert request["model"] == "gpt-4o"
        assert "tools" not in request
        start = (await read_log(database, fork.id))[0]
        assert start.data["overrides"] == overrides.named()
        await send_and_collect(session, "third")
        assert server.requests[-1]["messages"][0]["content"] == "You are terse."
        assert server.requests[-1]["tools"]
        with pytest.raises(UsageError, match="does not contain"):
            await session.fork(overrides=Overrides(prompt_patch={"replace": {"absent": ""}}))


async def test_tools_that_nobody_would_drive_it_with_are_refused(database: Database) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    wrong, right = Overrides(tools=["nope"]), Overrides(tools=["look"])
    async with ModelServer(answers=["Hi."]) as server:
        async with open_agent(database, server, [look]) as agent:
            session = await agent.open(KEY)
            point = await session.checkpoint()
            for refused in (session.fork(overrides=wrong), session.branch(overrides=wrong)):
                with pytest.raises(UsageError, match="no tools nope"):
                    await refused
            with pytest.raises(UsageError, match="no tools nope"):
                await agent.restore(point.id, overrides=wrong)
            assert (await (await session.fork(overrides=right)).info()).config["tools"] == ["look"]
            settings = agent.harness.settings
        for driver_tools, overrides, words in (
            (None, wrong, "opened without the tools nope"),
            (["publish"], right, "no tools look"),
        ):
            with pytest.raises(UsageError, match=words):
                await create_child(
                    database,
                    settings,
                    session.id,
                    ChildRequest(kind="fork", overrides=overrides),
                    driver_tools=driver_tools,
                )
            with pytest.raises(UsageError, match=words):
                await restore_checkpoint(database, settings, point.id, overrides=overrides, driver_tools=driver_tools)
            request = BranchRequest(kind="sim", overrides=overrides)
            with pytest.raises(UsageError, match=words):
                await create_branch(database, settings, session.id, request, driver_tools=driver_tools)
        await create_child(
            database, settings, session.id, ChildRequest(kind="fork", overrides=wrong), driver_tools=["nope"]
        )
        await create_child(database, settings, session.id, ChildRequest(kind="fork", overrides=right))


async def test_a_replay_of_a_fork_begins_with_what_people_saw_before(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        fork = await session.fork()
        await send_and_collect(fork, "second")
    async with database.connection() as conn:
        shown = [(item.kind, item.text) async for item in replay(conn, fork.id)]
    assert shown == [("user", "first"), ("piece", "One."), ("user", "second"), ("piece", "Two.")]


async def test_a_fork_may_become_what_its_key_names(database: Database) -> None:
    async with ModelServer(answers=["One."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        fork = await session.fork(is_current=True)
        assert (await agent.open(KEY)).id == fork.id
