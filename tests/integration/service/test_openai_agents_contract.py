"""What the OpenAI Agents SDK promises of any session, asserted of ours: items, limits, runs that remember, threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from unittest.mock import AsyncMock

import pytest

from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.reuse import dsn, emptied

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed: pip install 'consolidator[agents]'")

import agents
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, SessionSettings
from agents.memory.openai_responses_compaction_session import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from consolidator.integrations.openai_agents import ConsolidatorSession

__all__ = ["dsn", "emptied"]  # fixtures
KEY = "shop:web:mara"
Way = Literal["run", "run_streamed"]
WAYS = pytest.mark.parametrize("way", ["run", "run_streamed"])


def said(text: str, role: str = "user") -> Any:
    """An item as the SDK passes it."""
    return {"role": role, "content": text}


def texts(items: Sequence[Any]) -> list[str]:
    """Return what items say, whoever says it."""
    return [
        each["content"] if isinstance(each["content"], str) else "".join(part["text"] for part in each["content"])
        for each in items
    ]


def repeat_all(body: dict[str, Any]) -> ScriptedReply:
    """Answer with everything that people said as far as the model is shown it."""
    heard = [entry["content"] for entry in body["messages"] if entry["role"] == "user"]
    return ScriptedReply(text=f"heard {', '.join(heard)}")


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    """The SDK sends traces to its maker by default."""
    agents.set_tracing_disabled(True)


@pytest.fixture
def session(database: Database) -> ConsolidatorSession:
    """A session on the test's database."""
    return ConsolidatorSession(KEY, database=database)


@pytest.fixture
def shared_settings(dsn: str, tmp_path: Path) -> Settings:
    """Settings by which sessions open the test's database themselves, for any thread and event loop."""
    return Settings(home=tmp_path, database_url=dsn)


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """A stand-in model in a thread of its own, for all loops."""
    server, started, loop = ModelServer(repeat_all), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(60)
    yield server
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def make_agent(client: AsyncOpenAI) -> Agent[None]:
    """An agent that asks the stand-in."""
    return Agent(name="clerk", model=OpenAIChatCompletionsModel("gpt-4o-mini", client))


async def run(way: Way, model: ModelServer, text: Any, session: Any, **options: Any) -> str:
    """Run an agent once and return its answer."""
    async with AsyncOpenAI(base_url=model.url, api_key="none") as client:
        if way == "run":
            return str((await Runner.run(make_agent(client), text, session=session, **options)).final_output)
        streamed = Runner.run_streamed(make_agent(client), text, session=session, **options)
        _ = [event async for event in streamed.stream_events()]
        return str(streamed.final_output)


@WAYS
async def test_a_run_remembers_the_one_before(way: Way, model: ModelServer, session: ConsolidatorSession) -> None:
    assert await run(way, model, "Oslo", session) == "heard Oslo"
    assert await run(way, model, "Bergen", session) == "heard Oslo, Bergen"
    assert texts(await session.get_items()) == ["Oslo", "heard Oslo", "Bergen", "heard Oslo, Bergen"]


@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")  # the SDK uses a loop that it tidied up
async def test_a_run_without_a_loop_remembers_too(model: ModelServer, shared_settings: Settings) -> None:
    def run_twice() -> list[str]:
        session, loop = ConsolidatorSession(KEY, settings=shared_settings), asyncio.new_event_loop()
        client = AsyncOpenAI(base_url=model.url, api_key="none")
        asyncio.set_event_loop(loop)  # the SDK runs on the thread's own
        try:
            done = [Runner.run_sync(make_agent(client), city, session=session) for city in ("Oslo", "Bergen")]
        finally:
            loop.run_until_complete(client.close())
            loop.run_until_complete(session.close())
            asyncio.set_event_loop(None)
            loop.close()
        return [str(each.final_output) for each in done]

    assert await asyncio.to_thread(run_twice) == ["heard Oslo", "heard Oslo, Bergen"]


@WAYS
async def test_nothing_is_remembered_without_a_session_or_in_another_one(
    way: Way, model: ModelServer, session: ConsolidatorSession, database: Database
) -> None:
    other = ConsolidatorSession("shop:web:ines", database=database)
    assert await run(way, model, "Oslo", session) == "heard Oslo"
    assert await run(way, model, "Bergen", None) == "heard Bergen"
    assert await run(way, model, "Voss", other) == "heard Voss"
    assert texts(await session.get_items()) == ["Oslo", "heard Oslo"]
    assert texts([await other.pop_item()]) == ["heard Voss"]
    await other.clear_session()
    assert (await other.get_items(), len(await session.get_items())) == ([], 2)


@WAYS
async def test_a_list_as_input_is_added_to_the_history(
    way: Way, model: ModelServer, session: ConsolidatorSession
) -> None:
    await session.add_items([said("Oslo"), said("fine", "assistant")])
    assert await run(way, model, [said("Bergen"), said("Voss")], session) == "heard Oslo, Bergen, Voss"
    assert len(await session.get_items()) == 5


@WAYS
async def test_a_program_may_choose_what_the_model_sees_of_the_history(
    way: Way, model: ModelServer, session: ConsolidatorSession
) -> None:
    await session.add_items([said("Oslo"), said("Bergen")])

    def keep_last(history: list[Any], new: list[Any]) -> list[Any]:
        return history[-1:] + new

    for city in ("Voss", "Flåm"):  # what is shown again is not stored again
        await run(way, model, city, session, run_config=RunConfig(session_input_callback=keep_last))
    found = texts(await session.get_items())
    assert found[:3] == ["Oslo", "Bergen", "Voss"]
    assert (len(found), found.count("Bergen"), found.count("Voss")) == (6, 1, 1)


@WAYS
@pytest.mark.parametrize(
    ("limit", "shown"), [(None, "a, b, c, new"), (0, "new"), (2, "b, c, new"), (99, "a, b, c, new")]
)
async def test_a_limit_bounds_what_a_run_reads_and_not_what_is_kept(
    way: Way, limit: int | None, shown: str, model: ModelServer, session: ConsolidatorSession
) -> None:
    await session.add_items([said("a"), said("b"), said("c")])
    config = RunConfig(session_settings=SessionSettings(limit=limit))
    assert await run(way, model, "new", session, run_config=config) == f"heard {shown}"
    assert texts(await session.get_items())[:4] == ["a", "b", "c", "new"]


async def test_a_limit_leaves_no_result_without_its_call(model: ModelServer, session: ConsolidatorSession) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "it is open"}
    await session.add_items([said("look"), call, result, said("It is open.", "assistant")])
    config = RunConfig(session_settings=SessionSettings(limit=2))  # it would begin with the result
    await run("run", model, "thanks", session, run_config=config)
    assert [entry["role"] for entry in model.requests[-1]["messages"]] == ["assistant", "user"]


async def test_limits_of_the_session_and_of_a_call(database: Database, session: ConsolidatorSession) -> None:
    await session.add_items([said(str(number)) for number in range(6)])
    for limit, found in ((None, 6), (0, 0), (1, 1), (6, 6), (100, 6)):
        assert texts(await session.get_items(limit=limit)) == [str(number) for number in range(6 - found, 6)]
    assert session.session_settings == SessionSettings()
    for settings in (SessionSettings(limit=2), {"limit": 2}):
        few = ConsolidatorSession(KEY, database=database, session_settings=settings)
        assert texts(await few.get_items()) == ["4", "5"]
        assert len(await few.get_items(limit=4)) == 4  # the call's goes before
        assert few.session_settings is not None
        assert few.session_settings.resolve(SessionSettings(limit=3)).limit == 3
    with pytest.raises((TypeError, ValueError)):
        ConsolidatorSession(KEY, database=database, session_settings={"limits": 2})


async def test_what_is_popped_is_the_latest_and_gone(session: ConsolidatorSession) -> None:
    await session.add_items([said("one"), said("two")])
    await session.add_items([said("three")])
    assert texts([await session.pop_item() for _ in range(2)]) == ["three", "two"]
    await session.add_items([said("four")])
    assert texts(await session.get_items()) == ["one", "four"]
    assert texts([await session.pop_item() for _ in range(2)]) == ["four", "one"]
    assert await session.pop_item() is None
    await session.add_items([said("five")])
    await session.clear_session()
    await session.clear_session()
    assert (await session.get_items(), await session.get_items(limit=3), await session.pop_item()) == ([], [], None)


@pytest.mark.parametrize(
    "text",
    [
        "你好，世界 😀 naïve Ελληνικά שלום",
        "'; drop table event; --",
        'quotes " and \\ and \n lines \t and $1 %s {} ${HOME}',
        "e\u0301 \u200d \ufeff \ue000 \u2028",
        "",
    ],
)
async def test_any_text_comes_back(text: str, session: ConsolidatorSession) -> None:
    await session.add_items([said(text), said(text, "assistant")])
    assert await session.get_items() == [said(text), said(text, "assistant")]
    assert await session.pop_item() == said(text, "assistant")


async def test_writers_in_many_threads_lose_nothing_and_mix_no_calls(shared_settings: Settings) -> None:
    def write(writer: int) -> None:
        async def add() -> None:
            async with ConsolidatorSession(KEY, settings=shared_settings) as session:
                for call in range(4):
                    await session.add_items([said(f"{writer}/{call}/{part}") for part in range(3)])

        asyncio.run(add())

    await asyncio.gather(*(asyncio.to_thread(write, writer) for writer in range(5)))
    async with ConsolidatorSession(KEY, settings=shared_settings) as session:
        found = texts(await session.get_items())
    assert len(found) == 60
    calls = [found[start : start + 3] for start in range(0, 60, 3)]
    assert all([text[:-2] for text in call] == [call[0][:-2]] * 3 for call in calls)  # the items of a call together
    for writer in range(5):  # and the calls of a writer in their order
        assert [call[0] for call in calls if call[0].startswith(f"{writer}/")] == [f"{writer}/{n}/0" for n in range(4)]


async def test_a_cancelled_append_is_whole_or_absent_and_the_session_goes_on(session: ConsolidatorSession) -> None:
    for pause in (0, 0.001, 0.003, 0.01):
        adding = asyncio.create_task(session.add_items([said(f"{pause} a"), said(f"{pause} b")]))
        await asyncio.sleep(pause)
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
    await session.add_items([said("after")])
    found = texts(await session.get_items())
    assert found[-1] == "after"
    whole = [text for pause in (0, 0.001, 0.003, 0.01) for text in (f"{pause} a", f"{pause} b") if text in found]
    assert found == [*whole, "after"]
    assert len(whole) % 2 == 0


@WAYS
async def test_a_session_that_fails_fails_the_run(
    way: Way, model: ModelServer, session: ConsolidatorSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session._log, "add", AsyncMock(side_effect=DatabaseUnavailable("the database is away")))
    monkeypatch.setattr("consolidator.integrations.openai_agents._FIRST_PAUSE_SECONDS", 0)
    with pytest.raises(DatabaseUnavailable, match="the database is away"):
        await run(way, model, "Oslo", session)


async def test_the_sdk_compacts_our_history_where_a_program_asks_for_it(session: ConsolidatorSession) -> None:
    """Whole, by what any session has; replacing a part at once is for the SDK's own stores, by functions of theirs."""
    await session.add_items([said("Oslo"), said("fine", "assistant"), said("Bergen")])
    client: Any = AsyncMock()
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    client.responses.compact.return_value.output = [summary]
    compacting = OpenAIResponsesCompactionSession(KEY, session, client=client, compaction_mode="input")
    await compacting.run_compaction({"force": True})
    assert client.responses.compact.await_args.kwargs["input"][0]["content"] == "Oslo"
    assert await session.get_items() == [summary]
    await compacting.add_items([said("Voss")])
    assert [item.get("content") for item in await compacting.get_items()] == [None, "Voss"]
