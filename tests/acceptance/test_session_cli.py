"""consolidator context, compact, replay, cost, and the decisions on calls, for a person and for a program."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from consolidator import tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.session.budget import Usage, plan_reserve, reserve_spend, settle_spend
from consolidator.runtime.turn import sessions
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests.acceptance.command_line import CommandLine
from tests.conftest import NOON
from tests.runtime import describe_log, open_agent, read_log
from tests.support import SimulatedKill, assistant_response, call_and_result, later, log_events, run_job, user_message


def prepare(dsn: str, settings: Settings) -> None:
    """Log a session with a paid call, after a night that learned from another session."""

    async def work() -> None:
        clock = FrozenClock(NOON)
        database = Database(dsn, clock)
        try:
            await log_events(database, "early", [user_message("My favourite editor is Helix.")], peer="ada")
            clock.set(later(NOON, hours=1))
            await run_job(database, settings)
            talk = [
                event
                for n in range(20)
                for event in (user_message(f"Question {n}? " * 9), assistant_response(f"Yes {n}. " * 9))
            ]
            last = [
                user_message("Which editor do I like?"),
                *call_and_result("c1", "read", {"path": "a"}, "x"),
                assistant_response("Helix.\x1b[2J"),
            ]
            notes = NewEvent(EventType.POLICY_DECISION, {"decision": "scratchpad_set", "text": "be kind"})
            await log_events(database, "late", [*talk, notes, *last], peer="ada", model="gpt-4o")
            async with database.transaction() as conn:
                await conn.execute("update session set max_cost = 1 where id = 'late'")
                reserve = plan_reserve("late", model="gpt-4o", input_tokens=100, now=clock.now())
                call = await reserve_spend(conn, reserve)
                await settle_spend(conn, call, Usage(100, 40, 10), now=clock.now())
        finally:
            await database.close()

    asyncio.run(work())


@pytest.fixture
def prepared_cli(cli: CommandLine, dsn: str, settings: Settings) -> CommandLine:
    """The command line on a prepared database."""
    prepare(dsn, settings)
    return cli


def run_json(prepared_cli: CommandLine, *words: str) -> Any:
    """Run a command with --json and return what it prints."""
    code, out, err = prepared_cli(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_context_shows_what_the_model_would_see_and_what_it_takes(prepared_cli: CommandLine) -> None:
    shown = run_json(prepared_cli, "session", "context", "late", "--strategy", "full")
    assert shown["tokens"] == sum(shown["parts"].values())
    assert set(shown["parts"]) == {"recalled", "transcript", "working memory"}
    assert "Helix" in shown["messages"][0]["content"].partition("</recalled-memory>")[0]
    assert "recalled" not in run_json(prepared_cli, "session", "context", "late", "--no-memory")["parts"]
    assert shown["messages"][-1]["content"].endswith("be kind\n</working_memory>")
    code, out, _ = prepared_cli("session", "context", "late", "--full")
    assert code == 0
    assert "transcript\t" in out
    assert "\x1b[2J" not in out
    assert prepared_cli("session", "context", "nobody")[0] == 3


def test_compact_sums_up_and_the_log_keeps_all(prepared_cli: CommandLine) -> None:
    before = run_json(prepared_cli, "session", "context", "late", "--strategy", "compacted", "--no-memory")
    done = run_json(prepared_cli, "session", "compact", "late", "--budget", "1500", "--no-model")
    assert done["by"] == "digest"
    assert done["tokens_after"] < done["tokens_before"]
    after = run_json(prepared_cli, "session", "context", "late", "--strategy", "compacted", "--no-memory")
    assert after["first_seq"] >= before["first_seq"]
    assert "The user said:" in after["messages"][0]["content"]
    assert "nothing to compact" in prepared_cli("session", "compact", "late", "--budget", "1500", "--no-model")[1]
    assert run_json(prepared_cli, "session", "compact", "late", "--budget", "1500", "--no-model") is None
    [kept] = run_json(prepared_cli, "session", "compact", "late", "--history")
    assert {name: kept[name] for name in ("seq", "kept_from", "tokens_after")} == {
        name: done[name] for name in ("seq", "kept_from", "tokens_after")
    }
    assert (kept["by"], kept["trigger"]) == ("digest", "request")
    assert after["compactions"] == 1
    assert (
        "Compacted once: `consolidator session compact late --history`"
        in prepared_cli("session", "context", "late", "--no-memory")[1]
    )
    assert "digest\trequest" in prepared_cli("session", "compact", "late", "--history")[1]


def test_replay_shows_the_conversation_again(prepared_cli: CommandLine) -> None:
    code, out, _ = prepared_cli("session", "events", "late", "--as", "replay")
    assert code == 0
    assert "> Which editor do I like?\nHelix." in out
    assert "\x1b[2J" not in out
    lines = [
        json.loads(line)
        for line in prepared_cli("session", "events", "late", "--as", "replay", "--json")[1].splitlines()
    ]
    assert lines[-1]["text"] == "Helix.\x1b[2J"
    assert [line["kind"] for line in lines[-2:]] == ["user", "piece"]


def test_cost_tells_tokens_money_and_what_is_left(prepared_cli: CommandLine) -> None:
    shown = run_json(prepared_cli, "cost")
    (line,) = shown["costs"]
    assert (line["name"], line["calls"], line["input_tokens"], line["cached_tokens"]) == ("late", 1, 100, 40)
    assert Decimal(line["cost"]) > 0
    code, out, _ = prepared_cli("cost", "--by", "turn", "--session", "late")
    assert code == 0
    assert "late:1\t1\t100\t40\t10" in out
    assert "cap 1.0000:" in out
    assert prepared_cli("cost", "--by", "weather")[0] == 2
    assert run_json(prepared_cli, "cost", "--since", "2030-01-01")["costs"] == []


@tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool(needs_approval=True)
def deploy(where: str) -> str:
    """Deploy."""
    return f"deployed to {where}"


def die(_: str) -> None:
    raise SimulatedKill


async def leave_waiting_calls(dsn: str) -> str:
    """Leave a session with a call that may have run and two that wait for approval; return its id."""
    database = Database(dsn, FrozenClock(NOON))
    calls = [("send_mail", {"to": "ines"}), ("deploy", {"where": "north"}), ("deploy", {"where": "south"})]
    try:
        async with (
            ModelServer(answers=[ScriptedReply.calling(*calls)]) as server,
            open_agent(database, server, [send_mail, deploy]) as agent,
        ):
            session = await agent.open("main:test:ines")
            await sessions.send_message(database, session.id, "ship it")
            with interrupt_at(1, die, "after tool"), pytest.raises(SimulatedKill):
                await agent.wake(session.id)
            assert (await agent.wake(session.id)).finish_reason == "approval"
            return session.id
    finally:
        await database.close()


async def describe_session(dsn: str, session: str) -> list[str]:
    """Return a session's log as short lines."""
    database = Database(dsn, FrozenClock(NOON))
    try:
        return describe_log(await read_log(database, session))
    finally:
        await database.close()


def test_a_person_sees_what_waits_for_them_and_says_their_word(cli: CommandLine, dsn: str) -> None:
    """L13."""
    session = asyncio.run(leave_waiting_calls(dsn))
    waiting = {call["arguments"]: call for call in run_json(cli, "session", "list", "--attention")}
    assert {call["kind"] for call in waiting.values()} == {"uncertain", "approval"}
    mail, north, south = (
        waiting[arguments]["call"] for arguments in ('{"to": "ines"}', '{"where": "north"}', '{"where": "south"}')
    )
    assert cli("call", "approve", mail)[0] == 3, "nobody asked to be allowed that"
    assert cli("call", "resolve", mail, "perhaps")[0] == 2
    code, out, _ = cli("call", "approve", north)
    assert (code, f"consolidator session wake {session}" in out) == (0, True)
    assert cli("call", "approve", north)[0] == 3, "it is said already"
    assert cli("call", "deny", south, "--reason", "not on a Friday")[0] == 0
    assert cli("call", "resolve", mail, "ok")[0] == 0
    assert run_json(cli, "session", "list", "--attention") == []
    assert asyncio.run(describe_session(dsn, session))[-4:] == [
        "result: send_mail uncertain", "ApprovalGranted", "ApprovalDenied", "decision: call_settled",
    ]  # fmt: skip


def test_a_person_steers_a_session_and_follows_up_from_another_terminal(cli: CommandLine) -> None:
    session_id = json.loads(cli("session", "create", "--agent", "desk", "--json")[1])["id"]
    code, out, err = cli("session", "say", session_id[:24], "Only the tests.", "--json")
    assert (code, json.loads(out)["session"]) == (0, session_id), err
    code, out, err = cli("session", "say", "--later", session_id, "Then the docs.")
    assert code == 0, err
    assert f"consolidator session wake {session_id}" in " ".join(out.split())
    code, out, err = cli("session", "events", session_id, "--json")
    messages = [event for event in map(json.loads, out.splitlines()) if event["type"] == "UserMessage"]
    assert [(event["data"]["text"], event["data"]["mode"]) for event in messages] == [
        ("Only the tests.", "steer"),
        ("Then the docs.", "follow_up"),
    ]
    code, out, err = cli("session", "say", "--stop", session_id, "--json")
    assert (code, json.loads(out)) == (0, {"session": session_id, "seq": 4}), err
    assert "the session stays open" in cli("session", "say", "--stop", session_id)[1]
    other = json.loads(cli("session", "create", "--agent", "desk", "--json")[1])["id"]
    assert cli("session", "say", "--stop", other)[1].strip() == "nothing is under way in it"
    assert cli("session", "say", session_id, " ")[0] == 2
    assert cli("session", "say", "nobody", "x")[0] == 3
