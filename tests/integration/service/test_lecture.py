"""A session's log in the nine states of harness logs, and the row of the recovery table that a wake applies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consolidator import CallContext, Consolidator, tool
from consolidator.database import Database
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.runtime.turn import generation, sessions
from consolidator.runtime.turn.wake import find_row
from consolidator.service.log.export import export_sessions
from consolidator.service.log.lecture import read_lecture
from consolidator.service.sessions.following import acknowledge
from consolidator.store.sessions import sessions as store
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.runtime import KEY, RecordingChannel, Replies, open_agent
from tests.support import SimulatedKill

CALLS: list[tuple[str, bool]] = []  # ids of calls of the tool, and whether each was made again


@tool(idempotent=True)
def look(what: str, call: CallContext) -> str:
    """Look at something."""
    CALLS.append((call.call_id, call.is_retry))
    return f"a view of {what}"


def die(_: str) -> None:
    raise SimulatedKill


def answer(request: dict[str, Any]) -> ScriptedReply:
    """Call the tool, then answer."""
    if request["messages"][-1]["role"] in ("tool", "assistant"):  # the latter is its beginning, to be gone on with
        return ScriptedReply(text="one two three")
    return ScriptedReply.calling(("look", {"what": "it"}))


@pytest.mark.parametrize(
    ("place", "nth", "state", "action"),
    [
        ("after commit message", 1, "MESSAGE_RECEIVED", "step"),
        ("before model", 1, "LLM_CALLED", "step"),
        ("after tool", 1, "TOOL_INVOKED", "reissue_tool_or_fail"),
        ("after commit results", 1, "TOOL_RESULT", "step"),
        ("after commit chunk", 1, "GEN_CHUNK", "resume_or_replace"),
    ],
)
async def test_a_wake_names_the_row_of_the_recovery_table_that_it_applies(
    database: Database, monkeypatch: pytest.MonkeyPatch, place: str, nth: int, state: str, action: str
) -> None:
    """L9, L10, L11, L14, L15, L18, L19."""
    monkeypatch.setattr(generation, "BATCH_PIECES", 1)  # an answer's last piece is committed with its end
    channel = RecordingChannel()
    CALLS.clear()
    async with ModelServer(answers=answer) as server, open_agent(database, server, [look], channel=channel) as agent:
        session = await agent.open(KEY)
        with interrupt_at(nth, die, place), pytest.raises(SimulatedKill):
            await say(agent, session.id)
        row = await find_row(agent.harness, session.id)
        assert (row.state, row.action) == (state, action)
        [woken] = await agent.wake_all()
        assert woken.recovery == row
        assert channel.text == "one two three"
        ids, again = zip(*CALLS, strict=True)
        assert (len(set(ids)), again) == (1, (False, True) if state == "TOOL_INVOKED" else (False,))
        row = await find_row(agent.harness, session.id)
        assert (row.state, row.action) == ("GEN_SENT", "idle")
        await session.end()
        row = await find_row(agent.harness, session.id)
        assert (row.state, row.action) == ("SESSION_TERMINATED", "noop")


async def test_an_answer_that_its_channel_did_not_get_is_complete_and_not_sent(database: Database) -> None:
    """L6, L18."""
    channel = RecordingChannel(is_broken=True)
    async with ModelServer(answers=["one"]) as server, open_agent(database, server, channel=channel) as agent:
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "count")
        await agent.wake(session.id)
        row = await find_row(agent.harness, session.id)
        assert (row.state, row.action) == ("GEN_COMPLETE", "redeliver_if_unsent")
        assert "GEN_SENT" not in [line["type"] for line in await lecture(database, session.id)]
        await acknowledge(database, session.id, "page", str((await session.info()).head))
        assert await find_row(agent.harness, session.id) == row
        channel.is_broken = False
        await agent.wake(session.id)
        assert (await find_row(agent.harness, session.id)).state == "GEN_SENT"
        sent = (await lecture(database, session.id))[-1]
        assert channel.text == "one"
    assert (sent["type"], sent["payload"]["channel"], sent["payload"]["msg_id"] != "") == ("GEN_SENT", "test", True)


async def test_a_call_that_is_not_idempotent_is_never_made_again_and_waits_for_a_person(database: Database) -> None:
    """L12, L13."""
    made: list[str] = []

    @tool
    def pay(what: str) -> str:
        """Pay for something."""
        made.append(what)
        return "paid"

    replies: Replies = [ScriptedReply.calling(("pay", {"what": "it"})), "I do not know whether it was paid."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [pay]) as agent:
        session = await agent.open(KEY)
        with interrupt_at(1, die, "after tool"), pytest.raises(SimulatedKill):
            await say(agent, session.id)
        assert (await find_row(agent.harness, session.id)).state == "TOOL_INVOKED"
        await agent.wake_all()
        await agent.wake(session.id)
        [requested] = (await session.info()).attention.values()
    assert (made, requested["kind"]) == (["it"], "uncertain")
    assert "TOOL_FAILED_UNCERTAIN" in [line["type"] for line in await lecture(database, session.id)]
    assert "Do not repeat it" in str(server.requests[-1]["messages"][-1]["content"])


async def say(agent: Consolidator, session_id: str) -> None:
    await sessions.send_message(agent.database, session_id, "look")
    await agent.wake(session_id)


async def lecture(database: Database, session_id: str, **part: int) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in read_lecture(database, session_id, **part)]


@pytest.mark.parametrize(("prefill", "strategy"), [("none", "replace"), ("last_message", "resume")])
async def test_a_session_of_ours_has_all_nine_states_and_comes_back_from_its_lines(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefill: str, strategy: str
) -> None:
    """L4, L5, L6, L17."""
    monkeypatch.setattr(generation, "BATCH_PIECES", 1)
    channel = RecordingChannel()
    async with (
        ModelServer(answers=answer, prefill=prefill != "none") as server,
        open_agent(database, server, [look], channel=channel, prefill=prefill) as agent,
    ):
        session = await agent.open(KEY)
        await sessions.send_message(database, session.id, "look")
        with interrupt_at(2, die, "after commit chunk"), pytest.raises(SimulatedKill):
            await agent.wake(session.id)
        assert [line["type"] for line in await lecture(database, session.id)][-3:] == ["GEN_START", *["GEN_CHUNK"] * 2]
        await agent.wake(session.id)
        await session.end()
        lines = await lecture(database, session.id)
        shown = await lecture(database, session.id, last=6)
    kinds = [line["type"] for line in lines]
    chunks = ["GEN_CHUNK"] * 3
    cut = ["GEN_START", *chunks[:2], "GEN_RESUMED", "LLM_CALLED"] if strategy == "replace" else ["GEN_RESUMED"]
    assert kinds == [
        "MESSAGE_RECEIVED", "LLM_CALLED", "GEN_START", "GEN_COMPLETE", "TOOL_INVOKED", "TOOL_RESULT", "LLM_CALLED",
        *cut, "GEN_START", *chunks, "GEN_COMPLETE", "GEN_SENT",
        "SESSION_TERMINATED",
    ]  # fmt: skip
    assert len({line["id"] for line in lines}) == len(lines)
    resumed = lines[kinds.index("GEN_RESUMED")]["payload"]
    assert (resumed["strategy"], resumed["prior_seq"]) == (strategy, 2)
    deltas = [line["payload"]["delta"] for line in lines if line["type"] == "GEN_CHUNK"]
    assert deltas[-3:] == ["one ", "two ", "three"]
    assert [line["type"] for line in shown][-2:] == ["GEN_SENT", "SESSION_TERMINATED"]

    written: list[str] = []
    await export_sessions(database, "harness", written.append, session_names=[session.id])
    (tmp_path / "log.jsonl").write_text("".join(written))
    await import_sources(database, [ImportSource(tmp_path / "log.jsonl")])
    again: list[str] = []
    async with database.connection() as conn:
        copy = next(name for name in await store.list_ids(conn) if name != session.id)
    await export_sessions(database, "harness", again.append, session_names=[copy])
    assert [json.loads(line) for line in again] == [json.loads(line) for line in written]
