"""Checkpoints: labelled safe points with a delta, which a new session goes on from until they expire."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from consolidator import Outcome, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.viewer import Viewer
from consolidator.runtime.lineage import checkpoints as service
from consolidator.runtime.lineage.checkpoints import FOR_EVER
from consolidator.runtime.lineage.children import create_child
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, Replies, open_agent, read_log, send_and_collect
from tests.support import assert_invariants


@tool
async def note(text: str) -> Outcome:
    """Note something down."""
    return Outcome(f"noted {text}", patch={"note": text})


async def test_a_checkpoint_says_what_happened_since_the_one_before(database: Database) -> None:
    """B9."""
    replies: Replies = ["One.", ScriptedReply.calling(("note", {"text": "x"})), "Noted."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        first = await session.checkpoint("start", metadata={"by": "ines"})
        await send_and_collect(session, "note x")
        row = await session.info()
        second = await session.checkpoint("any \0 text \ud800")
        listed = await service.list_checkpoints(database, session.id)
    assert (first.seq, first.label, first.metadata, first.delta) == (4, "start", {"by": "ines"}, {})
    assert first.expires_at == first.created_at + timedelta(hours=24)
    assert second.delta["since"] == first.id
    assert listed[0].label == "any \0 text \ud800"
    assert (second.delta["events"], second.delta["messages"], second.delta["tools"]) == (row.head - 4, 3, {"note": 1})
    assert second.delta["input_tokens"] > 0
    assert Decimal(second.delta["cost"]) > 0
    assert [checkpoint.id for checkpoint in listed] == [second.id, first.id]
    assert [set(checkpoint.fold) for checkpoint in listed] == [{"totals"}] * 2


async def test_a_restore_goes_on_from_what_stood_at_the_point(database: Database) -> None:
    replies: Replies = [
        ScriptedReply.calling(("note", {"text": "x"})), "Noted x.",
        ScriptedReply.calling(("note", {"text": "y"})), "Noted y.", "Otherwise.",
    ]  # fmt: skip
    async with ModelServer(answers=replies) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY, system="Be kind.")
        await send_and_collect(session, "note x")
        await session.set_scratchpad("remember x")
        checkpoint = await session.checkpoint("x")
        await send_and_collect(session, "note y")
        before = await session.info()
        restored = await agent.restore(checkpoint.id, overrides=Overrides(model="gpt-4o", system="Be terse."))
        await send_and_collect(restored, "and now?")
        row, start = await restored.info(), (await read_log(database, restored.id))[0]
        assert await session.info() == before
    messages = server.requests[-1]["messages"]
    assert messages[0]["content"] == "Be terse."
    assert "note y" not in str(messages)
    assert "remember x" in str(messages[-1]["content"])
    assert (row.kind, row.parent_id, row.parent_seq, row.state) == ("resume", session.id, checkpoint.seq, {"note": "x"})
    assert (start.data["checkpoint"], start.data["kind"]) == (checkpoint.id, "resume")
    await assert_invariants(database)


async def test_a_checkpoint_expires_or_is_deleted_and_what_was_restored_stays(
    database: Database, clock: FrozenClock
) -> None:
    async with ModelServer(answers=["One.", "Two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        short = await session.checkpoint(time_to_live=timedelta(hours=1))
        long = await session.checkpoint(time_to_live=FOR_EVER)
        restored = await agent.restore(short.id)
        clock.advance(timedelta(hours=2))
        with pytest.raises(NotFound, match="they expire"):
            await agent.restore(short.id)
        assert [left.id for left in await service.list_checkpoints(database, session.id)] == [long.id]
        await service.delete_checkpoint(database, long.id)
        with pytest.raises(NotFound):
            await service.delete_checkpoint(database, long.id)
        assert await send_and_collect(restored, "second") == "Two."


async def test_a_checkpoint_is_on_a_safe_point_of_the_session(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("note", {"text": "x"})), "Noted."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [note]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "note x")
        assert (await session.checkpoint(at=2)).seq == 2
        for seq in (3, 4, 5):  # the model was called, it answered with a call, the call is open
            with pytest.raises(UsageError, match="nothing is open after event 2 and event 6"):
                await session.checkpoint(at=seq)
        with pytest.raises(UsageError, match="a label has"):
            await session.checkpoint("")


async def test_others_than_the_owner_reach_their_own_sessions_alone(database: Database) -> None:
    async with ModelServer(answers=["One."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        settings = agent.harness.settings
        checkpoint = await session.checkpoint()
        writes: frozenset[str] = frozenset({"read", "write"})
        ines = Viewer("laptop", writes, agent="main", peer="ines")  # type: ignore[arg-type]
        olaf = Viewer("phone", writes, agent="main", peer="olaf")  # type: ignore[arg-type]
        reader = Viewer("eyes", frozenset({"read"}))
        assert (await create_child(database, settings, session.id, viewer=ines)).peer == "ines"
        assert await service.list_checkpoints(database, session.id, viewer=ines)
        for refused, error in ((olaf, NotFound), (reader, Forbidden)):
            with pytest.raises(error):
                await create_child(database, settings, session.id, viewer=refused)
            with pytest.raises(error):
                await service.create_checkpoint(database, session.id, viewer=refused)
            with pytest.raises(error):
                await service.restore_checkpoint(database, settings, checkpoint.id, viewer=refused)
            with pytest.raises(error):
                await service.delete_checkpoint(database, checkpoint.id, viewer=refused)
        with pytest.raises(NotFound):
            await service.list_checkpoints(database, session.id, viewer=olaf)
