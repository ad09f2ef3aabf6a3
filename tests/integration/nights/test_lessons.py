"""Lessons: of a person's project, over all agents; the same however nights cut the log; gone with what they rest on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation import learning as window_learning
from consolidator.jobs.merging import agent_merge
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.memory.calls.call_pairing import CallPairer
from consolidator.memory.lessons import learning
from consolidator.memory.lessons.lesson import WORKED_CALL, Lesson
from consolidator.memory.lessons.trace import Trace, TracedCall
from consolidator.models.event import Event
from consolidator.models.memory_filter import ALL_AGENTS, LessonFilter
from consolidator.models.payload import EventType
from consolidator.models.viewer import Viewer
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.lessons import list_commands, list_friction, list_lessons
from consolidator.service.memory.remember import forget
from consolidator.settings import Settings
from consolidator.store.calls import scopes
from consolidator.store.memory.derived import load_published
from tests.integration.conftest import OpenDatabase
from tests.nights import query_number, run_next_night
from tests.support import call_and_result, log_events, read_memory, user_message

SHOP = "/work/shop"


class CommandFold:
    """A trace of the commands of a session, with their seqs."""

    def __init__(self, redact: Callable[[str], str], packed: bytes, pairer: CallPairer) -> None:
        self._commands = json.loads(packed or b"[]")

    def feed(self, event: Event) -> None:
        if event.type is EventType.TOOL_CALL:
            self._commands.append([event.data["arguments"]["command"], event.seq])

    def pack(self) -> bytes:
        return json.dumps(self._commands).encode()


def unpack(session_id: str, root_id: str, agent: str, packed: bytes) -> Trace:
    calls = (TracedCall(seq, "shell", True, line=command) for command, seq in json.loads(packed))
    return Trace(session_id, root_id, agent, tuple(calls))


def learn(traces: Sequence[Trace]) -> list[Lesson]:
    """A lesson for each command: in how many roots, by which agents, where."""
    roots: dict[str, set[str]] = {}
    evidence: dict[str, list[tuple[str, int]]] = {}
    agents: dict[str, set[str]] = {}
    for trace in traces:
        for call in trace.calls:
            roots.setdefault(call.line, set()).add(trace.root_id)
            agents.setdefault(call.line, set()).add(trace.agent)
            evidence.setdefault(call.line, []).append((trace.session_id, call.seq))
    return [
        Lesson(
            kind="command" if command != "rtk bun test" else "always_fails",
            key=command,
            line=f"`{command}` (in {len(roots[command])} sessions)",
            score=float(len(roots[command])),
            sessions=len(roots[command]),
            failures=3 * (command == "rtk bun test"),
            agents=tuple(sorted(agents[command])),
            evidence=tuple(sorted(evidence[command])),
        )
        for command in sorted(roots)
    ]


@pytest.fixture(autouse=True)
def commands_as_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn a lesson for each command."""
    monkeypatch.setattr(window_learning, "TraceFold", CommandFold)
    monkeypatch.setattr(Trace, "unpack", staticmethod(unpack))
    monkeypatch.setattr(learning, "learn_lessons", learn)


def running(*commands: str) -> list[Any]:
    calls = [call_and_result(f"c{n}", "Bash", {"command": command}) for n, command in enumerate(commands)]
    return [user_message("go"), *(event for pair in calls for event in pair)]


async def log_runs(database: Database, name: str, *commands: str, agent: str = "claude-code", **columns: Any) -> None:
    await log_events(database, name, running(*commands), agent=agent, **{"project": SHOP, **columns})


async def lines(database: Database, **filters: Any) -> list[str]:
    return [row.line for row in await list_lessons(database, LessonFilter(**filters))]


async def test_what_one_agent_learned_is_a_lesson_for_all_of_the_person_and_for_nobody_else(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_runs(database, "a", "make test")
    await log_runs(database, "b", "make test", "make lint", agent="codex")
    await log_runs(database, "c", "make test", peer="ada")
    await log_runs(database, "d", "make test", project="/work/zoo")
    await log_runs(database, "e", "make test", simulated=True)
    report = await run_next_night(database, clock, settings)
    assert "lessons: " in json.dumps(report["memory"])
    assert await lines(database, project=SHOP) == ["`make test` (in 2 sessions)", "`make lint` (in 1 sessions)"]
    assert await lines(database, project=SHOP, peer="ada") == ["`make test` (in 1 sessions)"]
    assert await lines(database, project="zoo") == ["`make test` (in 1 sessions)"]
    assert await lines(database, agent="codex", project=SHOP, query="LINT") == ["`make lint` (in 1 sessions)"]
    assert await list_lessons(database, viewer=Viewer(peer="bob")) == []
    of_codex = await list_lessons(database, viewer=Viewer(agent="codex"))
    assert [row.key for row in of_codex] == ["make lint"]  # nothing that another agent's sessions had a part in
    with pytest.raises(NotFound):
        await explain(database, of_codex[0].id, viewer=Viewer(peer="ada"))
    explanation = await explain(database, of_codex[0].id[:6])
    assert explanation["title"] == "`make lint` (in 1 sessions)"
    assert [(proof["session_id"], proof["quote"]) for proof in explanation["evidence"]] == [("b", "make lint")]


async def test_friction_is_what_failed_in_several_sessions(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_runs(database, f"s{number}", "rtk bun test", "bun test")
    await run_next_night(database, clock, settings)
    assert sorted(row.key for row in await list_commands(database)) == ["bun test", "rtk bun test"]
    assert [row.key for row in await list_friction(database)] == ["rtk bun test"]


async def test_friction_has_errors_that_no_lesson_is_about(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        fails = call_and_result(f"a{number}", "Bash", {"command": "make pictures"}, "Error: the disk is full", "error")
        once = call_and_result(f"b{number}", "Bash", {"command": "make films"}, f"Error: no film {number}", "error")
        await log_events(database, f"s{number}", [*fails, *(once if not number else [])], project=SHOP)
    await run_next_night(database, clock, settings)
    [row] = await list_friction(database, LessonFilter(project=SHOP))
    assert "the disk is full" in row.line
    assert (row.body["sessions"], row.body["failures"], row.body["successes"]) == (3, 3, 0)


async def test_nights_teach_the_same_lessons_as_one_batch(
    fresh: OpenDatabase, clock: FrozenClock, settings: Settings
) -> None:
    """I8: whatever the nights, and whichever agent is merged first."""
    days = [
        ("a", "claude-code", ["make test", "make lint"]),
        ("b", "codex", ["make test"]),
        ("a", "claude-code", ["make build"]),
        ("c", "codex", ["make lint", "make lint"]),
    ]
    memories = []
    for nights in ({0, 1, 2, 3}, {3}, {1, 3}):
        async with fresh() as database:
            for number, (name, agent, commands) in enumerate(days):
                await log_runs(database, name, *commands, agent=agent)
                if number in nights:
                    await run_next_night(database, database.clock, settings)  # type: ignore[arg-type]
            memories.append((await read_memory(database))["lesson"])
    assert len(memories[0]) == 3
    assert memories[0] == memories[1] == memories[2]


async def test_a_lesson_goes_with_the_sessions_that_showed_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_runs(database, "a", "make test", "make secret")
    await log_runs(database, "b", "make test", agent="codex")
    await run_next_night(database, clock, settings)
    plan = await plan_erasure(database, session="a")
    await erase_sessions(database, settings, plan, reason="asked")
    assert await lines(database) == ["`make test` (in 1 sessions)"]
    assert await query_number(database, "select count(*) from lesson where lesson::text like '%%secret%%'") == 0
    assert await query_number(database, "select count(*) from lesson where lesson::text like '%%\"a\"%%'") == 0


async def test_what_a_person_forgets_is_not_learned_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_runs(database, "a", "make test", "make lint")
    await run_next_night(database, clock, settings)
    (row,) = await list_lessons(database, LessonFilter(query="lint"))
    forgotten = await forget(database, row.id)
    assert forgotten.statement == row.line
    await log_runs(database, "b", "make test", "make lint")
    await run_next_night(database, clock, settings)
    assert await lines(database) == ["`make test` (in 2 sessions)"]
    with pytest.raises(NotFound):
        await explain(database, row.id)
    assert await query_number(database, "select count(*) from lesson where line like '%%lint%%'") == 0


async def test_a_lesson_that_is_learned_no_more_is_retired(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_runs(database, "a", "make test")
    await run_next_night(database, clock, settings)
    monkeypatch.setattr(learning, "learn_lessons", lambda traces: [])
    await log_runs(database, "b", "make test", agent="codex")
    async with database.transaction() as conn:
        await scopes.touch(conn, await scopes.list_of_sessions(conn, ["a"]))
        changes = await merge_agent(conn, ALL_AGENTS, run_id="night", now=database.clock.now(), settings=settings)
    assert changes.counts["lessons"] == Counter(retired=1)
    assert await lines(database) == []


async def test_calls_that_worked_are_counted_among_no_lessons(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Lesson(WORKED_CALL, "make test", "`make test` worked 2 of 2 times.", 0.0, 1, match={"calls": []})
    monkeypatch.setattr(agent_merge, "learn_worked_calls", lambda history, failing: [call])
    await log_runs(database, "a", "make test")
    await run_next_night(database, clock, settings)
    async with database.transaction() as conn:
        published = (await load_published(conn))["lessons"].values()
        assert [item.line for item in published] == [f"{SHOP}: `make test` (in 1 sessions)"]
        monkeypatch.setattr(agent_merge, "learn_worked_calls", lambda history, failing: [])
        await scopes.touch(conn, await scopes.list_of_sessions(conn, ["a"]))
        changes = await merge_agent(conn, ALL_AGENTS, run_id="night", now=database.clock.now(), settings=settings)
    assert changes.counts["lessons"] == Counter()
    assert await query_number(database, "select count(*) from lesson where kind = 'call' and retired_at is null") == 0
