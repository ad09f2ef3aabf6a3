"""Tasks by the service: whose session it is decides who may, and the log says who did."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.tasks import finish_task, list_tasks, start_task
from consolidator.service.log.record import record_events
from consolidator.testing import ModelServer
from tests.runtime import KEY, open_agent
from tests.support import in_thread, run_here


async def test_only_who_reaches_the_session_and_may_write_changes_its_tasks(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
    phone = Viewer("phone", frozenset({"write", "read"}), peer="ines")
    started = await start_task(database, session.id, "Fix the build", viewer=phone)
    for reader, error in (
        (Viewer("tv", frozenset({"read"})), Forbidden),
        (Viewer("other", frozenset({"write"}), peer="mara"), NotFound),
    ):
        with pytest.raises(error):
            await finish_task(database, session.id, "success", viewer=reader)
    with pytest.raises(UsageError, match=r"'t0' is not open: task .* is open since"):
        await finish_task(database, session.id, "success", task_id="t0", viewer=phone)
    ended = await finish_task(database, session.id, "failure", note="red", viewer=Viewer(surface="web"))
    assert (started.started_by, ended.ended_by, ended.outcome, ended.note) == (
        "user:phone",
        "user:web",
        "failure",
        "red",
    )
    with pytest.raises(UsageError, match=f"task {started.id} has ended already: failure"):
        await finish_task(database, session.id, "success", task_id=started.id)
    assert await list_tasks(database, session.id, viewer=phone) == [replace(ended, steers=0)]


async def test_a_recorded_session_has_its_own_tasks(database: Database) -> None:
    recorded = await record_events(
        database, KEY, [{"type": "TaskStart", "data": {"task_id": "t1", "goal": "theirs\u0000"}}]
    )
    with pytest.raises(UsageError, match="was recorded by"):
        await start_task(database, recorded["session"], "ours")
    (task,) = await list_tasks(database, recorded["session"])
    assert (task.id, task.title, task.outcome) == ("t1", "theirs\u0000", None)


async def test_the_command_line_starts_lists_and_finishes(database: Database, environment: dict[str, str]) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
    started = await in_thread(run_here, "session", "task", session.id, "Fix the build", environment=environment)
    assert "is open: Fix the build" in started.stdout
    again = await in_thread(run_here, "session", "task", session.id, "Another", environment=environment, code=2)
    assert "finish it before another one starts" in " ".join(again.stderr.split())
    finished = await in_thread(
        run_here, "session", "task", "--finish", session.id, "success", "--note", "green", environment=environment
    )
    assert "has ended: success" in finished.stdout
    listed = await in_thread(run_here, "session", "task", session.id, "--json", environment=environment)
    (row,) = json.loads(listed.stdout)
    assert (row["title"], row["outcome"], row["note"], row["started_by"]) == (
        "Fix the build", "success", "green", "user:cli",
    )  # fmt: skip
