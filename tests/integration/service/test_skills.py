"""What is exported as skills: procedures that work, called by what people asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.memory_filter import MemoryScope, ProcedureFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall
from consolidator.service.memory.skills import export_skills
from consolidator.settings import Settings
from consolidator.store.calls import procedures
from tests.nights import run_next_night
from tests.support import call_and_result, log_events, user_message

PROJECT = "/home/ada/work/shop"


async def add_procedures(database: Database, clock: FrozenClock) -> None:
    """Two sessions with a goal, and two procedures seen in them: the one of more worth mostly fails."""
    ids = []
    for number, goal in enumerate(("Hi! Release the shop, please. It is ready.", "release the shop")):
        await log_events(database, f"s{number}", [user_message(goal)], agent="coder", project=PROJECT)
        ids.append(f"s{number}")
    steps: list[dict[str, Any]] = [
        {"symbol": name, "tool": name, "repeats": False, "command": "", "arguments": []}
        for name in ("build", "check", "publish")
    ]
    body: dict[str, Any] = {
        "steps": steps,
        "success": {"alpha": 9.0, "beta": 1.0, "mean": 0.9, "basis": "calls"},
        "purpose": [],
        "evidence": [[name, 1, ""] for name in ids],
    }
    now = clock.now()
    works = ProcedureRow(
        "p_1", "coder", PROJECT, "build → check → publish", 3, 6.0, 2.0, body, now, now, None, None, "person"
    )
    failing = {**body, "success": {"alpha": 1.0, "beta": 3.0, "mean": 0.25, "basis": "calls"}}
    async with database.transaction() as conn:
        await procedures.save_each(
            conn, [works, replace(works, id="p_2", title="publish → check → build", worth=8.0, body=failing)]
        )


async def test_a_skill_is_called_by_the_goals_of_its_sessions_and_what_mostly_fails_is_left_out(
    database: Database, clock: FrozenClock, tmp_path: Path
) -> None:
    await add_procedures(database, clock)
    export = await export_skills(database, tmp_path, ProcedureFilter(agent="coder", project=PROJECT, limit=20))
    assert [procedure.id for procedure in export.failing] == ["p_2"]
    (file,) = export.files
    assert file.parent.name == "release-the-shop-please-1"
    text = file.read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---")[1])["description"] == (
        "Release the shop, please (build → check → publish). Use when somebody asks for something like "
        '"Release the shop, please", "Release the shop", in the project shop; learned from 3 sessions.'
    )
    assert "# Release the shop, please\n\nbuild → check → publish\n" in text
    assert "/home" not in text
    everything = await export_skills(
        database, tmp_path, ProcedureFilter(agent="coder", project=PROJECT, include_unworthy=True, limit=20)
    )
    assert len(everything.files) == 2


async def test_what_mostly_fails_comes_last(database: Database, clock: FrozenClock) -> None:
    await add_procedures(database, clock)
    assert [row.id for row in await list_procedures(database, ProcedureFilter(agent="coder"))] == ["p_1", "p_2"]
    told = (await recall(database, "publish, check and build", MemoryScope(agent="coder", project=PROJECT))).block
    assert "procedure:p_1" in told
    assert "procedure:p_2" not in told.partition("procedure:p_1")[0]


async def test_steps_that_are_always_the_same_are_listed_searched_recalled_and_exported(
    database: Database, clock: FrozenClock, settings: Settings, tmp_path: Path
) -> None:
    """A6."""
    steps: list[tuple[str, Any]] = [
        *(("shell", {"command": line}) for line in ("pg_dump ledger > x.sql", "gzip x.sql", "aws s3 ls s3://kept/")),
        ("post_message", {"channel": "#ops"}),
    ]
    for number in range(6):
        calls = [event for n, step in enumerate(steps) for event in call_and_result(f"c{n}", *step)]
        rounds = 1 + number % 3  # some sessions do it in a loop
        events = [user_message(f"Weekly backup of ledger {number}"), *calls]
        for again in range(1, rounds):
            events += [event for n, step in enumerate(steps) for event in call_and_result(f"c{n}-{again}", *step)]
        await log_events(database, f"s{number}", events, agent="cron")
        await run_next_night(database, clock, settings)
    (listed,) = await list_procedures(database)
    assert (listed.title, listed.support) == ("pg_dump → gzip → aws s3 ls → post_message", 6)
    assert [row.id for row in await list_procedures(database, ProcedureFilter(query="pg_dump"))] == [listed.id]
    for question in ("how is the weekly backup of the ledger done?", "which steps belong to pg_dump and gzip?"):
        assert f"[procedure:{listed.id[:10]}]" in (await recall(database, question, MemoryScope(agent="cron"))).block
    (file,) = (await export_skills(database, tmp_path, ProcedureFilter(agent="cron", project=None, limit=20))).files
    assert "1. shell: pg_dump" in file.read_text(encoding="utf-8")
