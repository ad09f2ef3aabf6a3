"""Facts derived again by another model: a draft changes nothing; it is compared, promoted, restored, discarded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Interrupted, NotFound, UsageError
from consolidator.jobs.consolidation import revisions
from consolidator.jobs.consolidation.revisions import read_again
from consolidator.jobs.ledger import BackfillFilter, JobContext
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.jobs.model import calls as calls_module
from consolidator.jobs.retention import prune
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import FactFilter
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.facts import correct_fact, forget_fact
from consolidator.settings import Settings
from consolidator.store.calls import scopes
from consolidator.store.facts import revisions as store
from consolidator.store.memory import listing
from consolidator.store.queries import execute
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.nights import hold_locks, wait_for_lock_waiters
from tests.oracle import decide_all, fact_json, parse_lines, schema_name, with_model
from tests.support import assert_invariants, log_events, read_memory, run_job, user_message

HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BETTER = "gpt-4o"
NOTHING = ScriptedReply.json({"facts": []})
LIKES = re.compile(r"(\w+) delights me")


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


def two_models(request: dict[str, Any]) -> ScriptedReply:
    """Answer as a model that sees only the first thing in each line, or as a better one that sees and rephrases all."""
    if schema_name(request) == "decisions":
        return decide_all(request)
    facts = []
    for name, who, words in parse_lines(request):
        liked = LIKES.findall(words) if who == "user" else []
        for what in liked if request["model"] == BETTER else liked[:1]:
            sentence = f"The user is fond of {what}." if request["model"] == BETTER else f"The user likes {what}."
            liked_fact = fact_json(
                name, f"{what} delights me", "likes", what, sentence, "preference", single_valued=False
            )
            facts.append(liked_fact)
    return ScriptedReply.json({"facts": facts})


async def log_session(database: Database, clock: FrozenClock, name: str, *words: str) -> None:
    messages: list[NewEvent] = [user_message(text) for text in words]
    await log_events(database, name, messages, peer="mara")
    clock.advance(HOUR)


async def load_believed_sentences(database: Database) -> set[str]:
    async with database.connection() as conn:
        return {r["sentence"] for r in await fetch_dicts(conn, "select sentence from fact where superseded_at is null")}


async def read_draft(database: Database, settings: Settings, **more: Any) -> dict[str, Any]:
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(HOUR)
    choice = BackfillFilter(reprocess=True, **more)
    return await read_again(JobContext(database, settings), choice, BETTER)


async def promote_draft(database: Database, settings: Settings, number: int) -> dict[str, Any]:
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(HOUR)
    return await revisions.promote_revision(JobContext(database, settings), number)


async def test_a_draft_changes_nothing_and_shows_what_it_would_change(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me, rain delights me.", "snow delights me.")
        await run_job(database, model_settings)
        before = await read_memory(database)
        comparison = await read_draft(database, model_settings)
        assert await read_memory(database) == before
        assert comparison["added"] == ["coder: The user is fond of rain."]
        assert comparison["lost"] == []
        assert [[old, new] for old, new in comparison["changed"]] == [
            [f"coder: The user likes {thing}.", f"coder: The user is fond of {thing}."] for thing in ("snow", "tea")
        ]
        clock.advance(HOUR)
        await run_job(database, model_settings)  # and no night believes a draft
        assert await read_memory(database) == before
        again = await read_draft(database, model_settings)
        assert (again["revision"], again["calls"]["calls"]) == (comparison["revision"], 0)
        assert again["changed"] == comparison["changed"]
    await assert_invariants(database)


async def test_a_promoted_draft_is_believed_and_what_was_before_can_be_restored(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    history: list[tuple[datetime, set[str]]] = []

    async def record_beliefs() -> set[str]:
        history.append((clock.now(), await load_believed_sentences(database)))
        return history[-1][1]

    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me, rain delights me.")
        await run_job(database, model_settings)
        before = await record_beliefs()
        draft = (await read_draft(database, model_settings))["revision"]
        await log_session(database, clock, "s1", "snow delights me.")
        await run_job(database, model_settings)
        await promote_draft(database, model_settings, draft)
        after = {"The user is fond of tea.", "The user is fond of rain.", "The user likes snow."}
        assert await record_beliefs() == after
        await log_session(database, clock, "s2", "frost delights me.")
        await run_job(database, model_settings)  # nights go on from there
        assert await record_beliefs() == after | {"The user likes frost."}
        with pytest.raises(UsageError, match="is not a draft"):
            await promote_draft(database, model_settings, draft)
        await assert_invariants(database)
        clock.advance(HOUR)
        await revisions.restore_revision(JobContext(database, model_settings))
        assert await record_beliefs() == before | {"The user likes snow.", "The user likes frost."}
        await promote_draft(database, model_settings, draft)
        assert await record_beliefs() == after | {"The user likes frost."}
    await assert_invariants(database)
    async with database.connection() as conn:  # what was believed at each of these moments is still told
        for moment, facts in history:
            assert {row.sentence for row in await listing.list_facts(conn, FactFilter(as_of=moment))} == facts


async def draft_without_facts(database: Database, clock: FrozenClock, settings: Settings) -> int:
    """Have a fact believed, and a draft made without it; return the draft."""
    async with ModelServer(lambda request: two_models(request) if request["model"] != BETTER else NOTHING) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.")
        await run_job(database, model_settings)
        return int((await read_draft(database, model_settings))["revision"])


async def test_what_a_promotion_retires_during_a_merge_is_believed_no_more(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    draft = await draft_without_facts(database, clock, settings)

    async def merged() -> None:
        async with database.transaction() as conn:
            await merge_agent(conn, "coder", run_id="test", now=clock.now(), settings=settings)

    async with database.connection() as conn:
        await conn.execute("update candidate set reconciled = false")
    with hold_locks(database.dsn, "lock table fact in exclusive mode"):
        merging = asyncio.create_task(merged())
        await wait_for_lock_waiters(database.dsn)  # it has read what the revision before said
        promoting = asyncio.create_task(promote_draft(database, settings, draft))
        await wait_for_lock_waiters(database.dsn, 2)
    await asyncio.gather(merging, promoting)
    assert await load_believed_sentences(database) == set()
    await assert_invariants(database)


async def test_what_is_outdated_already_is_not_written_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await promote_draft(database, settings, await draft_without_facts(database, clock, settings))
    async with database.transaction() as conn:
        query = "select xmin::text, ctid::text, superseded_by, superseded_reason from fact"
        before = await fetch_dicts(conn, query)
        assert [row["superseded_reason"] for row in before] == ["revision"]
        await conn.execute("update candidate set reconciled = false")
        await merge_agent(conn, "coder", run_id="test", now=clock.now(), settings=settings)
        assert await fetch_dicts(conn, query) == before


@pytest.mark.parametrize("doing", ["compare", "promote", "restore"])
async def test_turning_to_a_revision_waits_for_a_merge_before_it_locks_anything_the_merge_wants(
    database: Database, clock: FrozenClock, settings: Settings, doing: str
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.", "snow delights me.")
        await run_job(database, model_settings)
        draft = (await read_draft(database, model_settings))["revision"]
        if doing == "restore":
            await promote_draft(database, model_settings, draft)
    turning: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "compare": lambda: revisions.compare_revision(database, draft),
        "promote": lambda: revisions.promote_revision(JobContext(database, settings), draft),
        "restore": lambda: revisions.restore_revision(JobContext(database, settings)),
    }
    async with database.transaction() as conn:
        await scopes.lock_agents(conn, ["coder"])  # as a merge does, which then comes to its candidates, one by one
        await conn.execute("select from candidate order by ctid desc limit 1 for update")
        task = asyncio.create_task(turning[doing]())
        waiting = asyncio.create_task(wait_for_lock_waiters(database.dsn))
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task.exception()
        await conn.execute("select from candidate order by ctid for update")
    await task
    await assert_invariants(database)


async def test_what_a_person_told_memory_stays_so(database: Database, clock: FrozenClock, settings: Settings) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.", "snow delights me.")
        await run_job(database, model_settings)
        async with database.connection() as conn:
            ids = {r["value"]: r["id"] for r in await fetch_dicts(conn, "select id, value from fact")}
        await forget_fact(database, ids["tea"])
        await correct_fact(database, ids["snow"], "The user likes snow on mountains only.")
        draft = (await read_draft(database, model_settings))["revision"]
        await promote_draft(database, model_settings, draft)
    assert await load_believed_sentences(database) == {"The user likes snow on mountains only."}


async def test_a_discarded_draft_leaves_nothing(database: Database, clock: FrozenClock, settings: Settings) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me, rain delights me.")
        await run_job(database, model_settings)
        before = await read_memory(database)
        draft = (await read_draft(database, model_settings))["revision"]
        async with database.transaction() as conn:
            await store.discard(conn, draft)
        with pytest.raises(UsageError, match="is not a draft"):
            await promote_draft(database, model_settings, draft)
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select 1 from candidate where revision > 1")
        assert not await fetch_dicts(conn, "select 1 from revision_reach")
        with pytest.raises(NotFound):
            await store.get(conn, 99)
    assert await read_memory(database) == before


async def test_what_was_pruned_keeps_what_the_revision_before_read(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me, rain delights me.")
        await run_job(database, model_settings)
        clock.advance(timedelta(days=40))
        await prune(database, older_than=timedelta(days=30))
        await log_session(database, clock, "s1", "snow delights me.")
        await run_job(database, model_settings)
        draft = (await read_draft(database, model_settings))["revision"]
        await promote_draft(database, model_settings, draft)
    assert {"The user likes tea.", "The user is fond of snow."} <= await load_believed_sentences(database)


async def test_after_retention_the_revision_before_is_gone(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.")
        await run_job(database, model_settings)
        await promote_draft(database, model_settings, (await read_draft(database, model_settings))["revision"])
        after = await load_believed_sentences(database)
        clock.advance(timedelta(days=40))
        await prune(database, older_than=timedelta(days=30))
        with pytest.raises(UsageError, match="past retention"):
            await revisions.restore_revision(JobContext(database, model_settings))
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select 1 from candidate where retired_by is not null")
    assert await load_believed_sentences(database) == after
    await assert_invariants(database)


async def test_retention_keeps_what_a_believed_fact_cites(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.")
        await run_job(database, model_settings)
        await promote_draft(database, model_settings, (await read_draft(database, model_settings))["revision"])
    async with database.transaction() as conn:  # as a merge leaves it that was interrupted before it reconciled
        await execute(conn, "update fact set evidence = array(select id from candidate where not active)", {})
        clock.advance(timedelta(days=40))
        await store.delete_retired(conn, clock.now())
        assert await fetch_dicts(conn, "select 1 from candidate where retired_by is not null")
        await execute(conn, "update fact set superseded_at = %(now)s, superseded_reason = 'revision'", {"now": NOON})
        await store.delete_retired(conn, clock.now())
        assert await fetch_dicts(conn, "select 1 from candidate where retired_by is not null") == []


async def test_an_erased_session_leaves_every_revision(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "zebras delights me.")
        await log_session(database, clock, "s1", "tea delights me.")
        await run_job(database, model_settings)
        draft = (await read_draft(database, model_settings))["revision"]
        await promote_draft(database, model_settings, draft)
        await erase_sessions(database, model_settings, await plan_erasure(database, session="s0"), reason="asked")
        async with database.connection() as conn:
            for table in ("candidate", "fact", "revision_reach"):
                assert not await fetch_dicts(conn, f"select 1 from {table} t where t::text ~ 'zebras|s0'"), table
        clock.advance(HOUR)
        await revisions.restore_revision(JobContext(database, model_settings))
    assert await load_believed_sentences(database) == {"The user likes tea."}


async def test_a_server_that_fails_leaves_a_draft_to_go_on_with(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    failing = {"now": False}
    async with ModelServer(
        lambda request: ScriptedReply.failed(401) if failing["now"] else two_models(request)
    ) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.")
        await run_job(database, model_settings)
        failing["now"] = True
        first = await read_draft(database, model_settings)
        assert first["deferred"] == 1
        failing["now"] = False
        second = await read_draft(database, model_settings)
    assert (second["revision"], second["deferred"]) == (first["revision"], 0)
    assert [now for _, now in second["changed"]] == ["coder: The user is fond of tea."]


async def test_interrupted_it_goes_on_where_it_was(database: Database, clock: FrozenClock, settings: Settings) -> None:
    async with ModelServer(two_models) as server:
        model_settings = with_model(settings, server).model_copy(update={"workers": 1})
        for number in range(4):
            await log_session(database, clock, f"s{number}", f"tea{number} delights me.")
        await run_job(database, model_settings)
        stop = asyncio.Event()
        request = len(server.requests)
        with pytest.raises(Interrupted):
            await read_again(
                JobContext(database, model_settings, stop, progress=lambda _: stop.set()),
                BackfillFilter(reprocess=True),
                BETTER,
            )
        done = await read_draft(database, model_settings)
        assert len(server.requests) - request == 4  # no session is read twice
    assert len(done["changed"]) == 4


async def test_a_promotion_is_compared_only_with_what_stays(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    def other_relation(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions" or request["model"] != BETTER:
            return two_models(request)
        (line,) = parse_lines(request)
        fond = fact_json(line[0], "tea delights me", "fond_of", "tea", "The user likes tea, greatly.", "preference")
        return ScriptedReply.json({"facts": [fond]})

    async with ModelServer(other_relation) as server:
        model_settings = with_model(settings, server)
        await log_session(database, clock, "s0", "tea delights me.")
        await run_job(database, model_settings)
        comparison = await read_draft(database, model_settings)
        await promote_draft(database, model_settings, comparison["revision"])
        assert not [request for request in server.requests if schema_name(request) == "decisions"]
    async with database.connection() as conn:
        rows = await fetch_dicts(conn, "select predicate, sentence, flagged from fact where superseded_at is null")
    assert rows == [{"predicate": "fond_of", "sentence": "The user likes tea, greatly.", "flagged": None}]
