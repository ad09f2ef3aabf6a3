"""One line in an agent of the OpenAI Agents SDK, as users write it: real processes over one database."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from consolidator.testing import ModelServer
from tests.support import PATIENCE, in_thread, run_cli

pytestmark = pytest.mark.skipif(find_spec("agents") is None, reason="the OpenAI Agents SDK is not installed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "agents_sdk.py"
LOOPS_AND_THREADS = """
import asyncio, threading
from consolidator.integrations.openai_agents import ConsolidatorSession

session = ConsolidatorSession("main:cli:threads")

def add(number):
    asyncio.run(session.add_items([{"role": "user", "content": str(number)}]))

threads = [threading.Thread(target=add, args=(number,)) for number in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()

async def close_and_open_again():
    print(sorted(item["content"] for item in await session.get_items()))
    await session.close()
    async with ConsolidatorSession("main:cli:threads") as other:
        print(len(await other.get_items()))

asyncio.run(close_and_open_again())
asyncio.run(ConsolidatorSession("main:cli:threads").clear_session())
"""


def run_python(environment: dict[str, str], *words: str) -> str:
    """Run a Python program to its end and return what it wrote; it must say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_a_conversation_goes_on_in_the_next_process(environment: dict[str, str]) -> None:
    async with ModelServer(["Hello Mara.", "You said hello."]) as server:
        exported = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        # The SDK and its libraries warn of their own.
        own = {**environment, **exported, "PYTHONWARNINGS": "default::ResourceWarning"}
        first = await in_thread(run_python, own, str(EXAMPLE), "hello")
        second = await in_thread(run_python, own, str(EXAMPLE), "what did I say?")
    assert first == "Hello Mara.\n[2 items in the conversation]\n"
    assert second == "You said hello.\n[4 items in the conversation]\n"
    assert [entry["content"] for entry in server.requests[-1]["messages"]] == [
        "hello",
        "Hello Mara.",
        "what did I say?",
    ]
    listed = await in_thread(run_cli, "session", "list", environment=environment)
    assert "main:cli:mara" in listed.stdout


def test_one_session_serves_threads_and_event_loops(environment: dict[str, str]) -> None:
    written = run_python({**environment, "PYTHONWARNINGS": "default::ResourceWarning"}, "-c", LOOPS_AND_THREADS)
    assert written == "['0', '1', '2', '3', '4']\n5\n"


def test_a_forked_process_opens_its_own_connections(environment: dict[str, str]) -> None:
    program = """
import asyncio, os
from consolidator.integrations.openai_agents import ConsolidatorSession

session = ConsolidatorSession("main:cli:fork")
asyncio.run(session.add_items([{"role": "user", "content": "parent"}]))
if (child := os.fork()) == 0:
    asyncio.run(session.add_items([{"role": "user", "content": "child"}]))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print([item["content"] for item in asyncio.run(session.get_items())])
"""
    assert run_python({**environment, "PYTHONWARNINGS": "default::ResourceWarning"}, "-c", program) == (
        "['parent', 'child']\n"
    )


def test_a_database_that_is_not_there_is_said_and_tried_again(environment: dict[str, str]) -> None:
    program = """
import asyncio
from consolidator.errors import DatabaseUnavailable
from consolidator.integrations.openai_agents import ConsolidatorSession

session = ConsolidatorSession("main:cli:mara")
for _ in range(2):
    try:
        asyncio.run(session.get_items())
    except DatabaseUnavailable as error:
        print("cannot connect" in str(error))
"""
    closed = environment | {"CONSOLIDATOR_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    assert run_python({**closed, "PYTHONWARNINGS": "default::ResourceWarning"}, "-c", program) == "True\nTrue\n"
