"""Tasks: what is in between names them, only one is open, and however they end, the log says how."""

from __future__ import annotations

import asyncio

import pytest

from consolidator import tool
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.session.tasks import start_task
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, Replies, describe_log, open_agent, read_log, send_and_collect


@tool(idempotent=True)
async def look(what: str) -> str:
    """Look at something."""
    return f"a view of {what}"


def ends(log: list[Event]) -> list[tuple[str, str | None]]:
    """Return the outcomes and notes of a log's tasks."""
    return [(event.data["outcome"], event.data.get("note")) for event in log if event.type is EventType.TASK_END]


async def test_everything_between_start_and_end_names_the_task(database: Database) -> None:
    """A13."""
    answers: Replies = ["Hi.", ScriptedReply.calling(("look", {"what": "a"}), ("look", {"what": "b"})), "Done.", "Bye."]
    async with ModelServer(answers=answers) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "hello")
        async with session.task("Look around") as task:
            await send_and_collect(session, "look")
        await send_and_collect(session, "bye")
        log = await read_log(database, session.id)
    kinds = [str(event.type) for event in log]
    start, end = kinds.index("TaskStart"), kinds.index("TaskEnd")
    assert [event.task_id for event in log] == [task.id if start <= place <= end else None for place in range(len(log))]
    assert kinds[start:end].count("ToolCall") == kinds[start:end].count("ToolResult") == 2
    assert {"UserMessage", "ThinkingStart", "AssistantResponse"} < set(kinds[start:end])
    assert log[start].data["goal"] == "Look around"
    assert ends(log) == [("success", None)]


async def test_a_block_ends_as_it_went(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        with pytest.raises(ValueError, match="no such file"):
            async with session.task("one"):
                raise ValueError("no such file")
        async with session.task("two") as task:
            task.fail("the tests are red")
        async with session.task("three") as task:
            task.cancel("not wanted any more")
        running = asyncio.Event()

        async def work() -> None:
            async with session.task("four"):
                running.set()
                await asyncio.Event().wait()

        worker = asyncio.create_task(work())
        await running.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        async with session.task("five"):
            await session.finish_task("failure", "known early")
        log = await read_log(database, session.id)
    assert ends(log) == [
        ("failure", "ValueError: no such file"),
        ("failure", "the tests are red"),
        ("cancelled", "not wanted any more"),
        ("cancelled", "CancelledError"),
        ("failure", "known early"),
    ]


async def test_a_second_task_is_refused_in_words(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        with pytest.raises(UsageError, match="no task is open"):
            await session.finish_task("success")
        async with session.task("Fix the build") as task:
            with pytest.raises(UsageError, match=rf"task {task.id} \('Fix the build'\) is open since .* finish it"):
                async with session.task("Another"):
                    pass
        with pytest.raises(UsageError, match="1 to 2,000 characters"):
            await start_task(database, session.id, "  ")
        await session.end()
        with pytest.raises(UsageError, match="has ended"):
            await start_task(database, session.id, "late")


async def test_a_session_that_ends_abandons_its_task(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        async with session.task("Fix the build"):
            await session.end()
            await session.end()
        log, row = await read_log(database, session.id), await session.info()
    assert describe_log(log) == ["SessionStart", "TaskStart", "TaskEnd", "SessionEnd"]
    assert ends(log) == [("abandoned", "the session ended while the task was open")]
    assert row.open_task is None


async def test_the_model_starts_and_finishes_tasks(database: Database) -> None:
    answers: Replies = [
        ScriptedReply.calling(("start_task", {"title": "Fix the build"}), ("start_task", {"title": "Another"})),
        ScriptedReply.calling(("look", {"what": "a"})),
        ScriptedReply.calling(("finish_task", {"outcome": "success", "note": "all green"})),
        ScriptedReply.calling(("finish_task", {"outcome": "failure"})),
        "Done.",
    ]
    async with (
        ModelServer(answers=answers) as server,
        open_agent(database, server, [look], builtin=["tasks"]) as agent,
    ):
        session = await agent.open(KEY)
        await send_and_collect(session, "fix it")
        log = await read_log(database, session.id)
    assert [event.principal for event in log if event.type in (EventType.TASK_START, EventType.TASK_END)] == [
        "agent",
        "agent",
    ]
    results = [(event.data["status"], event.data["content"]) for event in log if event.type is EventType.TOOL_RESULT]
    assert [status for status, _ in results] == ["ok", "error", "ok", "ok", "error"]
    assert "is open since" in results[1][1]
    assert results[3][1].endswith("has ended: success.")
    assert "no task is open" in results[4][1]
    kinds = [str(event.type) for event in log]
    assert kinds[kinds.index("TaskEnd") - 1] == "ToolResult"  # so that a night may read up to the task's end
    named = {event.task_id for event in log if event.tool_name == "look"}
    assert named == {log[kinds.index("TaskStart")].data["task_id"]}


async def test_the_open_task_is_known_to_another_process(database: Database) -> None:
    async with ModelServer(answers=["Hi."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        started = await start_task(database, session.id, "Fix the build")
        async with open_agent(database, server) as other:
            elsewhere = await other.session(session.id)
            assert await elsewhere.open_task() == started
            await send_and_collect(elsewhere, "hello")
            async with elsewhere.task("Fix the build", resume=True) as task:
                assert task.id == started.id
        log = await read_log(database, session.id)
    assert {event.task_id for event in log[1:]} == {started.id}
    assert ends(log) == [("success", None)]


async def test_of_two_starts_at_once_one_is_refused(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        outcomes = await asyncio.gather(
            *(start_task(database, session.id, f"task {number}") for number in range(6)), return_exceptions=True
        )
        log = await read_log(database, session.id)
    refused = [outcome for outcome in outcomes if isinstance(outcome, UsageError)]
    assert len(refused) == 5
    assert describe_log(log) == ["SessionStart", "TaskStart"]


async def test_an_append_that_does_not_know_of_a_change_is_numbered_again(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        task = await start_task(database, session.id, "Fix the build")
        message = NewEvent(EventType.USER_MESSAGE, {"text": "hello"})
        async with database.connection() as conn:
            for stale in (None, "another", task.id):
                appended = await events.append(conn, session.id, [message], now=database.clock.now(), open_task=stale)
                assert appended.open_task == task.id
            end = NewEvent(EventType.TASK_END, {"task_id": task.id, "outcome": "success"})
            await events.append(conn, session.id, [message, end, message], now=database.clock.now(), key="k")
        log, row = await read_log(database, session.id), await session.info()
    assert [event.task_id for event in log] == [None, *[task.id] * 6, None]
    assert row.open_task is None
