"""A night with a model: facts with quotes that are really there; what fails loses nothing and invents nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation.dead_letters import retry_dead_letters
from consolidator.jobs.consolidation.session_worker import SessionWorker
from consolidator.jobs.ledger import Unit
from consolidator.jobs.model import calls as calls_module
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.extraction import FactReader
from consolidator.llm.client import ModelClient
from consolidator.memory.facts.candidates import SessionContext
from consolidator.models.event import NewEvent
from consolidator.service.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from consolidator.store.queries import Row, rows
from consolidator.testing import ModelServer, ScriptedReply
from tests.oracle import configured, fact, lines, oracle, schema_of, unless
from tests.support import assert_invariants, assistant_response, call_and_result, log_events, run_job, user_message

HOUR = timedelta(hours=1)
TALK = [
    user_message("Tea is my fuel. Please look at the database."),
    *call_and_result("a", "Bash", {"command": "psql --version"}, "postgres version: 18.1"),
    assistant_response("Coffee is my fuel, and the database is fine."),
    user_message("Bern is where my desk stands."),
]
FACTS = {"The user's fuel is Tea.", "PostgreSQL is 18.1.", "The user lives in Bern."}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


async def facts_of(database: Database) -> dict[str, Row]:
    async with database.connection() as conn:
        found = await rows(conn, "select * from fact where superseded_at is null")
    return {r["sentence"]: r for r in found}


async def unstamped(database: Database) -> int:
    async with database.connection() as conn:
        found = await rows(conn, "select count(*) as left from event where consolidated_at is null")
    return int(found[0]["left"])


async def talked(database: Database, clock: FrozenClock, talk: list[NewEvent], session: str = "s1") -> None:
    await log_events(database, session, talk, peer="mara")
    clock.advance(HOUR)


async def test_a_night_learns_what_was_said_and_proves_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock, TALK)
    async with ModelServer(oracle) as server:
        done = await run_job(database, configured(settings, server))
        assert len(server.requests) == 1  # one call a chunk, not one a message
    assert done["model"]["name"] == "gpt-4o-mini"
    assert done["model"]["calls"] == 1
    assert done["seen"] == len(TALK) == done["learned"] + done["nothing"]
    assert await unstamped(database) == 0
    found = await facts_of(database)
    assert set(found) == FACTS
    assert found["PostgreSQL is 18.1."]["trust"] == "tool"
    assert found["The user lives in Bern."]["trust"] == "user"
    async with database.connection() as conn:
        for one in await rows(conn, "select c.quote, e.data from candidate c join event e using (session_id, seq)"):
            assert one["quote"] in str(one["data"])
    await assert_invariants(database)


async def test_without_a_model_the_rules_stay_and_the_ledger_says_so(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock, [*TALK, user_message("From now on, always use tabs for indentation.")])
    done = await run_job(database, settings)
    assert done["model"] == "none: rules only"
    assert len(await facts_of(database)) >= 1


SICK: dict[str, Callable[[], ScriptedReply]] = {
    "a status of 500": lambda: ScriptedReply.failed(500),
    "too many requests": lambda: ScriptedReply.failed(429, retry_after=30),
    "quota prose": ScriptedReply.quota,
    "a wrong key": lambda: ScriptedReply.failed(401),
    "a connection that is cut": lambda: ScriptedReply(text='{"facts": []}', cut=True),
    "a hang": lambda: ScriptedReply(hang=30),
    "an error with status 200": lambda: ScriptedReply(body={"error": {"message": "insufficient_quota"}}),
}


@pytest.mark.parametrize("kind", SICK)
async def test_a_sick_server_defers_the_night_and_the_next_one_learns_all(
    database: Database, clock: FrozenClock, settings: Settings, kind: str
) -> None:
    await talked(database, clock, TALK)
    async with ModelServer(lambda _: SICK[kind]()) as server:
        told = configured(settings, server, model_timeout_seconds=1 if kind == "a hang" else 20)
        done = await run_job(database, told)
        assert done["deferred"] == done["seen"] == len(TALK)
        assert not await facts_of(database)
        assert await unstamped(database) == len(TALK)
        assert done["model"]["failures"]
        clock.advance(HOUR)
        server.answers = oracle
        done = await run_job(database, told)
    assert done["deferred"] == 0
    assert set(await facts_of(database)) == FACTS
    assert await unstamped(database) == 0
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
    def broken(asked: dict[str, Any]) -> ScriptedReply | None:
        return BAD[kind]() if any("cursed" in words for _, _, words in lines(asked)) else None

    await talked(
        database, clock, [*TALK, user_message("This cursed sentence breaks the model."), user_message("Thanks.")]
    )
    async with ModelServer(unless(broken)) as server:
        done = await run_job(database, configured(settings, server))
        assert done["dead"] == 1
        assert done["status"] == "failed"
        assert done["model"]["input_tokens"] > 0  # bad answers are paid, too
    assert set(await facts_of(database)) == FACTS
    assert await unstamped(database) == 1
    async with database.connection() as conn:
        (letter,) = await rows(conn, "select extractor, error, seq from dead_letter where settled_at is null")
    assert letter["extractor"] == "model"
    assert letter["seq"] == len(TALK) + 1
    await assert_invariants(database)


async def test_a_retry_asks_the_model_again_and_settles_only_what_it_could_read(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def broken(asked: dict[str, Any]) -> ScriptedReply | None:
        return ScriptedReply.refused() if any("cursed" in words for _, _, words in lines(asked)) else None

    await talked(database, clock, [*TALK, user_message("cursed: Oolong is my fuel.")])
    async with ModelServer(unless(broken)) as server:
        told = configured(settings, server)
        await run_job(database, told)
        assert (await retry_dead_letters(database, told)) == {"settled": 0, "remaining": 1}
        server.answers = oracle
        assert (await retry_dead_letters(database, told)) == {"settled": 1, "remaining": 0}
    assert "The user's fuel is Oolong." in await facts_of(database)
    assert await unstamped(database) == 0
    await assert_invariants(database)


async def test_an_erasure_takes_what_a_model_was_asked_and_answered(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock, TALK)
    async with ModelServer(oracle) as server:
        await run_job(database, configured(settings, server))
    await erase_sessions(database, settings, await plan_erasure(database, session="s1"), reason="asked for")
    async with database.connection() as conn:
        for table in ("model_answer", "model_question", "candidate", "fact", "episode"):
            assert not await rows(conn, f"select * from {table}"), table
        (paid,) = await rows(conn, "select session_id, cost from model_call")
    assert paid["session_id"] is None
    assert paid["cost"] > 0


async def test_answers_are_kept_as_long_as_events(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await talked(database, clock, TALK)
    async with ModelServer(oracle) as server:
        await run_job(database, configured(settings, server))
    clock.advance(timedelta(days=40))
    await run_job(database, settings, "retention")
    async with database.connection() as conn:
        assert not await rows(conn, "select * from model_answer")
    assert set(await facts_of(database)) == FACTS


async def test_a_bad_answer_is_repaired_once(database: Database, clock: FrozenClock, settings: Settings) -> None:
    def answer(asked: dict[str, Any]) -> ScriptedReply:
        return ScriptedReply(text="Sure! Here you go.") if len(asked["messages"]) == 2 else oracle(asked)

    await talked(database, clock, TALK)
    async with ModelServer(answer) as server:
        await run_job(database, configured(settings, server))
        assert len(server.requests) == 2
        assert "Sure! Here you go." in server.requests[1]["messages"][2]["content"]
    assert set(await facts_of(database)) == FACTS


async def test_a_model_that_never_answers_well_kills_no_events(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(6):
        await log_events(
            database, f"s{number}", [user_message(f"Bern{n} is where my desk stands.") for n in range(8)], peer="mara"
        )
    clock.advance(HOUR)
    async with ModelServer([ScriptedReply(text="I am only a parrot.")]) as server:
        done = await run_job(database, configured(settings, server))
        assert len(server.requests) < 40
    assert "in a row" in done["model"]["stopped"]
    assert done["dead"] <= 8
    assert done["deferred"] >= 40


INVENTED = {
    "quote not in event": [fact("e1", "Coffee is my fuel", "likes", "coffee", "Likes coffee.", "preference")],
    "cites an event that was not shown": [fact("e99", "Bern is where", "lives_in", "Bern", "In Bern.", "profile")],
    "cites what the agent said": [fact("e3", "Coffee is my fuel", "likes", "coffee", "Coffee.", "preference")],
    "no evidence": [fact("e1", "Tea", "likes", "tea", "Likes tea.", "preference", evidence=[])],
    "a date that is none": [fact("e1", "Tea", "likes", "tea", "Likes tea.", "preference", valid_from="last week")],
    "empty or too long": [fact("e1", "Tea", "likes", "tea" * 200, "Likes tea.", "preference")],
    "a preference that no user stated": [fact("e2", "18.1", "likes", "18.1", "Likes 18.1.", "preference")],
}


@pytest.mark.parametrize("reason", INVENTED)
async def test_i11_what_is_not_in_the_cited_event_is_no_fact_and_is_counted(
    database: Database, clock: FrozenClock, settings: Settings, reason: str
) -> None:
    await talked(database, clock, TALK)
    async with ModelServer([ScriptedReply.json({"facts": INVENTED[reason]})]) as server:
        await run_job(database, configured(settings, server))
    assert not await facts_of(database)
    async with database.connection() as conn:
        found = await rows(conn, "select rejected from candidate")
    assert [one["rejected"] for one in found] == [reason]
    assert await unstamped(database) == 0


async def test_a_model_configured_later_reads_what_is_still_there_and_moves_no_stamp(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock, TALK)
    await run_job(database, settings)
    async with database.connection() as conn:
        stamps = await rows(conn, "select id, consolidated_at from event order by id")
    clock.advance(timedelta(days=3))
    await talked(database, clock, [user_message("The staging server is box7.")])
    async with ModelServer(oracle) as server:
        done = await run_job(database, configured(settings, server))
        assert set(await facts_of(database)) == {*FACTS, "The staging server is box7."}
        assert done["seen"] == len(TALK) + 1
        asked = len(server.requests)
        clock.advance(HOUR)
        assert (await run_job(database, configured(settings, server)))["seen"] == 0
        assert len(server.requests) == asked
    async with database.connection() as conn:
        assert (await rows(conn, "select id, consolidated_at from event order by id"))[: len(TALK)] == stamps
    await assert_invariants(database)


async def test_a_night_over_its_budget_stops_cleanly_and_the_next_goes_on(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(5):
        await log_events(database, f"s{number}", [user_message(f"Tea{number} is my fuel.")], peer="mara")
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        told = configured(settings, server, night_max_tokens=9000)
        learned = 0
        for _ in range(9):
            done = await run_job(database, told)
            used = done["model"]["input_tokens"] + done["model"]["output_tokens"]
            assert used <= 9000
            learned += done["learned"]
            clock.advance(HOUR)
        assert len([one for one in server.requests if schema_of(one) == "facts"]) == 5
    async with database.connection() as conn:
        found = await rows(conn, "select valid_to is null as current from fact")
    assert sorted(one["current"] for one in found) == [False] * 4 + [True]
    assert learned == 5


async def test_a_retry_after_a_crash_pays_nothing_twice(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consolidator.jobs.consolidation import persistence, session_worker

    await talked(database, clock, TALK)
    real = persistence.commit_windows

    async def dies(*_: Any, **__: Any) -> None:
        raise RuntimeError("the process dies here")

    async with ModelServer(oracle) as server:
        told = configured(settings, server, max_attempts=9)
        monkeypatch.setattr(session_worker, "commit_windows", dies)
        patched = {"count": 0}

        async def twice(*arguments: Any, **named: Any) -> None:
            patched["count"] += 1
            await (dies if patched["count"] < 3 else real)(*arguments, **named)

        monkeypatch.setattr(session_worker, "commit_windows", twice)
        done = await run_job(database, told)
        assert done["model"]["known"] == 2
        assert len(server.requests) == 1
    assert set(await facts_of(database)) == FACTS


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
    monkeypatch.setattr(FactReader, "_split_chunks", lambda *_: ["other", "bad"])
    monkeypatch.setattr(FactReader, "_read_chunk", lambda _self, chunk, _source: parted.of(chunk))
    reader = FactReader(ModelCalls(database, settings, "run-1"), "gpt-4o-mini", 1000)
    with pytest.raises(KeyError):
        await reader.read(SessionContext("s1", "s1", "coder"), [])
    assert parted.ended == "other"


async def test_no_session_is_asked_for_on_when_another_of_its_lot_has_failed(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted = Parted()
    for name in ("bad", "other"):
        await log_events(database, name, TALK)
    monkeypatch.setattr(SessionWorker, "_extract", lambda _self, _reader, window: parted.of(window.session["id"]))
    reader = FactReader(ModelCalls(database, settings, "run-1"), "gpt-4o-mini", 1000)
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
