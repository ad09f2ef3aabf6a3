"""Vectors: added by the nights, resumed after an interruption, replaced for another model, and never required."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.indexing import embeddings
from consolidator.jobs.indexing.embeddings import embed_missing
from consolidator.jobs.model import calls
from consolidator.jobs.model.calls import ModelCalls
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.recall import recall
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from consolidator.store.search import vectors
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import open_replica, query_number, query_rows, run_next_night
from tests.support import PATIENCE, assistant_response, log_events, user_message

TEXTS = ["The heron nests at the mill.", "Our bakery opens at six.", "The violin needs new strings."]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
def vectored(settings: Settings, server: ModelServer) -> Settings:
    return settings.model_copy(update={"embed_model": "small-vectors", "openai_base_url": server.url})


async def log_texts(database: Database, *texts: str, session: str = "one") -> None:
    await log_events(database, session, [user_message(text) for text in texts])


@pytest.mark.usefixtures("pgvector")
async def test_a_night_makes_the_vectors_that_are_missing_and_recall_asks_with_one(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    await log_texts(database, *TEXTS)
    report = await run_next_night(database, clock, vectored)
    assert report["vectors"] == "3 made"
    assert [len(batch) for batch in server.embedded_texts] == [3]
    result = await recall(database, TEXTS[2], settings=vectored)
    assert result.items[0].citation == "[one:3]"
    await log_texts(database, "The lighthouse is red.", session="two")
    await run_next_night(database, clock, vectored)
    assert server.embedded_texts[-1] == ["The lighthouse is red."]


@pytest.mark.usefixtures("pgvector")
async def test_who_is_stopped_goes_on_from_there(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    vectored: Settings,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embeddings, "BATCH_SIZE", 2)
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, settings)
    stop, save_vectors = asyncio.Event(), vectors.save_vectors

    async def save_and_stop(*arguments: Any) -> None:
        await save_vectors(*arguments)
        stop.set()

    monkeypatch.setattr(vectors, "save_vectors", save_and_stop)
    assert await embed_missing(database, vectored, stop) == "2 made"
    assert await embed_missing(database, vectored) == "1 made"
    assert sum(len(batch) for batch in server.embedded_texts) == 3


async def test_a_connection_may_be_older_than_what_writes_vectors(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("late_vectors", vectors.__file__)
    assert spec is not None
    assert spec.loader is not None
    late = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "late_vectors", late)
    async with database.transaction() as conn:
        spec.loader.exec_module(late)
        await late.save_vectors(conn, "model", [late.UnembeddedRow("fact", 7, 1, "")], [[0.5]])


@pytest.mark.usefixtures("pgvector")
async def test_many_documents_are_embedded_part_by_part_each_once(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    vectored: Settings,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embeddings, "LOOKUP_SIZE", 2)
    await log_texts(database, *TEXTS, "We use pnpm, never npm.")
    await run_next_night(database, clock, settings)
    await remember(database, "The staging database is called heron-2.")
    documents = "select (select count(*) from episode) + (select count(*) from indexed_fact)"
    count = await query_number(database, documents)
    assert await embed_missing(database, vectored) == f"{count} made"
    assert len({text for batch in server.embedded_texts for text in batch}) == count == 6
    assert await query_number(database, "select count(*) from embedding where cardinality(vector) = 0") == 0


@pytest.mark.usefixtures("pgvector")
async def test_another_model_makes_them_anew(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, vectored)
    other = vectored.model_copy(update={"embed_model": "other-vectors"})
    assert await embed_missing(database, other) == "3 made"
    assert [row["model"] for row in await query_rows(database, "select distinct model from embedding")] == [
        "other-vectors"
    ]


@pytest.mark.usefixtures("pgvector")
async def test_in_large_scopes_an_index_finds_the_nearest(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "EXACT_LIMIT", 1)
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, vectored)
    assert await query_number(database, "select count(*) from pg_indexes where indexname like 'embedding_near_%%'") == 2
    assert (await recall(database, TEXTS[0], settings=vectored)).items[0].citation == "[one:1]"
    await embed_missing(database, vectored.model_copy(update={"embed_model": "other-vectors"}))
    assert await query_number(database, "select count(*) from pg_indexes where indexname like 'embedding_near_%%'") == 2


@pytest.mark.usefixtures("pgvector")
async def test_a_server_that_does_not_answer_leaves_recall_by_words(
    database: Database, clock: FrozenClock, vectored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_ATTEMPTS", 1)
    unreachable = vectored.model_copy(update={"openai_base_url": "http://127.0.0.1:9/v1"})
    await log_texts(database, *TEXTS)
    report = await run_next_night(database, clock, unreachable)
    assert report["status"] == "failed"
    assert report["vectors"].startswith("0 made, then: ")
    assert (await recall(database, "heron", settings=unreachable)).items


@pytest.mark.usefixtures("pgvector")
@pytest.mark.parametrize(
    "body",
    [
        {"error": "no"},
        "<html>",
        {"data": None},
        {"data": [{"index": 0, "embedding": None}]},
        {"data": [{"index": 0, "embedding": ["x"]}]},
        {"data": [{"index": 0, "embedding": ["1e999"]}]},
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0]}], "usage": "much"},
    ],
    ids=repr,
)
async def test_an_answer_that_holds_no_vectors_leaves_recall_by_words(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer, body: Any
) -> None:
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, vectored)
    server.embedding_reply = ScriptedReply(body=body)
    assert (await recall(database, "heron", settings=vectored)).items


async def test_a_database_without_pgvector_is_searched_by_words(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vectors._SQL, "pgvector", "select null::text as schema, null::text as type where false")
    await log_texts(database, *TEXTS)
    report = await run_next_night(database, clock, vectored)
    assert "no pgvector" in report["vectors"]
    assert server.embedded_texts == []
    assert (await recall(database, "heron", settings=vectored)).items[0].citation == "[one:1]"


@pytest.mark.usefixtures("pgvector")
async def test_vectors_go_with_what_they_are_of(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, vectored)
    await erase_sessions(database, vectored, await plan_erasure(database, session="one"), reason="asked to")
    assert await query_number(database, "select count(*) from embedding") == 0


@pytest.mark.usefixtures("pgvector")
async def test_no_secret_leaves_the_process(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    await log_texts(database, f"My token is {secret} and it works.")
    await run_next_night(database, clock, vectored)
    await recall(database, f"is {secret} mine?", settings=vectored)
    assert not [body for body in server.raw_bodies if secret in body]
    assert secret not in str(await query_rows(database, "select * from episode"))


@pytest.mark.usefixtures("pgvector")
async def test_vectors_are_metered_with_the_run_and_stop_at_its_cap(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "BATCH_SIZE", 1)
    await log_texts(database, *TEXTS)
    report = await run_next_night(database, clock, vectored.model_copy(update={"night_max_tokens": 20}))
    assert re.fullmatch(r"[12] made, then: the run's cap is reached: .*", report["vectors"])
    assert report["status"] == "done"
    calls = await query_rows(database, "select purpose, run_id, outcome, input_tokens from model_call")
    assert len(calls) == len(server.embedded_texts) < 3
    assert {(call["purpose"], call["run_id"], call["outcome"]) for call in calls} == {
        ("embed", report["run"], "answered")
    }
    assert 0 < sum(call["input_tokens"] for call in calls) <= 20
    assert (await run_next_night(database, clock, vectored))["vectors"].endswith(" made")
    assert await query_number(database, "select count(*) from embedding") == 3


@pytest.mark.usefixtures("pgvector")
async def test_a_cap_in_money_holds_for_vectors_and_refuses_a_price_that_nobody_knows(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    await log_texts(database, *TEXTS)
    capped = vectored.model_copy(update={"night_max_cost_usd": Decimal("0.01")})
    assert "the price of small-vectors is unknown" in (await run_next_night(database, clock, capped))["vectors"]
    assert server.embedded_texts == []
    priced = capped.model_copy(update={"embed_model": "text-embedding-3-small"})
    assert await embed_missing(database, priced, run_id="run-1") == "3 made"
    (call,) = await query_rows(database, "select run_id, cost from model_call")
    assert call["run_id"] == "run-1"
    assert 0 < call["cost"] < Decimal("0.0001")
    nothing = priced.model_copy(update={"night_max_cost_usd": Decimal(0), "embed_model": "text-embedding-3-large"})
    assert "cap is reached" in str(await embed_missing(database, nothing))


@pytest.mark.usefixtures("pgvector")
async def test_vectors_are_asked_for_again_where_the_server_is_busy_for_a_while(
    database: Database, clock: FrozenClock, settings: Settings, vectored: Settings, server: ModelServer
) -> None:
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, settings)
    calls = ModelCalls(database, vectored, "run-1")
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        server.embedding_reply = None

    calls.sleep = wait
    server.embedding_reply = ScriptedReply.failed(429, retry_after=7)
    assert len(await calls.embed("small-vectors", TEXTS)) == 3
    await calls.close()
    assert waits == [7.0]
    attempts = await query_rows(database, "select outcome, input_tokens from model_call order by id")
    assert attempts[0]["outcome"].startswith("failed: ModelUnavailable")
    assert [attempt["input_tokens"] > 0 for attempt in attempts] == [False, True]


@pytest.mark.usefixtures("pgvector")
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_text_that_the_server_refuses_is_left_out_once_and_keeps_no_other_from_its_vector(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer, status: int
) -> None:
    def refuse_bakery(texts: list[str]) -> ScriptedReply | None:
        is_refused = any("bakery" in text for text in texts)
        return (
            ScriptedReply(status=status, body={"error": {"message": "this input is not taken"}}) if is_refused else None
        )

    server.embedding_reply = refuse_bakery
    await log_texts(database, *TEXTS)
    report = await run_next_night(database, clock, vectored)
    assert (report["status"], report["vectors"]) == ("done", "2 made")
    result = await recall(database, "bakery", settings=vectored)
    assert result.items[0].citation == "[one:2]"
    assert (await recall(database, TEXTS[2], settings=vectored)).items[0].citation == "[one:3]"
    requests = len(server.raw_bodies)
    assert (await run_next_night(database, clock, vectored))["vectors"] == "0 made"
    assert len(server.raw_bodies) == requests


@pytest.mark.usefixtures("pgvector")
async def test_a_server_that_refuses_every_text_makes_no_text_go_without_a_vector(
    database: Database, clock: FrozenClock, vectored: Settings, server: ModelServer
) -> None:
    server.embedding_reply = ScriptedReply(status=400, body={"error": {"message": "this model makes no vectors"}})
    await log_texts(database, *TEXTS)
    assert (await run_next_night(database, clock, vectored))["vectors"].startswith("0 made, then: ")
    server.embedding_reply = None
    assert (await run_next_night(database, clock, vectored))["vectors"] == "3 made"


@pytest.mark.usefixtures("pgvector")
async def test_two_replicas_do_not_pay_for_the_same_vectors(
    database: Database, clock: FrozenClock, settings: Settings, vectored: Settings, server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, settings)
    embed, embedding, resume = ModelCalls.embed, asyncio.Event(), asyncio.Event()

    async def wait_and_embed(self: ModelCalls, model: str, texts: list[str]) -> list[list[float]]:
        embedding.set()
        await resume.wait()
        return await embed(self, model, texts)

    monkeypatch.setattr(ModelCalls, "embed", wait_and_embed)
    first = asyncio.create_task(embed_missing(database, vectored))
    await embedding.wait()
    async with open_replica(database) as other:
        second = asyncio.create_task(embed_missing(other, vectored))
        await asyncio.wait([second], timeout=PATIENCE / 4)
        resume.set()
        assert await first == "3 made"
        assert "another replica" in str(await second)
    assert sum(map(len, server.embedded_texts)) == 3
    assert await embed_missing(database, vectored) == "0 made"


@pytest.mark.usefixtures("pgvector")
async def test_without_a_model_a_table_of_words_finds_what_is_said_in_other_words(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    scope = MemoryScope(project="shop")
    for number in range(21):
        await remember(database, f"we name the colour {number} of the page {number * 31}", scope)
    await remember(database, "always use pnpm, never npm", scope)
    said = [user_message("The invoices of dentists stay for ten years."), user_message("Which page is blue?")]
    said += [user_message(f"Install the package of {name} for me, please.") for name in ("labels", "orders", "prices")]
    await log_events(database, "talk", said, project="shop")
    by_table, question = settings.model_copy(update={"embed_model": None}), "Which package manager is right?"
    report = await run_next_night(database, clock, by_table)
    assert report["vectors"] != "0 made"
    assert (await recall(database, question, scope, settings=settings)).items == []
    assert (await recall(database, question, scope, settings=by_table, occasion="message")).items == []
    result = await recall(database, question, scope, settings=by_table)
    assert "pnpm" in result.items[0].line
    assert sum("for me, please" in item.line for item in result.items) == 1  # they say the same of a question
    assert "Nothing matched the question; more than 20 facts are known here. " in result.block
    assert "Which page is blue" not in result.block
    short_words = await recall(database, "How long are bills retained?", scope, settings=by_table)
    assert "ten years" in short_words.block


@pytest.mark.usefixtures("pgvector")
async def test_an_only_fact_is_near_a_question_only_if_it_is_nearer_than_the_turns(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    scope, by_table = MemoryScope(project="shop"), settings.model_copy(update={"embed_model": None})
    await remember(database, "always use pnpm, never npm", scope)
    said = ["QuartzU96 is used as the ticket's nonce.", "The staging host was renamed to gamma."]
    said += [f"Use the printer {number}, then print the label." for number in range(60)]
    await log_events(database, "talk", [user_message(text) for text in said], project="shop")
    await run_next_night(database, clock, by_table)
    asked = await recall(database, "Can QuartzU96 be used for the nonce?", scope, settings=by_table)
    assert "ticket's nonce" in asked.block
    assert "pnpm" not in asked.block
    near = await recall(database, "Which package manager do we use, npm or yarn?", scope, settings=by_table)
    assert "pnpm" in near.block


@pytest.mark.usefixtures("pgvector")
async def test_what_a_person_said_is_found_among_what_agents_say_more_nearly(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    by_table = settings.model_copy(update={"embed_model": None})
    talk = [
        user_message("The invoices of dentists stay for ten years."),
        user_message("Plan: Archive bills -> accepted"),
    ]
    talk += [assistant_response(f"The receipt {number} was kept for a long time.") for number in range(120)]
    await log_events(database, "talk", talk, project="shop")
    await run_next_night(database, clock, by_table)
    question, scope = "When may invoicing papers be thrown away?", MemoryScope(project="shop")
    for text in (question, "Which bills are retained?"):
        result = await recall(database, text, scope, settings=by_table)
        assert "ten years" in result.block
        assert "Plan: " not in result.block  # the agent's words
    persons = {row["id"] for row in await query_rows(database, "select id from episode where role = 'user'")}
    scopes = [row["scope"] for row in await query_rows(database, "select distinct scope from embedding")]
    (row,) = await query_rows(database, "select model, vector from embedding where kind = 'turn' limit 1")
    kinds = [vectors.SAID, "turn"]
    for exact in (True, False):
        async with database.connection() as conn:
            nearest = await vectors.find_nearest(
                conn, kinds, row["model"], row["vector"], scopes, exact=exact, limit=40
            )
        assert {number for number, _ in nearest[vectors.SAID]} == persons
        assert len(nearest["turn"]) == 40


@pytest.mark.usefixtures("pgvector")
async def test_of_a_model_and_the_table_of_words_the_model_makes_the_vectors(
    database: Database, clock: FrozenClock, settings: Settings, vectored: Settings
) -> None:
    await log_texts(database, *TEXTS)
    await run_next_night(database, clock, settings.model_copy(update={"embed_model": None}))
    assert await query_rows(database, "select distinct model, cardinality(vector) as size from embedding") == [
        {"model": "wordllama-256", "size": 256}
    ]
    assert await embed_missing(database, vectored) == "3 made"
    assert await embed_missing(database, settings) is None
