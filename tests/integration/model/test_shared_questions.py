"""Small sessions of one scope are asked about together; each learns, fails and is erased as if it had been alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import session_worker
from consolidator.jobs.model import calls as calls_module
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.extraction import MAX_BAD_SHARED_ANSWERS
from consolidator.jobs.nightly import JobRunner
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import Row, fetch_dicts
from tests.nights import open_replica
from tests.oracle import fact_json, oracle, oracle_except, parse_lines, schema_name, with_model
from tests.support import assert_invariants, log_events, run_job, user_message

HOUR = timedelta(hours=1)
NAMES = [f"s{number}" for number in range(6)]
ASKED_FACTS = "select session_id, seq, quote, value from candidate where extractor like 'model:%%' order by 1, 2"


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


def tea_of(name: str) -> str:
    return f"Tea{name} is my fuel."


async def log_small(database: Database, clock: FrozenClock, names: Sequence[str] = NAMES, **more: Any) -> None:
    """Log a session with one message for each name."""
    for name in names:
        await log_events(database, name, [user_message(tea_of(name))], **{"peer": "mara", **more})
    clock.advance(HOUR)


def extractions(server: ModelServer) -> list[list[str]]:
    """Return what each question about sessions showed."""
    return [
        [text for _, _, text in parse_lines(request)] for request in server.requests if schema_name(request) == "facts"
    ]


async def query(database: Database, statement: str) -> list[Row]:
    async with database.connection() as conn:
        return await fetch_dicts(conn, statement)


async def assert_learned_each(database: Database, names: Sequence[str] = NAMES) -> None:
    """Assert that each session has its own fact, with a quote of its own event, and that all is stamped."""
    rows = await query(database, ASKED_FACTS)
    assert [(row["session_id"], row["quote"]) for row in rows] == [(name, tea_of(name)[:-1]) for name in names]
    assert not await query(database, "select 1 from event where consolidated_at is null")
    await assert_invariants(database)


async def test_sessions_of_one_scope_are_asked_about_together(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    async with ModelServer(oracle) as server:
        report = await run_job(database, with_model(settings, server))
        assert extractions(server) == [[tea_of(name) for name in NAMES]]
        assert report["learned"] == report["seen"] == len(NAMES)
        assert report["model"]["known"] == 0
        await run_job(database, with_model(settings, server))
        assert len(extractions(server)) == 1
    await assert_learned_each(database)


async def test_what_is_read_late_is_shared_too(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_small(database, clock)
    await run_job(database, settings)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
        assert len(extractions(server)) == 1
    await assert_learned_each(database)


async def test_i16_no_question_is_about_two_scopes(database: Database, clock: FrozenClock, settings: Settings) -> None:
    scopes: list[dict[str, Any]] = [
        {"peer": "ann"}, {"peer": "bob"}, {"peer": "ann", "project": "/work/shop"}, {"peer": None},
        {"peer": "ann", "agent": "other"},
    ]  # fmt: skip
    for number, scope in enumerate(scopes):
        await log_small(database, clock, [f"{number}{letter}" for letter in "abc"], **scope)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
        shown = extractions(server)
    assert sorted(shown) == [[tea_of(f"{number}{letter}") for letter in "abc"] for number in range(len(scopes))]


async def test_a_question_holds_no_more_than_one_about_a_session(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock, [f"s{number:02}" for number in range(40)])
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
        assert sorted(len(shown) for shown in extractions(server)) == [8, 16, 16]  # asked side by side


async def test_one_bad_event_costs_the_sessions_beside_it_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def broken(request: dict[str, Any]) -> ScriptedReply | None:
        return ScriptedReply.refused() if any("cursed" in words for _, _, words in parse_lines(request)) else None

    await log_small(database, clock)
    await log_events(database, "s3", [user_message("This cursed sentence breaks the model.")])
    clock.advance(HOUR)
    async with ModelServer(oracle_except(broken)) as server:
        report = await run_job(database, with_model(settings, server))
        assert (report["dead"], report["deferred"]) == (1, 0)
        alone = [shown for shown in extractions(server) if len(shown) == 1]
    assert [tea_of("s3")] in alone
    (letter,) = await query(database, "select session_id, seq from dead_letter where settled_at is null")
    assert (letter["session_id"], letter["seq"]) == ("s3", 2)
    rows = await query(database, ASKED_FACTS)
    assert [row["session_id"] for row in rows] == NAMES
    await assert_invariants(database)


async def test_a_model_that_cannot_tell_sessions_apart_is_asked_about_each_alone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def confused(request: dict[str, Any]) -> ScriptedReply | None:
        lines = parse_lines(request)
        if len(lines) < 2:
            return None
        return ScriptedReply.json({"facts": [fact_json("P1", "Tea", "fuel", "Tea", "The fuel is Tea.", "preference")]})

    names = [f"s{number:02}" for number in range(48)]
    await log_small(database, clock, names)
    async with ModelServer(oracle_except(confused)) as server:
        report = await run_job(database, with_model(settings, server))
        assert "stopped" not in report["model"]
        together = [shown for shown in extractions(server) if len(shown) > 1]
        assert MAX_BAD_SHARED_ANSWERS <= len(together) <= MAX_BAD_SHARED_ANSWERS + 3
    await assert_learned_each(database, names)


class Killed(BaseException):
    """The process ends here."""


async def run_until_killed(database: Database, settings: Settings) -> None:
    """Run a night that is killed: whatever it had under way is lost."""
    with pytest.raises(BaseException) as raised:
        await run_job(database, settings)
    assert "Killed" in repr(raised.value)


@pytest.mark.parametrize(("place", "paid"), [("sent", 2), ("stored", 1), ("committed", 1)])
async def test_a_night_killed_in_between_pays_at_most_once_more(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, place: str, paid: int
) -> None:
    async def killed(*_: Any, **__: Any) -> None:
        raise Killed

    await log_small(database, clock)
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server)
        with monkeypatch.context() as patch:
            if place == "sent":
                patch.setattr(ModelCalls, "_settle", killed)
            elif place == "stored":
                patch.setattr("consolidator.jobs.consolidation.late_extraction.record_progress", killed)
            else:
                patch.setattr(session_worker, "commit_windows", killed)
            await run_until_killed(database, model_settings)
        clock.advance(HOUR)
        await run_job(database, model_settings)
        assert len(extractions(server)) == paid
    calls = await query(database, "select settled_at, reserved_tokens from model_call where purpose = 'extract'")
    assert len(calls) == paid
    assert sum(call["settled_at"] is None for call in calls) == paid - 1  # it has cost its reserve
    await assert_learned_each(database)


async def test_one_question_has_one_reserve_and_the_cap_holds(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    async with ModelServer(oracle) as server:
        report = await run_job(database, with_model(settings, server, night_max_tokens=100))
        assert not server.requests
        assert report["deferred"] == len(NAMES)
        clock.advance(HOUR)
        await run_job(database, with_model(settings, server, night_max_tokens=6000))
        assert len(extractions(server)) == 1
    (call,) = await query(database, "select session_id, reserved_tokens from model_call where purpose = 'extract'")
    assert call["session_id"] is None
    assert call["reserved_tokens"] <= 6000
    await assert_learned_each(database)


async def test_an_erasure_takes_a_sessions_part_of_an_answer_and_no_other(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
    await erase_sessions(database, settings, await plan_erasure(database, session="s2"), reason="asked for")
    answers = await query(database, "select session_id, text from model_answer order by 1")
    assert [row["session_id"] for row in answers] == [name for name in NAMES if name != "s2"]
    for table in ("model_answer", "model_call", "candidate", "fact", "fact_version", "episode", "claim"):
        assert "Teas2" not in json.dumps(await query(database, f"select * from {table}"), default=str), table
    await assert_invariants(database)


async def test_a_session_that_is_erased_during_the_call_leaves_no_part(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    asked, erased = asyncio.Event(), asyncio.Event()
    settle = ModelCalls._settle

    async def late(*arguments: Any, **named: Any) -> None:
        asked.set()
        await erased.wait()
        await settle(*arguments, **named)

    async with ModelServer(oracle) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ModelCalls, "_settle", late)
            night = asyncio.create_task(run_job(database, with_model(settings, server)))
            await asked.wait()
            await erase_sessions(database, settings, await plan_erasure(database, session="s2"), reason="asked for")
            erased.set()
            await night
        assert len(extractions(server)) == 1
    await assert_learned_each(database, [name for name in NAMES if name != "s2"])
    assert "Teas2" not in json.dumps(await query(database, "select * from model_answer"), default=str)


async def test_two_replicas_ask_about_each_session_once(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    names = [f"s{number:02}" for number in range(20)]
    for peer in ("ann", "bob", "cem"):
        await log_small(database, clock, [f"{peer}{name}" for name in names], peer=peer)
    async with ModelServer(oracle) as server, open_replica(database) as other:
        model_settings = with_model(settings, server)
        nights = (JobRunner(replica, model_settings).run_due("consolidation") for replica in (database, other))
        await asyncio.gather(*nights)
        shown = [text for question in extractions(server) for text in question]
        assert sorted(shown) == sorted(tea_of(f"{peer}{name}") for peer in ("ann", "bob", "cem") for name in names)
        assert len(extractions(server)) == 6
    assert not await query(database, "select 1 from event where consolidated_at is null")


async def test_a_server_that_is_away_defers_all_and_the_next_night_shares(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    async with ModelServer(lambda _: ScriptedReply.failed(503)) as server:
        report = await run_job(database, with_model(settings, server))
        assert report["deferred"] == len(NAMES)
        clock.advance(HOUR)
        server.answers = oracle
        server.requests.clear()
        await run_job(database, with_model(settings, server))
        assert len(extractions(server)) == 1
    await assert_learned_each(database)


async def test_in_batches_each_question_is_about_one_session(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_small(database, clock)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server, batch=True))
    questions = await query(database, "select session_id from model_question order by 1")
    assert [row["session_id"] for row in questions] == NAMES
