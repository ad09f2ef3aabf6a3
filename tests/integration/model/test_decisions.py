"""What many nights say of one thing is one fact: merged by code or by one question a night, with its whole history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.ledger import BackfillFilter
from consolidator.jobs.model import calls as calls_module
from consolidator.memory.facts.reconcile import reconcile_candidates
from consolidator.models.memory_filter import FactFilter
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory import recall
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import correct_fact, forget_fact
from consolidator.settings import Settings
from consolidator.store.memory import listing
from consolidator.store.nights import runs
from consolidator.store.queries import execute
from consolidator.testing import ModelServer, ScriptedReply, model_server
from tests.databases import Row, fetch_dicts
from tests.oracle import candidate_names, decide_all, fact_json, parse_lines, schema_name, with_model
from tests.support import assert_invariants, log_events, read_memory, run_job, user_message

HOUR = timedelta(hours=1)
Answer = Callable[[dict[str, Any]], ScriptedReply]


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


def home_reader(predicate: str = "lives_in") -> Answer:
    """Return a model that takes "HOME: value: sentence" for a fact, and decides by the value."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            return decide_all(request)
        facts = []
        for name, who, words in parse_lines(request):
            if who == "user" and words.startswith("HOME: "):
                _, value, sentence = words.split(": ", 2)
                facts.append(fact_json(name, words, f"{predicate}_{len(sentence)}", value, sentence, "profile"))
        return ScriptedReply.json({"facts": facts})

    return answer


def count_requests(server: ModelServer, kind: str) -> int:
    return len([request for request in server.requests if schema_name(request) == kind])


async def log_home(database: Database, name: str, value: str, sentence: str) -> None:
    await log_events(database, name, [user_message(f"HOME: {value}: {sentence}")], peer="mara")


async def load_facts(database: Database) -> list[Row]:
    async with database.connection() as conn:
        return await fetch_dicts(conn, "select * from fact order by valid_from, id")


async def load_believed_facts(database: Database) -> list[Row]:
    return [fact for fact in await load_facts(database) if fact["superseded_at"] is None]


async def test_a_hundred_nights_of_paraphrases_leave_one_fact_reinforced(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    openings = ["I live in", "My home is", "You find me in", "Home for me means", "I sleep in"]
    async with ModelServer(home_reader()) as server:
        for number in range(100):
            words = f"{openings[number % 5]} Bern{' really' * (number % 7)}{' and truly' * (number % 3)}."
            await log_home(database, f"s{number}", "Bern", words)
            clock.advance(HOUR)
            report = await run_job(database, with_model(settings, server))
            assert report["deferred"] == 0
    (only,) = await load_facts(database)
    assert (only["value"], only["sessions"], only["superseded_at"]) == ("Bern", 100, None)
    assert count_requests(server, "facts") == 100
    assert count_requests(server, "decisions") < 100
    explanation = await explain(database, only["id"])
    assert len(explanation["evidence"]) == 100
    await assert_invariants(database)


async def test_a_scopes_night_is_one_question_however_many_sayings(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(home_reader()) as server:
        await log_home(database, "s0", "Bern", "Mara has a home in Bern.")
        clock.advance(HOUR)
        await run_job(database, with_model(settings, server))
        for number in range(1, 9):
            await log_home(database, f"s{number}", "Bern", f"Bern it is{', yes' * number}, says Mara about home.")
        clock.advance(HOUR)
        await run_job(database, with_model(settings, server))
    assert count_requests(server, "decisions") <= 1
    assert [fact["sessions"] for fact in await load_believed_facts(database)] == [9]


async def test_a_second_night_over_the_same_sayings_changes_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(home_reader()) as server:
        model_settings = with_model(settings, server)
        for number, (value, words) in enumerate(
            [("Bern", "I live in Bern."), ("Bern", "Bern is my home."), ("Basel", "I moved, I live in Basel now.")]
        ):
            await log_home(database, f"s{number}", value, words)
            clock.advance(HOUR)
            await run_job(database, model_settings)
        before, questions = await read_memory(database), count_requests(server, "decisions")
        async with database.transaction() as conn:
            await execute(conn, "update candidate set reconciled = false", {})
        clock.advance(HOUR)
        await run_job(database, model_settings)
        assert await read_memory(database) == before
        assert count_requests(server, "decisions") == questions


async def test_a_model_out_of_reach_loses_nothing_and_the_next_night_merges_with_history(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    reach = {"ok": False}

    def flaky_model(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions" and not reach["ok"]:
            return ScriptedReply.failed(500)
        return home_reader()(request)

    async with ModelServer(flaky_model) as server:
        model_settings = with_model(settings, server)
        for number, words in enumerate(["Mara has a home in Bern.", "Bern it is, says Mara about where home is."]):
            await log_home(database, f"s{number}", "Bern", words)
            clock.advance(HOUR)
            await run_job(database, model_settings)
        first, second = await load_believed_facts(database)
        clock.advance(HOUR)
        reach["ok"] = True
        await run_job(database, model_settings)
    (only,) = await load_believed_facts(database)
    assert (only["id"], only["sessions"]) == (first["id"], 2)
    merged = next(fact for fact in await load_facts(database) if fact["id"] == second["id"])
    assert merged["superseded_by"] == only["id"]
    assert merged["superseded_at"] is not None
    await assert_invariants(database)


@pytest.mark.usefixtures("pgvector")
async def test_what_shares_no_word_is_compared_where_vectors_are_near(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def onto_the_first(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) != "decisions":
            return home_reader()(request)
        decision = {"saying": "c1", "operation": "reinforce", "target": "f1", "reason": "the same in other words"}
        return ScriptedReply.json({"operations": [decision]})

    monkeypatch.setattr(
        model_server, "embed_text", lambda text: [1.0, 0.0] if "water" in text or "tea" in text else [0, 1]
    )
    for embed, facts in ((None, 3), ("small-vectors", 2)):
        agent = f"agent-{facts}"
        async with ModelServer(onto_the_first) as server:
            model_settings = with_model(settings, server, embed_model=embed)
            for number, words in enumerate(
                ("tea: tea warms mornings.", "socks: wool it is.", "kettle: hot water first.")
            ):
                await log_events(
                    database, f"{agent}-{number}", [user_message(f"HOME: {words}")], peer="mara", agent=agent
                )
                clock.advance(HOUR)
                await run_job(database, model_settings)
        assert len([fact for fact in await load_believed_facts(database) if fact["agent"] == agent]) == facts
        assert count_requests(server, "decisions") == (embed is not None)
    (merged,) = [fact for fact in await load_believed_facts(database) if fact["sessions"] == 2]
    assert "by model gpt-4o-mini" in str((await explain(database, merged["id"]))["lines"])


async def test_without_vectors_from_the_server_words_decide(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(home_reader()) as server:
        server.embedding_reply = ScriptedReply.failed(500)
        model_settings = with_model(settings, server, embed_model="small-vectors")
        for number in range(2):
            await log_home(database, f"s{number}", "Bern", f"Bern is home number {number}.")
            clock.advance(HOUR)
            await run_job(database, model_settings)
    assert [fact["sessions"] for fact in await load_believed_facts(database)] == [2]
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select id from candidate where operation is null and rejected is null")


async def test_while_the_index_is_built_anew_nothing_is_decided(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    waiting = "select id from candidate where operation is null"
    async with ModelServer(home_reader()) as server:
        await log_home(database, "s1", "Bern", "Mara has a home in Bern.")
        clock.advance(HOUR)
        async with database.transaction() as conn:
            now = clock.now()
            begun = await runs.start(
                conn,
                job="reindex",
                scheduled_at=now,
                trigger="manual",
                owner="me",
                now=now,
                arguments={"vectors": False},
            )
            await runs.add_units(conn, begun.id, "turn_index", ["s1"])
        await run_job(database, with_model(settings, server))
        async with database.transaction() as conn:
            assert len(await fetch_dicts(conn, waiting)) == 1
            await execute(conn, "update run set status = 'done' where id = %(id)s", {"id": begun.id})
        await run_job(database, with_model(settings, server))
        async with database.connection() as conn:
            assert not await fetch_dicts(conn, waiting)
    assert len(await load_believed_facts(database)) == 1


async def test_a_merge_and_an_explanation_keep_to_one_peer(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            return decide_all(request)
        answers = [
            fact_json(name, words, "lives_in", words, f"Home is {words}.", "profile")
            for name, _, words in parse_lines(request)
        ]
        answers += [
            fact_json(name, "never said", "lives_in", "Ulm", "Home is Ulm.", "profile")
            for name, _, _ in parse_lines(request)
        ]
        return ScriptedReply.json({"facts": answers})

    peers: list[str] = []

    def reconcile_and_record(candidates: Any) -> Any:
        peers.extend(candidate.peer for candidate in candidates)
        return reconcile_candidates(candidates)

    async with ModelServer(read) as server:
        model_settings = with_model(settings, server)
        for number, (peer, town) in enumerate([("ann", "Bern"), ("bob", "Rome"), ("ann", "Kiel")]):
            await log_events(database, f"s{number}", [user_message(town)], peer=peer)
            clock.advance(HOUR)
            if number == 2:
                monkeypatch.setattr("consolidator.jobs.merging.reconciling.reconcile_candidates", reconcile_and_record)
            await run_job(database, model_settings)
    assert set(peers) == {"ann"}
    facts = {fact["value"]: fact["id"] for fact in await load_facts(database)}
    lines_told = "\n".join((await explain(database, facts["Kiel"]))["lines"])
    assert "before: Home is Bern." in lines_told
    assert "Rome" not in lines_told
    assert "2 rejected: 2 quote not in event" in lines_told
    assert "1 rejected" in "\n".join((await explain(database, facts["Rome"]))["lines"])


async def test_what_was_believed_then_is_told_in_the_words_of_then_and_goes_with_an_erasure(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def refining(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) != "decisions":
            return home_reader()(request)
        refinement = {"saying": "c1", "operation": "refine", "target": "f1", "reason": "it says more"}
        return ScriptedReply.json({"operations": [refinement]})

    sentences = ["Mara has a home in Bern.", "By the river, in a house of Bern, Mara lives."]
    moments = []
    async with ModelServer(refining) as server:
        for number, words in enumerate(sentences):
            await log_home(database, f"s{number}", "Bern", words)
            clock.advance(HOUR)
            await run_job(database, with_model(settings, server))
            moments.append(clock.now())
            clock.advance(HOUR)
    async with database.connection() as conn:
        for moment, words in zip(moments, sentences, strict=True):
            assert [fact.sentence for fact in await listing.list_facts(conn, FactFilter(as_of=moment))] == [words]
        assert [
            fact.sentence for fact in await listing.list_facts(conn, FactFilter(query="home", as_of=moments[0]))
        ] == sentences[:1]
        assert not await listing.list_facts(conn, FactFilter(query="river", as_of=moments[0]))
        assert not await listing.list_facts(conn, FactFilter(as_of=moments[0] - 2 * HOUR))
    await erase_sessions(database, settings, await plan_erasure(database, session="s0"), reason="asked for")
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select fact_id from fact_version")
        assert sentences[0] not in [
            fact.sentence for fact in await listing.list_facts(conn, FactFilter(as_of=clock.now()))
        ]


BAD: dict[str, Callable[[], ScriptedReply]] = {
    "no JSON": lambda: ScriptedReply(text="Sure! Here are the operations."),
    "a refusal": lambda: ScriptedReply(refusal="I cannot help with that."),
    "nothing": lambda: ScriptedReply.json({"operations": []}),
    "an invented target": lambda: ScriptedReply.json(
        {"operations": [{"saying": "c1", "operation": "supersede", "target": "f77", "reason": "newer"}]}
    ),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_answer_keeps_both_and_says_so(
    database: Database, clock: FrozenClock, settings: Settings, kind: str
) -> None:
    def bad(request: dict[str, Any]) -> ScriptedReply:
        return BAD[kind]() if schema_name(request) == "decisions" else home_reader()(request)

    async with ModelServer(bad) as server:
        model_settings = with_model(settings, server)
        for number, value in enumerate(["Bern", "Basel"]):
            await log_home(database, f"s{number}", value, f"I am at home in {value}{'!' * number}")
            clock.advance(HOUR)
            await run_job(database, model_settings)
    first, second = await load_believed_facts(database)
    assert first["flagged"] is None
    assert second["flagged"]
    assert any("kept" in line for line in (await explain(database, second["id"]))["lines"])


def operation_reader(operation: str) -> Answer:
    """Return a model that takes "HOME: value: sentence" for a fact of one attribute, and answers with one operation."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            operations = [
                {"saying": name, "operation": operation, "target": None if operation == "add" else "f1", "reason": "so"}
                for name in candidate_names(request)
            ]
            return ScriptedReply.json({"operations": operations})
        facts = []
        for name, who, words in parse_lines(request):
            if who == "user" and words.startswith("HOME: "):
                _, value, sentence = words.split(": ", 2)
                facts.append(fact_json(name, words, "lives_in", value, sentence, "profile"))
        return ScriptedReply.json({"facts": facts})

    return answer


async def run_homes(
    database: Database, clock: FrozenClock, settings: Settings, operation: str, *homes: tuple[str, str]
) -> None:
    """Let a model read one home each night."""
    async with ModelServer(operation_reader(operation)) as server:
        for number, (value, sentence) in enumerate(homes):
            await log_home(database, f"s{number}", value, sentence)
            clock.advance(HOUR)
            await run_job(database, with_model(settings, server))


FINER = ("Bern, Switzerland", "Mara lives in Bern, Switzerland.")


async def test_a_repetition_of_a_refined_fact_is_the_same_fact(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await run_homes(database, clock, settings, "refine", ("Bern", "Mara lives in Bern."), FINER, FINER)
    (only,) = await load_facts(database)
    assert (only["value"], only["sessions"]) == ("Bern, Switzerland", 3)
    await forget_fact(database, only["id"])
    async with database.transaction() as conn:
        await execute(conn, "update candidate set operation = null, target = null, as_subject = null", {})
        await execute(conn, "update candidate set active = value = 'Bern', reconciled = false", {})
    clock.advance(HOUR)
    await run_job(database, settings)
    assert await load_believed_facts(database) == []  # its first wording is forgotten with it


async def test_what_was_kept_beside_stays_so_when_it_is_repeated(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    flat, house = (
        ("a flat in Bern", "Mara lives in a flat in Bern."),
        ("a house in Bern", "Mara lives in a house in Bern."),
    )
    await run_homes(database, clock, settings, "add", flat, house, house, house)
    first, second = await load_believed_facts(database)
    assert (first["value"], first["valid_to"]) == ("a flat in Bern", None)
    assert (second["value"], second["sessions"], bool(second["flagged"])) == ("a house in Bern", 3, True)


async def test_a_late_backfill_ends_where_timely_nights_would_have(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    earlier = (clock.now() - timedelta(days=300)).isoformat()
    async with ModelServer(home_reader("lives")) as server:
        model_settings = with_model(settings, server)
        await log_home(database, "new", "Basel", "I am at home in Basel.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
        old = user_message("HOME: Bern: I am at home in Bern!!", occurred_at=earlier)
        await log_events(database, "old", [old], peer="mara")
        clock.advance(HOUR)
        await run_job(database, model_settings)
    assert [fact["value"] for fact in await load_believed_facts(database)] == ["Basel"]
    bern = next(fact for fact in await load_facts(database) if fact["value"] == "Bern")
    assert bern["valid_to"] is not None


@pytest.mark.parametrize("word", ["forget", "correct"])
async def test_what_a_person_said_holds_against_a_paraphrase(
    database: Database, clock: FrozenClock, settings: Settings, word: str
) -> None:
    async with ModelServer(home_reader()) as server:
        model_settings = with_model(settings, server)
        await log_home(database, "s0", "Bern", "Mara has a home in Bern.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
        (only,) = await load_believed_facts(database)
        if word == "forget":
            await forget_fact(database, only["id"])
        else:
            await correct_fact(database, only["id"], "Mara lives in Thun.")
        await log_home(database, "s1", "Bern", "In Bern, there is the home of Mara.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
    assert [fact["sentence"] for fact in await load_believed_facts(database)] == (
        [] if word == "forget" else ["Mara lives in Thun."]
    )


async def test_erasing_a_session_takes_its_words_out_of_what_others_reinforced(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(home_reader()) as server:
        model_settings = with_model(settings, server)
        await log_home(database, "s0", "Bern", "Mara Zebra has a home in Bern.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
        await log_home(database, "s1", "Bern", "In Bern, there is the home of Mara.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
        assert [fact["sessions"] for fact in await load_believed_facts(database)] == [2]
        await erase_sessions(database, model_settings, await plan_erasure(database, session="s0"), reason="asked")
    (only,) = await load_facts(database)
    assert (only["sentence"], only["sessions"]) == ("In Bern, there is the home of Mara.", 1)
    async with database.connection() as conn:
        for table in ("fact", "candidate", "indexed_fact"):
            assert not await fetch_dicts(conn, f"select 1 from {table} t where t::text like '%%Zebra%%'"), table
    await assert_invariants(database)


async def test_deriving_by_rules_again_keeps_what_a_model_read(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(home_reader()) as server:
        model_settings = with_model(settings, server)
        await log_home(database, "s0", "Bern", "Mara has a home in Bern.")
        clock.advance(HOUR)
        await run_job(database, model_settings)
        before = await read_memory(database)
        await Backfill(database, model_settings, session_filter=BackfillFilter(reprocess=True)).run()
    assert await read_memory(database) == before


async def test_what_is_over_is_recalled_and_explained_with_its_end(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def answer(request: dict[str, Any]) -> ScriptedReply:
        quote, sentence = "in Bern until 2020", "The user lived in Bern until 2020."
        return ScriptedReply.json(
            {"facts": [fact_json("P1", quote, "lives_in", "Bern", sentence, "profile", valid_to="2020")]}
        )

    async with ModelServer(answer) as server:
        await log_events(database, "s1", [user_message("I had a flat in Bern until 2020.")], peer="mara")
        clock.advance(HOUR)
        await run_job(database, with_model(settings, server))
    (only,) = await load_believed_facts(database)
    (line,) = [item.line for item in (await recall.recall(database, "Bern flat")).items if item.kind == "fact"]
    assert line == f"- The user lived in Bern until 2020. (until 2020-01-01) [fact:{only['id'][:8]}]"
    assert "true until 2020-01-01 00:00" in (await explain(database, only["id"]))["lines"]
    async with database.connection() as conn:
        for year, count in ((2019, 1), (2021, 0)):
            assert len(await listing.list_facts(conn, FactFilter(valid_at=datetime(year, 1, 1, tzinfo=UTC)))) == count
