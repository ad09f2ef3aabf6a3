"""Reruns: a recorded session again, with its calls answered from the recording, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.errors import Forbidden, UsageError
from consolidator.models.payload import EventType
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.runtime.session.scratchpad import ScratchpadEdit, change_scratchpad
from consolidator.runtime.session.tasks import start_task
from consolidator.runtime.tools.tool import Tool
from consolidator.runtime.turn.wake import wake_all
from consolidator.service.sessions.bundles import stream_bundle
from consolidator.service.sessions.reruns import Rerun, compare_sessions, rerun_session
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, create_settings, open_agent, read_log, send_and_collect
from tests.support import assert_invariants

RAN: list[str] = []


@tool(side_effect=False)
async def look(what: str) -> str:
    """Look at something."""
    RAN.append(f"look {what}")
    return f"view {len(RAN)} of {what}"


@tool(needs_approval=True)
async def deploy(where: str) -> str:
    """Deploy."""
    RAN.append(f"deploy {where}")
    return f"deployed to {where}"


@tool
async def send_mail(to: str) -> str:
    """Send a mail."""
    RAN.append(f"mail {to}")
    return f"sent to {to}"


TOOLS: list[Tool] = [look, deploy, send_mail]
ANSWERS: list[str | ScriptedReply] = [
    ScriptedReply.calling(
        ("look", {"what": "a"}), ("look", {"what": "a"}), ("send_mail", {"to": "ines"}), text="Well. "
    ),
    "Both look fine, the mail is sent.",
    "The second answer.",
    ScriptedReply.calling(("look", {"what": "b"})),
    "The third answer.",
]
MESSAGES = ("look twice and write", "and now?", "once more")


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Forget what the tools did."""
    RAN.clear()


async def record(database: Database) -> str:
    """Drive a session with tools through three messages, and return its id."""
    async with ModelServer(answers=ANSWERS) as server, open_agent(database, server, TOOLS) as agent:
        session = await agent.open(KEY, system="Be brief.")
        for message in MESSAGES:
            await send_and_collect(session, message)
    return session.id


async def rerun(
    database: Database,
    settings: Settings,
    source: str,
    answers: Sequence[Any] = ANSWERS,
    *,
    requests: list[Any] | None = None,
    **options: Any,
) -> Rerun:
    """Run a session again against a model that says this."""
    async with ModelServer(answers=list(answers)) as server:
        configured = create_settings(server, settings.home)
        try:
            return await rerun_session(database, configured, source, **options)
        finally:
            if requests is not None:
                requests += server.requests


async def test_a_rerun_of_an_unchanged_session_differs_in_nothing(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    """P19."""
    session_id = await record(database)
    ran = list(RAN)
    done = await rerun(database, settings, session_id, tools=TOOLS)
    assert done.comparison.as_json()["differences"] == []
    assert done.comparison.is_empty
    assert done.comparison.left == done.comparison.right
    assert (done.answered, done.unanswered, done.finish_reason) == (4, 0, "stop")
    assert ran == RAN  # nothing was run again
    path = tmp_path / "bundle.jsonl"
    path.write_text("".join([line async for line in stream_bundle(database, session_id, exact=True)]))
    bundled = await rerun(database, settings, str(path), tools=TOOLS)
    assert bundled.comparison.is_empty
    assert bundled.comparison.left == bundled.comparison.right
    assert ran == RAN
    async with database.connection() as conn:
        child = await sessions.get(conn, bundled.session_id)
        copy = await sessions.get(conn, bundled.recorded_id)
        repeated = await sessions.get(conn, done.session_id)
    assert (child.simulated, copy.simulated, child.key, child.kind) == (True, True, None, "branch")
    assert copy.details["exported"]["conversation_id"] == session_id != copy.conversation_id
    for run, parent in ((child, copy.conversation_id), (repeated, session_id)):
        assert (run.conversation_id, run.config["parent_conversation_id"]) == (run.id, parent)
    assert (await compare_sessions(database, session_id, str(path))).is_empty
    await assert_invariants(database)


async def test_what_people_changed_between_messages_is_changed_again(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    def answer(request: dict[str, Any]) -> ScriptedReply:
        content = str(request["messages"])
        last = request["messages"][-1]
        if last["role"] == "user" and "finish" in str(last["content"]):
            return ScriptedReply.calling(("finish_task", {"outcome": "success"}))
        return ScriptedReply(text=f"I see {'A' * ('first note' in content)}{'B' * ('second note' in content)}.")

    async with ModelServer(answers=answer) as server, open_agent(database, server, builtin=["tasks"]) as agent:
        session = await agent.open(KEY, system="Be brief.")
        await send_and_collect(session, "one")
        await change_scratchpad(database, session.id, ScratchpadEdit("replace", "first note"))
        await start_task(database, session.id, "Fix the build")
        assert "A" in await send_and_collect(session, "two")
        await change_scratchpad(database, session.id, ScratchpadEdit("append", "second note"))
        assert "AB" in await send_and_collect(session, "finish it")
        await change_scratchpad(database, session.id, ScratchpadEdit("replace", ""))
        assert await send_and_collect(session, "four") == "I see ."
        fork = await session.fork()
        await send_and_collect(fork, "five")
        configured = create_settings(server, settings.home)
        path = tmp_path / "bundle.jsonl"
        path.write_text("".join([line async for line in stream_bundle(database, session.id)]))
        for source in (session.id, fork.id, str(path)):
            done = await rerun_session(database, configured, source)
            assert done.comparison.as_json()["differences"] == []
            assert done.comparison.left == done.comparison.right
        second = [event.seq for event in await read_log(database, session.id) if event.type is EventType.USER_MESSAGE][
            1
        ]
        assert (await rerun_session(database, configured, session.id, from_seq=second)).comparison.is_empty
    await assert_invariants(database)


async def test_a_steer_is_said_again_in_the_middle_of_its_turn(database: Database, settings: Settings) -> None:
    @tool(name="look")
    async def look_and_steer(what: str) -> str:
        """Look at something; a person sees it, and steers."""
        if what == "a":
            await session.steer("rather b")
        return f"view of {what}"

    def answer(request: dict[str, Any]) -> ScriptedReply:
        content = str(request["messages"])
        if "view of" not in content:
            return ScriptedReply.calling(("look", {"what": "a"}))
        if "rather b" in content and "view of b" not in content:
            return ScriptedReply.calling(("look", {"what": "b"}))
        return ScriptedReply(text="Done." if "rather b" in content else "Only a.")

    async with ModelServer(answers=answer) as server, open_agent(database, server, [look_and_steer]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "look")
        await send_and_collect(session, "bye")
        configured = create_settings(server, settings.home)
        done = await rerun_session(database, configured, session.id, tools=[look_and_steer])
    assert done.comparison.as_json()["differences"] == []
    assert done.comparison.left == done.comparison.right
    assert (done.answered, done.unanswered) == (2, 0)
    types = (EventType.USER_MESSAGE, EventType.TOOL_RESULT)
    told = [event.data for event in await read_log(database, done.session_id) if event.type in types]
    assert [(data.get("text"), data.get("mode")) for data in told[:2]] == [("rather b", "steer"), (None, None)]
    await assert_invariants(database)


async def test_a_follow_up_said_during_an_answer_differs_in_nothing(database: Database, settings: Settings) -> None:
    @tool(name="look")
    async def look_and_follow_up(what: str) -> str:
        """Look at something; a person sees it, and has more to say."""
        await session.follow_up("and then?")
        return f"view of {what}"

    def answer(request: dict[str, Any]) -> ScriptedReply:
        messages = request["messages"]
        if str(messages[-1]["content"]).startswith("look"):
            return ScriptedReply.calling(("look", {"what": "a"}))
        return ScriptedReply(text="Then b." if "and then?" in str(messages[-1]["content"]) else "Seen.")

    async with ModelServer(answers=answer) as server, open_agent(database, server, [look_and_follow_up]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "look")
        async for _ in session.resume():
            pass
        configured = create_settings(server, settings.home)
        done = await rerun_session(database, configured, session.id, tools=[look_and_follow_up])
    assert done.comparison.as_json()["differences"] == []
    assert done.comparison.left == done.comparison.right


async def test_a_rerun_begins_at_the_message_that_is_named(database: Database, settings: Settings) -> None:
    session_id = await record(database)
    asked = [event.seq for event in await read_log(database, session_id) if event.type is EventType.USER_MESSAGE]
    done = await rerun(database, settings, session_id, ANSWERS[2:], from_seq=asked[1], tools=TOOLS)
    assert (len(done.comparison.turns), done.comparison.is_empty) == (2, True)
    same = await rerun(database, settings, session_id, ANSWERS[2:], from_seq=asked[1] - 1, tools=TOOLS)
    assert (same.from_seq, same.comparison.is_empty, same.answered) == (asked[1], True, done.answered)


async def test_a_fork_is_run_again_from_what_it_answered_itself(database: Database, settings: Settings) -> None:
    def answer(request: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply(text=f"{request['model']} says {request['messages'][-1]['content']}")

    async with ModelServer(answers=answer) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        for text in ("one", "two"):
            await send_and_collect(session, text)
        asked = [event.seq for event in await read_log(database, session.id) if event.type is EventType.USER_MESSAGE]
        other = Overrides(model="gpt-4o")
        late = await session.fork(overrides=other)
        silent = await session.fork(overrides=other)
        await send_and_collect(late, "three")
        await send_and_collect(late, "four")
        again = await session.fork(asked[1], overrides=other)  # it answers the second message anew
        assert "".join([part async for part in again.resume()]) == "gpt-4o says two"
        configured = create_settings(server, settings.home)
        own = [event.seq for event in await read_log(database, late.id) if event.type is EventType.USER_MESSAGE]
        for fork, start, turns in ((late, own[0], 2), (again, asked[1], 1)):
            done = await rerun_session(database, configured, fork.id)
            assert done.comparison.as_json()["differences"] == []
            assert (done.from_seq, len(done.comparison.turns)) == (start, turns)
        reached_back = await rerun_session(database, configured, late.id, from_seq=asked[0])
        assert (len(reached_back.comparison.turns), reached_back.comparison.is_empty) == (4, False)
        with pytest.raises(UsageError, match="answered no person's message"):
            await rerun_session(database, configured, silent.id)


async def test_another_prompt_model_and_answer_show_in_the_difference(database: Database, settings: Settings) -> None:
    session_id = await record(database)
    ran = list(RAN)
    requests: list[Any] = []
    answers = [
        ScriptedReply.calling(("look", {"what": "a"}), ("look", {"what": "c"}), ("deploy", {"where": "here"})),
        "I deployed it.",
        *ANSWERS[2:],
    ]
    overrides = Overrides(model="other", system="Be bold.")
    done = await rerun(database, settings, session_id, answers, requests=requests, overrides=overrides, tools=TOOLS)
    assert requests[0]["model"] == "other"
    assert requests[0]["messages"][0]["content"].startswith("Be bold.")
    assert ran == RAN  # look has no side effect, but was not asked for live
    (turn,) = done.comparison.differences()
    assert turn.status == "changed"
    shown = [
        (call.status, call.left and call.left.compared[:2], call.right and call.right.compared[:2])
        for call in turn.calls
    ]
    assert shown == [
        ("same", ("look", '{"what":"a"}'), ("look", '{"what":"a"}')),
        ("changed", ("look", '{"what":"a"}'), ("look", '{"what":"c"}')),
        ("changed", ("send_mail", '{"to":"ines"}'), ("deploy", '{"where":"here"}')),
    ]
    assert (done.answered, done.unanswered) == (2, 2)
    assert turn.calls[2].right is not None
    assert turn.calls[2].right.result.startswith("Dry run: deploy was not run")


async def test_live_tools_are_those_without_side_effects(database: Database, settings: Settings) -> None:
    session_id = await record(database)
    RAN.clear()
    answers = [ScriptedReply.calling(("look", {"what": "z"}), ("send_mail", {"to": "z"})), "Done.", "Two.", "Three."]
    await rerun(database, settings, session_id, answers, tools=TOOLS, live_tools=True)
    assert RAN == ["look z"]


async def test_a_recorded_result_is_used_as_often_as_it_was_recorded(database: Database, settings: Settings) -> None:
    session_id = await record(database)
    call = ("look", {"what": "a"})
    answers = [ScriptedReply.calling(call, call, call), "Done.", "Two.", "Three."]
    done = await rerun(database, settings, session_id, answers)
    results = [
        event.data["content"]
        for event in await read_log(database, done.session_id)
        if event.type is EventType.TOOL_RESULT
    ]
    assert results[:2] == ["view 1 of a", "view 2 of a"]
    assert results[2].startswith("Dry run: look was not run")


async def test_a_rerun_is_nobody_elses_to_drive_and_needs_the_right_to_write(
    database: Database, settings: Settings
) -> None:
    session_id = await record(database)
    with pytest.raises(Forbidden):
        await rerun(database, settings, session_id, viewer=Viewer("reader", frozenset({"read"})))
    done = await rerun(database, settings, session_id, [ScriptedReply.failed(400)])
    assert done.finish_reason == "error"
    async with ModelServer() as server, open_agent(database, server) as agent:
        async with database.connection() as conn:
            await conn.execute("update session set pending = true where id = %s", [done.session_id])
        assert await wake_all(agent.harness) == []
