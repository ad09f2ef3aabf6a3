"""A night with a model: facts with quotes that are really there; what fails loses nothing and invents nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation.backfill import retry_dead_letters
from consolidator.jobs.consolidation.session_worker import SessionWorker
from consolidator.jobs.ledger import Unit
from consolidator.jobs.model import calls as calls_module
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.extraction import FactReader
from consolidator.llm.client import ModelClient
from consolidator.memory.facts.candidates import SessionContext
from consolidator.models.event import NewEvent
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import Row, fetch_dicts
from tests.oracle import fact_json, oracle, oracle_except, parse_lines, schema_name, with_model
from tests.support import assert_invariants, assistant_response, call_and_result, log_events, run_job, user_message

HOUR = timedelta(hours=1)
TALK = [
    user_message("Tea is my fuel. Please look at the database."),
    *call_and_result("a", "Bash", {"command": "psql --version"}, "postgres version: 18.1"),
    assistant_response("Coffee is my fuel, and the database is fine."),
    user_message("Bern is where my desk stands."),
]
FACTS = {"The user's fuel is Tea.", "The user lives in Bern."}


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


async def load_believed_facts(database: Database) -> dict[str, Row]:
    async with database.connection() as conn:
        facts = await fetch_dicts(conn, "select * from fact where superseded_at is null")
    return {fact["sentence"]: fact for fact in facts}


async def count_unstamped_events(database: Database) -> int:
    async with database.connection() as conn:
        counts = await fetch_dicts(conn, "select count(*) as unstamped from event where consolidated_at is null")
    return int(counts[0]["unstamped"])


async def log_talk(database: Database, clock: FrozenClock, talk: list[NewEvent], session: str = "s1") -> None:
    await log_events(database, session, talk, peer="mara")
    clock.advance(HOUR)


async def test_a_night_learns_what_was_said_and_proves_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_talk(database, clock, TALK)
    async with ModelServer(oracle) as server:
        report = await run_job(database, with_model(settings, server))
        assert len(server.requests) == 1  # one call a chunk, not one a message
    assert report["model"]["name"] == "gpt-4o-mini"
    assert report["model"]["calls"] == 1
    assert report["seen"] == len(TALK) == report["learned"] + report["nothing"]
    assert await count_unstamped_events(database) == 0
    facts = await load_believed_facts(database)
    assert set(facts) == FACTS
    assert facts["The user lives in Bern."]["trust"] == "user"
    async with database.connection() as conn:
        for row in await fetch_dicts(
            conn, "select c.quote, e.data from candidate c join event e using (session_id, seq)"
        ):
            assert row["quote"] in str(row["data"])
    await assert_invariants(database)


async def test_without_a_model_the_rules_stay_and_the_ledger_says_so(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_talk(database, clock, [*TALK, user_message("From now on, always use tabs for indentation.")])
    report = await run_job(database, settings)
    assert report["model"] == "none: rules only"
    assert len(await load_believed_facts(database)) >= 1


async def test_a_night_without_a_model_counts_what_is_in_languages_that_no_rule_reads(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    talk = [
        "Bitte immer pnpm benutzen, und nie npm.",
        "今後は必ずpnpmを使ってください。",
        "Utilise toujours pnpm, jamais npm, et pas yarn.",
    ]
    english = ["Please run the tests of die.py in the container.", "ok", "Use pnpm."]
    await log_talk(database, clock, [user_message(text) for text in [*talk[:2], *english]])
    await log_talk(database, clock, [user_message(talk[2])], session="s2")
    assert (await run_job(database, settings))["foreign"] == len(talk)
    await log_talk(database, clock, [user_message(talk[0])])
    async with ModelServer(oracle) as server:
        assert "foreign" not in await run_job(database, with_model(settings, server))


SICK: dict[str, Callable[[], ScriptedReply]] = {
    "a status of 500": lambda: ScriptedReply.failed(500),
    "too many requests": lambda: ScriptedReply.failed(429, retry_after=30),
    "quota prose": lambda: ScriptedReply(text="You have exceeded your current quota, please check your plan."),
    "a wrong key": lambda: ScriptedReply.failed(401),
    "a connection that is cut": lambda: ScriptedReply(text='{"facts": []}', disconnect=True),
    "a hang": lambda: ScriptedReply(delay=30),
    "an error with status 200": lambda: ScriptedReply(body={"error": {"message": "insufficient_quota"}}),
}


@pytest.mark.parametrize("kind", SICK)
async def test_a_sick_server_defers_the_night_and_the_next_one_learns_all(
    database: Database, clock: FrozenClock, settings: Settings, kind: str
) -> None:
    await log_talk(database, clock, TALK)
    async with ModelServer(lambda _: SICK[kind]()) as server:
        model_settings = with_model(settings, server, model_timeout_seconds=1 if kind == "a hang" else 20)
        report = await run_job(database, model_settings)
        assert report["deferred"] == report["seen"] == len(TALK)
        assert not await load_believed_facts(database)
        assert await count_unstamped_events(database) == len(TALK)
        assert report["model"]["failures"]
        clock.advance(HOUR)
        server.answers = oracle
        report = await run_job(database, model_settings)
    assert report["deferred"] == 0
    assert set(await load_believed_facts(database)) == FACTS
    assert await count_unstamped_events(database) == 0
    await assert_invariants(database)


BAD: dict[str, Callable[[], ScriptedReply]] = {
    "invalid JSON": lambda: ScriptedReply(text='{"facts": [{"subject": "user"'),
    "another schema": lambda: ScriptedReply.json({"memories": ["The user likes coffee."]}),
    "truncated": lambda: ScriptedReply.truncated('{"facts": [{"subject": "us'),
    "a refusal": ScriptedReply.refused,
    "prose": lambda: ScriptedReply(text="The user likes coffee."),
}


@pytest.mark.parametrize("kind", BAD)
async def test_one_event_that_no_answer_survives_is_set_aside_and_the_others_are_learned_from(
    database: Database, clock: FrozenClock, settings: Settings, kind: str
) -> None:
    def broken(request: dict[str, Any]) -> ScriptedReply | None:
        return BAD[kind]() if any("cursed" in words for _, _, words in parse_lines(request)) else None

    await log_talk(
        database, clock, [*TALK, user_message("This cursed sentence breaks the model."), user_message("Thanks.")]
    )
    async with ModelServer(oracle_except(broken)) as server:
        report = await run_job(database, with_model(settings, server))
        assert report["dead"] == 1
        assert report["status"] == "failed"
        assert report["model"]["input_tokens"] > 0  # bad answers are paid, too
    assert set(await load_believed_facts(database)) == FACTS
    assert await count_unstamped_events(database) == 1
    async with database.connection() as conn:
        (letter,) = await fetch_dicts(conn, "select extractor, error, seq from dead_letter where settled_at is null")
    assert letter["extractor"] == "model"
    assert letter["seq"] == len(TALK) + 1
    await assert_invariants(database)


async def test_a_retry_asks_the_model_again_and_settles_only_what_it_could_read(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def broken(request: dict[str, Any]) -> ScriptedReply | None:
        return ScriptedReply.refused() if any("cursed" in words for _, _, words in parse_lines(request)) else None

    await log_talk(database, clock, [*TALK, user_message("cursed: Oolong is my fuel.")])
    async with ModelServer(oracle_except(broken)) as server:
        model_settings = with_model(settings, server)
        await run_job(database, model_settings)
        assert (await retry_dead_letters(database, model_settings)) == {"settled": 0, "remaining": 1}
        server.answers = oracle
        clock.advance(timedelta(minutes=1))
        assert (await retry_dead_letters(database, model_settings)) == {"settled": 1, "remaining": 0}
    assert "The user's fuel is Oolong." in await load_believed_facts(database)
    assert await count_unstamped_events(database) == 0
    await assert_invariants(database)


async def test_an_erasure_takes_what_a_model_was_asked_and_answered(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_talk(database, clock, TALK)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
    await erase_sessions(database, settings, await plan_erasure(database, session="s1"), reason="asked for")
    async with database.connection() as conn:
        for table in ("model_answer", "model_question", "candidate", "fact", "episode"):
            assert not await fetch_dicts(conn, f"select * from {table}"), table
        (call,) = await fetch_dicts(conn, "select session_id, cost from model_call")
    assert call["session_id"] is None
    assert call["cost"] > 0


async def test_answers_are_kept_as_long_as_events(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_talk(database, clock, TALK)
    async with ModelServer(oracle) as server:
        await run_job(database, with_model(settings, server))
    clock.advance(timedelta(days=40))
    await run_job(database, settings, "retention")
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select * from model_answer")
    assert set(await load_believed_facts(database)) == FACTS


async def test_a_bad_answer_is_repaired_once(database: Database, clock: FrozenClock, settings: Settings) -> None:
    def answer(request: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply(text="Sure! Here you go.") if len(request["messages"]) == 2 else oracle(request)

    await log_talk(database, clock, TALK)
    async with ModelServer(answer) as server:
        await run_job(database, with_model(settings, server))
        assert len(server.requests) == 2
        assert "Sure! Here you go." in server.requests[1]["messages"][2]["content"]
    assert set(await load_believed_facts(database)) == FACTS


async def test_a_model_that_never_answers_well_kills_no_events(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(6):
        await log_events(
            database, f"s{number}", [user_message(f"Bern{n} is where my desk stands.") for n in range(8)], peer="mara"
        )
    clock.advance(HOUR)
    async with ModelServer([ScriptedReply(text="I am only a parrot.")]) as server:
        report = await run_job(database, with_model(settings, server))
        assert len(server.requests) < 40
    assert "in a row" in report["model"]["stopped"]
    assert report["dead"] <= 8
    assert report["deferred"] >= 40


INVENTED = {
    "quote not in event": [fact_json("P1", "Coffee is my fuel", "likes", "coffee", "Likes coffee.", "preference")],
    "cites a line that was not shown": [fact_json("P99", "Bern is where", "lives_in", "Bern", "In Bern.", "profile")],
    "cites what no person said": [fact_json("A1", "Coffee is my fuel", "likes", "coffee", "Coffee.", "preference")],
    "empty or too long": [fact_json("P1", "Tea", "likes", "tea" * 200, "Likes tea.", "preference")],
}


@pytest.mark.parametrize("reason", INVENTED)
async def test_i11_what_is_not_in_the_cited_event_is_no_fact_and_is_counted(
    database: Database, clock: FrozenClock, settings: Settings, reason: str
) -> None:
    await log_talk(database, clock, TALK)
    async with ModelServer([ScriptedReply.json({"facts": INVENTED[reason]})]) as server:
        await run_job(database, with_model(settings, server))
    assert not await load_believed_facts(database)
    async with database.connection() as conn:
        candidates = await fetch_dicts(conn, "select rejected from candidate")
    assert [candidate["rejected"] for candidate in candidates] == [reason]
    assert await count_unstamped_events(database) == 0


async def test_a_model_configured_later_reads_what_is_still_there_and_moves_no_stamp(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_talk(database, clock, TALK)
    await run_job(database, settings)
    async with database.connection() as conn:
        stamps = await fetch_dicts(conn, "select id, consolidated_at from event order by id")
    clock.advance(timedelta(days=3))
    await log_talk(database, clock, [user_message("The staging server is box7.")])
    async with ModelServer(oracle) as server:
        report = await run_job(database, with_model(settings, server))
        assert set(await load_believed_facts(database)) == {*FACTS, "The staging server is box7."}
        assert report["seen"] == len(TALK) + 1
        request = len(server.requests)
        clock.advance(HOUR)
        assert (await run_job(database, with_model(settings, server)))["seen"] == 0
        assert len(server.requests) == request
    async with database.connection() as conn:
        assert (await fetch_dicts(conn, "select id, consolidated_at from event order by id"))[: len(TALK)] == stamps
    await assert_invariants(database)


async def test_a_night_over_its_budget_stops_cleanly_and_the_next_goes_on(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(5):
        message, project = user_message(f"Tea{number} is my fuel."), f"/work/{number}"  # none shares a question
        await log_events(database, f"s{number}", [message], peer="mara", project=project)
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server, night_max_tokens=9000)
        learned = 0
        for _ in range(9):
            report = await run_job(database, model_settings)
            used = report["model"]["input_tokens"] + report["model"]["output_tokens"]
            assert used <= 9000
            learned += report["learned"]
            clock.advance(HOUR)
        assert len([request for request in server.requests if schema_name(request) == "facts"]) == 5
    async with database.connection() as conn:
        facts = await fetch_dicts(conn, "select valid_to is null as current from fact")
    assert sorted(row["current"] for row in facts) == [False] * 4 + [True]
    assert learned == 5


async def test_a_retry_after_a_crash_pays_nothing_twice(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consolidator.jobs.consolidation import persistence, session_worker

    await log_talk(database, clock, TALK)
    real = persistence.commit_windows

    async def dies(*_: Any, **__: Any) -> None:
        raise RuntimeError("the process dies here")

    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server)
        monkeypatch.setattr(session_worker, "commit_windows", dies)
        patched = {"count": 0}

        async def twice(*arguments: Any, **named: Any) -> None:
            patched["count"] += 1
            await (dies if patched["count"] < 3 else real)(*arguments, **named)

        monkeypatch.setattr(session_worker, "commit_windows", twice)
        report = await run_job(database, model_settings)
        assert report["model"]["known"] == 2
        assert len(server.requests) == 1
    assert set(await load_believed_facts(database)) == FACTS


class Parted:
    """Work on "bad" that fails once other work, which would go on without end, has begun; tells how that ended."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), ""

    async def of(self, name: str) -> Any:
        if name == "bad":
            await self.begun.wait()
            raise KeyError("a bug")
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = name
            raise


async def test_no_chunk_is_asked_for_on_when_another_of_its_window_has_failed(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted = Parted()
    monkeypatch.setattr(FactReader, "split_chunks", lambda *_: ["other", "bad"])
    monkeypatch.setattr(FactReader, "_read_chunk", lambda _self, chunk, *_: parted.of(chunk))
    reader = FactReader(ModelCalls(database, settings, "run-1"), "gpt-4o-mini", question_tokens=1000)
    with pytest.raises(KeyError):
        await reader.read(SessionContext("s1", "s1", "coder"), [])
    assert parted.ended == "other"


async def test_no_session_is_asked_for_on_when_another_of_its_lot_has_failed(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted = Parted()
    for name in ("bad", "other"):
        await log_events(database, name, TALK)
    monkeypatch.setattr(SessionWorker, "_extract", lambda _self, _reader, window: parted.of(window.session.id))
    reader = FactReader(ModelCalls(database, settings, "run-1"), "gpt-4o-mini", question_tokens=1000)
    work = SessionWorker(database, settings, bytes(16), asyncio.Event(), reader)
    with pytest.raises(KeyError):
        await work.run([Unit("run-1", "session", name, "me", 1) for name in ("bad", "other")])
    assert parted.ended == "other"


async def test_a_closed_client_is_not_opened_again() -> None:
    client = ModelClient("http://127.0.0.1:1/v1", None, 1)
    client.get_client()
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.get_client()
