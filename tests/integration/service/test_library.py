"""`from consolidator import Memory`: what programs ask and tell, with `await` and without, from many threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any, assert_type

import pytest
from pydantic import SecretStr

from consolidator import BlockingMemory, Database, Memory, Viewer
from consolidator.errors import ConsolidatorError, Forbidden, NotFound, UsageError
from consolidator.library.memory import Explanation
from consolidator.models.fact import FactRow
from consolidator.service.memory.recall import RecallResult
from consolidator.settings import Settings
from tests.conftest import NOON

KEY = "main:cli:mara"
STATED = [
    {"type": "UserMessage", "data": {"text": "From now on, always use tabs for indentation."}},
    {"type": "AssistantResponse", "data": {"text": "Tabs it is."}},
]
FAILED = [
    {"type": "UserMessage", "data": {"text": "Run the tests"}},
    {"type": "ToolCall", "data": {"call_id": "a", "tool": "Bash", "arguments": {"command": "pytets tests/a.py"}}},
    {"type": "ToolResult", "data": {"call_id": "a", "status": "error", "content": "bash: pytets: command not found"}},
    {"type": "ToolCall", "data": {"call_id": "b", "tool": "Bash", "arguments": {"command": "pytest tests/a.py"}}},
    {"type": "ToolResult", "data": {"call_id": "b", "status": "ok", "content": "3 passed"}},
]


@pytest.fixture
def own(dsn: str, settings: Settings) -> Settings:
    """Settings that name the test's database, where a session may be read at once."""
    return settings.model_copy(update={"database_url": SecretStr(dsn), "clock": NOON, "quiet_minutes": 0})


@pytest.fixture
def memory(own: Settings) -> Iterator[Memory]:
    """A memory that opens the test's database itself."""
    opened = Memory(settings=own)
    yield opened
    opened.close_and_wait()


async def test_what_is_recorded_becomes_memory(memory: Memory) -> None:
    recorded = await memory.record(KEY, STATED, project="/src/shop", idempotency_key="1")
    again = await memory.record(KEY, STATED, project="/src/shop", idempotency_key="1")
    assert (recorded.first_seq, recorded.last_seq, recorded.repeated, again.repeated) == (1, 2, False, True)
    await memory.record("main:cli:bo", FAILED, project="/src/shop")
    assert await memory.learned() is None

    report = await memory.run_night()
    assert (report.status, report.seen, report.dead, report.error) == ("done", 7, 0, None)

    [fact] = await memory.facts("tabs")
    assert (fact.agent, fact.trust) == ("main", "user")
    assert f"[fact:{fact.id[:8]}]" in (await memory.recall("tabs or spaces for indentation?")).block
    [solution] = await memory.lookup_error("bash: pytets: command not found", tool="Bash")
    assert "pytest" in solution.body["line"]
    assert [row.id for row in await memory.solutions()] == [solution.id]
    assert await memory.procedures() == []
    explained = await memory.explain(fact.id)
    assert [(quote.session_id, quote.seq, quote.log) for quote in explained.evidence] == [
        (recorded.session, 1, "there")
    ]
    assert "tabs" in explained.evidence[0].quote
    news = await memory.learned()
    assert news is not None
    assert [row.id for row in news.facts] == [fact.id]
    with pytest.raises(NotFound):
        await memory.explain("nothing")


def test_what_is_remembered_holds_at_once_until_it_is_forgotten(memory: Memory) -> None:
    told = memory.blocking.remember("we use tabs", project="/src/shop")
    assert (told.scope, told.project, told.known) == ("project", "/src/shop", False)
    assert told.id[:8] in memory.blocking.recall("do we use tabs?", project="/src/shop").block
    assert memory.blocking.remember("we use tabs", project="/src/shop").known
    assert memory.blocking.forget("tabs").id == told.id
    assert memory.blocking.facts() == []
    with pytest.raises(NotFound):
        memory.blocking.forget("tabs")


async def test_an_agents_word_is_no_persons(own: Settings) -> None:
    agent = Viewer(scopes=frozenset({"read", "record"}))
    async with Memory(settings=own) as person, Memory(settings=own, viewer=agent) as other:
        said = await person.remember("we use tabs", agent="main")
        noted = await other.remember("the build takes ten minutes", agent="main")
        assert {row.id: row.trust for row in await person.facts()} == {said.id: "user", noted.id: "agent"}
        with pytest.raises(Forbidden):
            await other.forget(said.id)


def test_synchronous_code_needs_no_event_loop(own: Settings) -> None:
    with Memory(settings=own) as memory:
        memory.record(KEY, STATED)
        assert memory.run_night().seen == 2
        [fact] = memory.facts(query="tabs", limit=1)
        assert fact.sentence in memory.explain(fact.id).title
        assert memory.recall("tabs", token_budget=500).items[0].kind == "fact"
    with pytest.raises(UsageError, match="closed"):
        memory.facts()


def test_the_synchronous_form_has_the_same_methods_and_types(memory: Memory) -> None:
    public = {name for name, method in inspect.getmembers(Memory, inspect.iscoroutinefunction) if name[0] != "_"}
    assert public == {name for name in vars(BlockingMemory) if name[0] != "_"}
    for name in public - {"close"}:
        method, form = getattr(Memory, name), getattr(BlockingMemory, name)
        assert inspect.signature(method) == inspect.signature(form)
        assert not inspect.iscoroutinefunction(form)
        assert form.__doc__ == method.__doc__
    blocking = memory.blocking  # mypy checks what follows
    assert_type(blocking.facts("x", limit=3), list[FactRow])
    assert_type(blocking.recall("x"), RecallResult)
    with pytest.raises(NotFound):
        assert_type(blocking.explain("x"), Explanation)
    with pytest.raises(TypeError):
        blocking.recall()  # type: ignore[call-arg]


def test_threads_and_event_loops_share_one_database(own: Settings, memory: Memory) -> None:
    memory.blocking.record(KEY, STATED)
    memory.blocking.run_night()
    found: list[list[FactRow]] = []

    def ask_in_own_loop() -> None:
        async def ask() -> None:
            found.extend(await asyncio.gather(*[memory.facts("tabs") for _ in range(5)]))

        asyncio.run(ask())

    def ask_and_wait() -> None:
        with Memory(settings=own) as other:
            found.append(other.facts("tabs"))

    threads = [threading.Thread(target=target) for target in (ask_in_own_loop, ask_and_wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(facts) for facts in found] == [1] * 24
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("consolidator-database") == 1  # `memory` still has it


def test_the_last_one_closes_the_database(own: Settings) -> None:
    with Memory(settings=own) as memory, Memory(settings=own) as other:
        memory.facts()
        other.facts()
        memory.close()
        assert other.facts() == []
        assert "consolidator-database" in {thread.name for thread in threading.enumerate()}
    assert "consolidator-database" not in {thread.name for thread in threading.enumerate()}


async def test_a_call_is_about_what_the_memory_is_about(own: Settings) -> None:
    async with Memory(settings=own) as memory:
        await memory.record(KEY, STATED, project="/src/shop")
        await memory.run_night()
    async with Memory(settings=own, agent="main") as memory, Memory(settings=own, agent="other") as other:
        assert len(await memory.facts()) == 1
        assert await other.facts() == []
        assert len(await other.facts(agent="main")) == 1


async def test_a_viewer_is_a_boundary(own: Settings) -> None:
    async with Memory(settings=own) as memory:
        await memory.record(KEY, STATED)
        await memory.run_night()
        [fact] = await memory.facts()
    async with Memory(settings=own, viewer=Viewer(peer="bo", scopes=frozenset({"read"}))) as other:
        assert await other.facts() == []
        with pytest.raises(NotFound):
            await other.explain(fact.id)
        with pytest.raises(ConsolidatorError):
            await other.facts(peer="mara")
        with pytest.raises(Forbidden):
            await other.record("main:cli:bo", STATED)
        with pytest.raises(Forbidden):
            await other.run_night()


async def test_an_open_database_of_the_programs_own_is_used(database: Database) -> None:
    async with Memory(database=database) as memory:
        await memory.record(KEY, STATED)
    async with database.connection() as conn:  # closing the memory left it open
        cursor = await conn.execute("select count(*) from event")
        assert await cursor.fetchone() == (2,)
    with pytest.raises(UsageError, match="leave it out"):
        Memory(database=database).blocking.facts()


async def test_a_cancelled_call_is_over(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    started, ended = threading.Event(), threading.Event()

    async def list_forever(*_: Any, **__: Any) -> list[FactRow]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    monkeypatch.setattr("consolidator.service.memory.facts.list_facts", list_forever)
    asking = asyncio.create_task(memory.facts())
    assert await asyncio.to_thread(started.wait, 60)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(ended.wait, 60)
