"""Checkouts of one repository are one project: of the owner's logs alone, and whenever it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.memory_filter import FactFilter, LessonFilter
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.lessons import list_lessons
from consolidator.service.memory.remember import forget
from consolidator.service.sessions.listing import list_sessions
from consolidator.settings import Settings
from tests.integration.conftest import OpenDatabase
from tests.integration.log.claude_logs import Line, import_logs, user_line, write_log
from tests.integration.service.test_hook_answers import ask, hook
from tests.nights import query_number, run_next_night
from tests.support import assert_invariants, read_memory

OLD, NEW, OTHER = "/elsewhere/shop", "/later/src/shop", "/elsewhere/till"
PRINTED = "To github.com:ann/shop.git\n   1f2a..3e4b  main -> main"
ANSWERS = {"rtk bun run test": ("error: unknown command: run", True), "bun run test": ("12 passed", False)}


def shell_lines(number: int, session: str, place: str, command: str, text: str, failed: bool = False) -> list[Line]:
    """A call of a shell, and its result."""
    call = {"type": "tool_use", "id": f"{session}-{number}", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed}
    called = {"role": "assistant", "id": f"m-{session}-{number}", "content": [call]}
    answered = {"role": "user", "content": [result]}
    return [
        user_line(number, "", session, type="assistant", cwd=place, message=called),
        user_line(number + 1, "", session, cwd=place, message=answered),
    ]


def session_lines(session: str, place: str, statement: str, *, pushes: bool = False) -> list[Line]:
    """A session that fails and then works in a directory below its own; perhaps it pushes."""
    begin = 60 * int(session[1:])
    lines = [user_line(begin, statement, session, cwd=place)]
    for number, (command, (text, failed)) in enumerate(ANSWERS.items()):
        lines += shell_lines(begin + 2 + 2 * number, session, place, f"cd {place}/web && {command}", text, failed)
    return lines + (shell_lines(begin + 8, session, place, "git push -u origin main", PRINTED) if pushes else [])


def story() -> list[list[list[Line]]]:
    """Sessions by the night: the repository of either checkout is known only after something was learned there."""
    return [
        [session_lines("a1", OLD, "We use pnpm."), session_lines("b1", NEW, "We use pnpm.")],
        [
            session_lines("a2", OLD, "We deploy on Fridays.", pushes=True),
            session_lines("b2", NEW, "We switched from pnpm to bun."),
        ],
        [session_lines("b3", NEW, "From now on, always use tabs for indentation.", pushes=True)],
        [session_lines("a3", OLD, "Never commit to main.")],
    ]


async def learn(database: Database, home: Path, nights: Iterable[Iterable[list[Line]]], settings: Settings) -> Any:
    """Import the sessions of each night, each from a file of its own, and learn from them."""
    assert isinstance(database.clock, FrozenClock)
    for number, logs in enumerate(nights):
        for lines in logs:
            write_log(home / str(number) / f"{lines[0]['sessionId']}.jsonl", lines)
        await import_logs(database, home / str(number))
        await run_next_night(database, database.clock, settings)
    await assert_invariants(database)
    return await read_memory(database)


async def test_i8_the_nights_in_which_a_repository_becomes_known_make_no_difference(
    fresh: OpenDatabase, settings: Settings, tmp_path: Path
) -> None:
    async with fresh() as database:
        at_once = await learn(database, tmp_path / "once", [chain(*story())], settings)
        sessions = (await list_sessions(database)).sessions
    async with fresh() as database:
        assert await learn(database, tmp_path / "nightly", story(), settings) == at_once
        assert {session.project for session in sessions} == {OLD}
        begun = await ask(database, hook("SessionStart", project=f"{NEW}/web", source="startup"))
        assert "`rtk bun …` always fails" in begun
        assert "deploy on Fridays" in begun
        assert "pnpm" not in begun
        missing: dict[str, Any] = {
            "tool_name": "Bash",
            "tool_input": {"command": "bun run test"},
            "cwd": f"{NEW}/.worktrees/fix",
        }
        missing["error"] = 'error: Script not found "test"'
        failed = hook("PostToolUseFailure", project=f"{NEW}/.worktrees/fix", **missing)
        assert "Run `bun run test` in `web/`." in await ask(database, failed)
        assert "Run" not in await ask(database, replace(failed, directory=f"{NEW}/.worktrees/fix/web"))
        assert NEW not in str([at_once[kind] for kind in ("lesson", "solution", "fact")])  # they hold in each


@pytest.mark.parametrize(("output", "failed"), [("Preparing worktree (new branch 'fix')", False), ("fatal: no", True)])
async def test_a_worktree_that_a_session_made_elsewhere_is_of_its_repository(
    database: Database, settings: Settings, tmp_path: Path, output: str, failed: bool
) -> None:
    made = "/elsewhere/wt/cart-fix"
    adding = shell_lines(75, "a1", OLD, "git worktree add -b fix ../wt/cart-fix main", output, failed)
    first = session_lines("a1", OLD, "We use pnpm.", pushes=True) + adding
    await learn(database, tmp_path, [[first, session_lines("b2", made, "Never commit to main.")]], settings)
    projects = {session.project for session in (await list_sessions(database)).sessions}
    assert projects == ({OLD, made} if failed else {OLD})


@pytest.mark.parametrize("place", [NEW, OTHER])
async def test_i16_nobody_elses_log_and_no_other_folder_joins_a_project(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path, place: str
) -> None:
    person = "eve" if place == NEW else None
    await learn(database, tmp_path, [[session_lines("a1", OLD, "We use pnpm.", pushes=True)]], settings)
    log = write_log(tmp_path / "other.jsonl", session_lines("e1", place, "We deploy with make ship.", pushes=True))
    await import_logs(database, log, person=person)
    await run_next_night(database, clock, settings)
    assert {session.project for session in (await list_sessions(database)).sessions} == {OLD, place}
    assert "make ship" not in await ask(database, hook("SessionStart", project=OLD, source="startup"))
    assert "pnpm" not in await ask(database, hook("SessionStart", project=place, source="startup"))


async def test_what_a_person_forgot_in_one_checkout_stays_forgotten_and_erasing_leaves_no_directory(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    first, *rest = story()
    first += [session_lines(name, NEW, "We switched from pnpm to bun.") for name in ("b4", "b5", "b6")]
    await learn(database, tmp_path / "first", [first], settings)
    lessons = await list_lessons(database, LessonFilter(project=NEW))
    await forget(database, next(row.id for row in lessons if row.kind == "always_fails"))
    await learn(database, tmp_path / "rest", rest, settings)
    assert {row.project for row in await list_lessons(database, LessonFilter(project=NEW))} == {OLD}
    assert not await list_lessons(database, LessonFilter(kinds=("always_fails",)))
    assert [fact.value for fact in await list_facts(database, FactFilter(project=NEW, query="bun"))] == ["bun"]
    for session in (await list_sessions(database)).sessions:
        await erase_sessions(database, settings, await plan_erasure(database, session=session.id), reason="asked")
    assert await query_number(database, "select count(*) from checkout") == 0
