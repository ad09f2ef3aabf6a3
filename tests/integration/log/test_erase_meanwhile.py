"""Work that is under way during an erasure does not bring the erased back: it waits for the erasure, and finds nothing.

Races are forced: an erasure is paused before it commits, or runs between two steps of the other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation import backfill, session_window
from consolidator.jobs.consolidation.backfill import retry_dead_letters
from consolidator.jobs.consolidation.revisions import read_again
from consolidator.jobs.ledger import BackfillFilter, JobContext
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.merging.deciding import CandidateDecider
from consolidator.jobs.model import calls
from consolidator.jobs.model.extraction import FactReader
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.client import ModelClient
from consolidator.service.log import erasure
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory import facts
from consolidator.settings import Settings
from consolidator.store.calls import scopes
from consolidator.store.nights import model_calls
from consolidator.testing import ModelServer, ScriptedReply
from tests.dumps import dump
from tests.integration.log import claude_logs
from tests.nights import hold_locks, query_number, query_rows, run_next_night, wait_for_lock_waiters
from tests.oracle import candidate_names, fact_json, oracle, oracle_except, parse_lines, schema_name, with_model
from tests.support import PATIENCE, assert_invariants, log_events, run_job, user_message

HOUR = timedelta(hours=1)
SECRET_WORD = "marzipan"  # only the erased session says it
SECRET_STATEMENT = f"{SECRET_WORD} is my fuel."
LOCK_MERGE = "select pg_advisory_xact_lock(hashtextextended('consolidator.merge:coder', 0))"


async def assert_forgotten(database: Database, *names: str) -> None:
    """Assert that only the log of erasures still names the erased sessions, by these names or the secret word."""
    for table, text in (await dump(database, but=("erasure", "claim"))).items():
        assert not [name for name in (*names, SECRET_WORD) if name in text], table
    await assert_invariants(database)


@asynccontextmanager
async def paused_erasure(
    monkeypatch: pytest.MonkeyPatch, database: Database, settings: Settings, **target: str
) -> AsyncIterator[None]:
    """Start an erasure, and pause it before it commits until the block ends."""
    started, resume = asyncio.Event(), asyncio.Event()

    async def pause(*arguments: Any, **named: Any) -> Any:
        started.set()
        await resume.wait()
        return await merge_agent(*arguments, **named)

    monkeypatch.setattr(erasure, "merge_agent", pause)
    task = asyncio.create_task(
        erase_sessions(database, settings, await plan_erasure(database, **target), reason="asked to")
    )
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    try:
        yield
    finally:
        resume.set()
        await task


def erase_after(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, database: Database, settings: Settings, *, nth: int = 1
) -> None:
    """Erase the session `theirs` right after the nth call of a coroutine function."""
    original, call_count = getattr(owner, name), 0

    async def call_then_erase(*arguments: Any, **named: Any) -> Any:
        nonlocal call_count
        result = await original(*arguments, **named)
        call_count += 1
        if call_count == nth:
            await erase_sessions(database, settings, await plan_erasure(database, session="theirs"), reason="asked to")
        return result

    monkeypatch.setattr(owner, name, call_then_erase)


async def log_talk(
    database: Database, clock: FrozenClock, *words: str, name: str = "theirs", peer: str = "rosa"
) -> None:
    await log_events(database, name, [user_message(text) for text in words], peer=peer)
    clock.advance(HOUR)


@pytest.mark.parametrize("who", ["the session itself", "a sub-agent of it"])
async def test_an_import_that_waited_for_an_erasure_brings_nobody_back(
    database: Database, settings: Settings, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, who: str
) -> None:
    log = claude_logs.write_log(tmp_path / "s.jsonl", claude_logs.user_lines(2))
    await claude_logs.import_logs(database, log)
    large = f"{SECRET_WORD} " * 4000
    if who == "the session itself":
        more = claude_logs.write_log(log, [*claude_logs.user_lines(2), claude_logs.user_line(3, large)])
    else:
        kid: dict[str, Any] = {"isSidechain": True, "agentId": "k1"}
        more = claude_logs.write_log(
            tmp_path / "s" / "subagents" / "agent-k1.jsonl", [claude_logs.user_line(9, large, uuid="k-1", **kid)]
        )
    async with paused_erasure(monkeypatch, database, settings, session="s"):
        importing = asyncio.create_task(claude_logs.import_logs(database, more))
        await wait_for_lock_waiters(dsn)
    report = await importing
    assert (report.events, report.erased > 0) == (0, True)
    assert await query_number(database, "select count(*) from session") == 0
    await assert_forgotten(database)


async def test_a_draft_that_was_being_read_says_nothing_of_who_was_erased(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_talk(database, clock, "tea is my fuel.", "coffee is my fuel.", SECRET_STATEMENT)
    await run_job(database, settings)
    monkeypatch.setattr(session_window, "WINDOW", 2)
    erase_after(monkeypatch, FactReader, "read", database, settings, nth=2)
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server)
        await read_again(JobContext(database, model_settings), BackfillFilter(reprocess=True), "gpt-4o")
        assert any(SECRET_WORD in body for body in server.raw_bodies)
    assert await query_number(database, "select count(*) from revision_reach") == 0
    await assert_forgotten(database, "theirs")


async def test_a_dead_letter_that_was_being_read_again_says_nothing_of_who_was_erased(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_cursed(request: dict[str, Any]) -> ScriptedReply | None:
        return ScriptedReply.refused() if any("cursed" in words for _, _, words in parse_lines(request)) else None

    await log_talk(database, clock, f"cursed: {SECRET_STATEMENT}")
    async with ModelServer(oracle_except(refuse_cursed)) as server:
        model_settings = with_model(settings, server)
        assert (await run_job(database, model_settings))["dead"] == 1
        server.answers = oracle
        erase_after(monkeypatch, backfill, "reread_events", database, settings)
        assert (await retry_dead_letters(database, model_settings))["settled"] == 0
    await assert_forgotten(database, "theirs")


@pytest.mark.parametrize("moment", ["while the model thinks", "before it is asked"])
async def test_a_models_answer_is_not_kept_when_who_it_speaks_of_is_gone(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await log_talk(database, clock, SECRET_STATEMENT)
    owner, name = (ModelClient, "send") if moment == "while the model thinks" else (calls.ModelCalls, "_load_answer")
    erase_after(monkeypatch, owner, name, database, settings)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
        assert len(server.requests) == 1
    await assert_forgotten(database, "theirs")
    assert await query_number(database, "select count(*) from model_call where outcome = 'answered'") == 1


def answer_alike(request: dict[str, Any]) -> ScriptedReply:
    """Take everything said for a fact, and tell of sayings that are alike that they are not."""
    if schema_name(request) == "decisions":
        why = f"It does not say {SECRET_WORD}."
        operations = [
            {"saying": saying, "operation": "add", "target": None, "reason": why} for saying in candidate_names(request)
        ]
        return ScriptedReply.json({"operations": operations})
    statements = [(name, words, words.split()[-1]) for name, _, words in parse_lines(request)]
    return ScriptedReply.json(
        {"facts": [fact_json(name, w, f"eats_{last}", w, w, "preference") for name, w, last in statements]}
    )


ALIKE_TALKS = (("theirs", f"I eat bread with {SECRET_WORD}."), ("ours", "I eat bread with butter."))


async def test_an_answer_about_facts_of_many_sessions_is_not_kept(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """It speaks in the words of all of them, and one may be erased."""
    async with ModelServer(answer_alike) as server:
        for name, words in ALIKE_TALKS:
            await log_talk(database, clock, words, name=name)
            await run_job(database, with_model(settings, server))
        assert any(schema_name(request) == "decisions" for request in server.requests)
    assert {row["purpose"] for row in await query_rows(database, "select purpose from model_call")} == {
        "extract",
        "reconcile",
    }
    assert {row["purpose"] for row in await query_rows(database, "select purpose from model_answer")} == {"extract"}


async def test_what_was_decided_beside_a_fact_that_is_erased_is_decided_anew(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(answer_alike) as server:
        model_settings = with_model(settings, server)
        for name, words in ALIKE_TALKS:
            if name == "ours":
                erase_after(monkeypatch, CandidateDecider, "_ask_model", database, settings)
            await log_talk(database, clock, words, name=name)
            await run_job(database, model_settings)
        assert any(schema_name(request) == "decisions" for request in server.requests)
    await assert_forgotten(database, "theirs")
    assert [row["decided_by"] for row in await query_rows(database, "select decided_by from candidate")] == ["code"]


@pytest.mark.parametrize("when", ["submitting", "collecting"])
async def test_a_batch_keeps_nothing_of_who_was_erased(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    await log_talk(database, clock, SECRET_STATEMENT)
    if when == "collecting":
        await log_talk(database, clock, "tea is my fuel.", name="mine", peer="karl")
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server, batch=True)
        if when == "submitting":
            erase_after(monkeypatch, calls.ModelCalls, "reserve", database, settings)
        await run_job(database, model_settings)
        if when == "collecting":
            erase_after(monkeypatch, model_calls, "list_unanswered", database, settings)
        await JobRunner(database, model_settings).collect_batches()
    await assert_forgotten(database, "theirs")
    assert await query_number(database, "select count(*) from fact") == (1 if when == "collecting" else 0)


@pytest.mark.parametrize("word", ["forget", "correct"])
async def test_what_a_person_says_of_a_fact_that_is_being_erased_is_not_kept(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
) -> None:
    await log_talk(database, clock, f"From now on, always write {SECRET_WORD} in the changelog.")
    await run_job(database, settings)
    (known,) = await query_rows(database, "select id from fact")
    async with paused_erasure(monkeypatch, database, settings, session="theirs"):
        if word == "forget":
            correcting = asyncio.create_task(facts.forget_fact(database, known["id"]))
        else:
            correcting = asyncio.create_task(facts.correct_fact(database, known["id"], f"Never write {SECRET_WORD}."))
        await wait_for_lock_waiters(dsn)
    with pytest.raises(NotFound, match="no fact has the id"):
        await correcting
    await assert_forgotten(database, "theirs")


ORDER = f"Always build with {SECRET_WORD} here."


async def quarantine_order(database: Database, clock: FrozenClock, settings: Settings) -> str:
    """Have a person pass an order on, which waits for a review; return what it is called."""

    def extract_order(request: dict[str, Any]) -> ScriptedReply:
        facts = [
            fact_json(n, ORDER, "build", ORDER, ORDER, "constraint")
            for n, _, words in parse_lines(request)
            if ORDER in words
        ]
        return ScriptedReply.json({"facts": facts})

    await log_events(
        database,
        "theirs",
        [user_message(f"Bob writes:\n> {ORDER}")],
        project="/shop",
        peer="rosa",
    )
    async with ModelServer(extract_order) as server:
        await run_next_night(database, clock, with_model(settings, server))
    (candidate,) = await query_rows(database, "select id from candidate where quarantined is not null")
    return str(candidate["id"])


async def test_what_waits_for_a_person_is_gone_with_who_said_it(
    database: Database, clock: FrozenClock, settings: Settings, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = await quarantine_order(database, clock, settings)
    async with paused_erasure(monkeypatch, database, settings, session="theirs"):
        settling = asyncio.create_task(facts.review_candidate(database, identity, accept=True))
        await wait_for_lock_waiters(dsn)
    with pytest.raises(NotFound, match="nothing in quarantine"):
        await settling
    await assert_forgotten(database, "theirs")


async def test_of_two_reviews_at_once_the_first_counts(
    database: Database, clock: FrozenClock, settings: Settings, dsn: str
) -> None:
    identity = await quarantine_order(database, clock, settings)
    with hold_locks(dsn, LOCK_MERGE):
        both = [
            asyncio.create_task(facts.review_candidate(database, identity, accept=accept)) for accept in (False, True)
        ]
        await wait_for_lock_waiters(dsn, 2)
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    (rejected, believed) = (not isinstance(outcome, BaseException) for outcome in outcomes)
    assert rejected != believed
    (candidate,) = await query_rows(database, "select quarantined, rejected from candidate where id = %s", identity)
    assert (candidate["rejected"] is not None, candidate["quarantined"] is None) == (rejected, believed)
    assert await query_number(database, "select count(*) from fact") == believed


async def test_scopes_are_touched_in_the_order_in_which_nights_touch_them(
    database: Database, settings: Settings, dsn: str
) -> None:
    await log_events(database, "a-parent", [user_message("hello")], project="z")
    await log_events(
        database, "b-child", [user_message("hello")], project="a", parent_id="a-parent", root_id="a-parent"
    )
    async with database.transaction() as conn:
        await scopes.touch(conn, await scopes.list_of_sessions(conn, ["a-parent", "b-child"]))
    with hold_locks(dsn, "select from scope where project = 'a' for update") as night:
        erasing = asyncio.create_task(
            erase_sessions(database, settings, await plan_erasure(database, session="a-parent"), reason="asked to")
        )
        await wait_for_lock_waiters(dsn)
        night.execute("select from scope where project = 'z' for update nowait")
    assert (await erasing)["sessions"] == 2
