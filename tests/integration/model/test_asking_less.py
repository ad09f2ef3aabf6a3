"""A model is asked where people speak, is told the relation names in use, and may mend a wrong quote once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.llm.client import ModelRequest
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.oracle import fact_json, oracle, parse_lines, schema_name, with_model
from tests.support import assert_invariants, assistant_response, call_and_result, log_events, run_job, user_message

HOUR = timedelta(hours=1)
OUTPUT = call_and_result("a", "Bash", {"command": "psql --version"}, "postgres version: 18.1")
EXPLAINED = assistant_response("There is no server here, because the image lacks it.")


@pytest.mark.parametrize("is_explained", [False, True])
async def test_a_session_without_a_persons_word_is_asked_about_only_if_the_agent_explains_something(
    database: Database, clock: FrozenClock, settings: Settings, is_explained: bool
) -> None:
    talk = [*OUTPUT, *[EXPLAINED] * is_explained]
    await log_events(database, "s1", talk, peer="mara")
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        configured = with_model(settings, server)
        report = await run_job(database, configured)
        assert len(server.requests) == is_explained
        assert report["seen"] == len(talk) == report["learned"] + report["nothing"]
        await run_job(database, configured)  # and nothing is left over for another night
        assert len(server.requests) == is_explained
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select 1 from event where consolidated_at is null")
    await assert_invariants(database)


async def test_the_relation_names_of_the_scope_are_told(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server)
        for number, peer in enumerate(["ann", "bob", "ann"]):
            await log_events(database, f"s{number}", [user_message("Tea is my fuel.")], peer=peer)
            clock.advance(HOUR)
            await run_job(database, model_settings)
        asked = [request for request in server.requests if schema_name(request) == "facts"]
    prompts = [request["messages"][1]["content"] for request in asked]
    assert ['Relation names in use: ["fuel"]\n' in prompt for prompt in prompts] == [False, False, True]


def test_a_hint_is_no_part_of_what_an_answer_is_stored_by() -> None:
    plain = ModelRequest("extract", "m", "system", "prompt", "facts", {}, 10)
    hinted = ModelRequest("extract", "m", "system", "prompt", "facts", {}, 10, hint="names")
    assert plain.key == hinted.key
    assert hinted.messages[1]["content"] == "names\n\nprompt"
    assert hinted.tokens > plain.tokens


TALK = [user_message("Hello."), user_message("Remenber, I live in Berne now."), user_message("Thanks.")]


def careless(mended: str | None) -> Any:
    """Return a model that mends a quote's spelling, and quotes `mended` when it is asked once more."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        is_second = len(request["messages"]) > 2
        if is_second and mended is None:
            return ScriptedReply.failed(400)
        (name,) = [name for name, _, words in parse_lines(request) if "Berne" in words]
        quote = mended if is_second and mended else "Remember, I live in Bern"
        return ScriptedReply.json(
            {"facts": [fact_json(name, quote, "lives_in", "Berne", "The user lives in Berne.", "profile")]}
        )

    return answer


@pytest.mark.parametrize(
    ("mended", "is_believed"), [("I live in Berne", True), ("I really live in Bern", False), (None, False)]
)
async def test_a_wrong_quote_may_be_mended_once(
    database: Database, clock: FrozenClock, settings: Settings, mended: str | None, is_believed: bool
) -> None:
    await log_events(database, "s1", TALK, peer="mara")
    clock.advance(HOUR)
    async with ModelServer(careless(mended)) as server:
        report = await run_job(database, with_model(settings, server))
        assert report["deferred"] == report["dead"] == 0
        assert [len(request["messages"]) for request in server.requests] == [2, 4]
        complaint = server.requests[1]["messages"][3]["content"]
        assert 'does not hold "Remember, I live in Bern"' in complaint
    async with database.connection() as conn:
        rows = await fetch_dicts(conn, "select quote, rejected from candidate where extractor like 'model:%%'")
        assert len(await fetch_dicts(conn, "select 1 from model_answer")) == 1 + (mended is not None)
    if is_believed:
        assert rows == [{"quote": "I live in Berne", "rejected": None}]
    else:
        assert [row["rejected"] for row in rows] == ["quote not in event"]
    await assert_invariants(database)


async def test_what_is_stored_is_what_stands_in_the_event(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    text = "I\u2019m currently reading \u201cThe Lean Startup\u201d \u2013 and hoping it helps."

    def straightened(request: dict[str, Any]) -> ScriptedReply:
        quote = "I'm currently reading 'The Lean Startup' ... it helps"
        fact = fact_json("P1", quote, "reads", "The Lean Startup", "The user reads The Lean Startup.", "profile")
        return ScriptedReply.json({"facts": [fact]})

    await log_events(database, "s1", [user_message(text)], peer="mara")
    clock.advance(HOUR)
    async with ModelServer(straightened) as server:
        await run_job(database, with_model(settings, server))
        assert len(server.requests) == 1
    async with database.connection() as conn:
        (row,) = await fetch_dicts(conn, "select quote, rejected from candidate where extractor like 'model:%%'")
    assert row == {"quote": text[:-1], "rejected": None}
