"""Sessions are driven by the service all the time, through crashes and by replicas, and by `consolidator wake`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from consolidator import Consolidator, tool
from consolidator.database import Database
from consolidator.runtime.turn import sessions
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests import nights
from tests.forks import Fork
from tests.nights import start_cli
from tests.runtime import describe_log, open_agent, read_log
from tests.support import PATIENCE, SimulatedKill, free_port, in_thread, run_here

SETTLED = "select count(*) from session where id = %s and not pending and lease_owner is null"
TOOLS = '''
from consolidator import tool


@tool(idempotent=True)
def look(what: str) -> str:
    """Look at something."""
    return f"a view of {what}"
'''


@tool(idempotent=True)
def look(what: str) -> str:
    """Look at something."""
    raise SimulatedKill


def create_reply(request: dict[str, Any]) -> ScriptedReply:
    """Call the tool if there is one, then answer."""
    if request.get("tools") and request["messages"][-1]["role"] != "tool":
        return ScriptedReply.calling(("look", {"what": "it"}))
    return ScriptedReply(text="Here I am again.")


async def stop_session(agent: Consolidator, key: str, name: str) -> str:
    """Stop a session in the middle of its turn, and return its id."""

    def die(_: str) -> None:
        raise SimulatedKill

    session = await agent.open(key)
    await sessions.send_message(agent.database, session.id, "hello?")
    with interrupt_at(1, die, name), pytest.raises(SimulatedKill):
        await agent.wake(session.id)
    return session.id


async def test_the_service_wakes_at_its_start_and_a_command_does_with_the_tools_it_is_given(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    """L25."""
    (tmp_path / "mytools.py").write_text(TOOLS)
    stalling = ScriptedReply(text="Here I am.", stall_after=2)
    async with ModelServer(answers=create_reply) as server, ModelServer(answers=lambda _: stalling) as slow_server:
        async with open_agent(database, slow_server) as agent:
            plain = await stop_session(agent, "main:test:plain", "after commit chunk")
        async with open_agent(database, server, [look]) as agent:
            handy = await stop_session(agent, "main:test:handy", "before tool")
        model = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        service_environment = environment | model | {"CONSOLIDATOR_HEALTH_PORT": "0"}
        with start_cli("serve", environment=service_environment) as service:
            assert service.stderr is not None
            answered = f"session {plain}: answered"
            assert await in_thread(lambda lines: any(answered in line for line in lines), service.stderr)
            service.send_signal(signal.SIGTERM)
            await in_thread(service.communicate, PATIENCE)
        assert service.returncode == 0
        assert await nights.query_number(database, SETTLED, handy) == 0
        words = ["session", "wake", "--all", "--tools", str(tmp_path / "mytools.py"), "--json"]
        [woken] = json.loads((await in_thread(run_here, *words, environment=service_environment)).stdout)
    assert (woken["session"], woken["finish_reason"], woken["executed_tool_count"]) == (handy, "stop", 1)
    assert (woken["state"], woken["action"]) == ("TOOL_INVOKED", "reissue_tool_or_fail")
    shown = await in_thread(run_here, "session", "events", plain, "--as", "lecture", environment=service_environment)
    states = [json.loads(line)["type"] for line in shown.stdout.splitlines()]
    assert (states[:2], states[-1]) == (["MESSAGE_RECEIVED", "LLM_CALLED"], "GEN_COMPLETE")
    assert describe_log(await read_log(database, plain))[-3:] == [
        "decision: generation_replaced", "ThinkingStart", "model: Here I am again.",
    ]  # fmt: skip
    assert describe_log(await read_log(database, handy))[-4:] == [
        "call: look", "result: look ok", "ThinkingStart", "model: Here I am again.",
    ]  # fmt: skip


@contextmanager
def serving(server: ModelServer, environment: dict[str, str], *options: str, port: int = 0) -> Iterator[Fork]:
    """Run the service with a stand-in model."""
    model = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
    quick = {"CONSOLIDATOR_HEALTH_PORT": str(port), "CONSOLIDATOR_SESSION_LEASE_SECONDS": "2"}
    with start_cli("serve", *options, environment=environment | model | quick) as service:
        yield service


async def send(database: Database, server: ModelServer, key: str, tools: Any = ()) -> str:
    """Send a message to a session, as a client that drives nothing."""
    async with open_agent(database, server, tools) as agent:
        session = await agent.open(key)
        await sessions.send_message(database, session.id, "hello?")
        return session.id


async def test_the_service_answers_messages_all_the_time_with_tools_of_files_and_mcp_servers(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    """Also after it was killed in the middle of an answer; without the tools it tells which session it leaves alone."""
    (tmp_path / "mytools.py").write_text(TOOLS)
    mcp = {"command": sys.executable, "args": ["-m", "tests.integration.runtime.mcp_test_server"]}
    config = {"mcpServers": {"test": mcp | {"cwd": str(Path(__file__).parents[2])}}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    options = ["--tools", str(tmp_path / "mytools.py"), "--tools", str(tmp_path / "mcp.json")]
    stall = True

    def answer(request: dict[str, Any]) -> ScriptedReply:
        asked = [message for message in request["messages"] if message["role"] == "tool"]
        if not asked:
            return ScriptedReply.calling(("look", {"what": "it"}))
        names = {each["function"]["name"] for each in request["tools"]}
        return ScriptedReply(text=f"I have {len(names)} tools.", stall_after=1 if stall else None)

    async with ModelServer(answers=answer) as server:
        session_id = await send(database, server, "main:test:late", [look])
        with free_port() as port, serving(server, environment, port=port) as service:
            assert service.stderr is not None
            lone = f"session {session_id} is left alone: it uses tools that are missing here: look"
            assert await in_thread(lambda lines: any(lone in line for line in lines), service.stderr)
            health = json.loads(await in_thread(read_health, port))
            assert health["sessions"]["without_tools"] == [{"session": session_id, "missing": ["look"]}]
            for words in (
                ["session", "show", session_id],
                ["session", "show", session_id, "--part", "whole"],
                ["session", "list"],
            ):
                shown = await in_thread(run_here, *words, environment=environment | {"COLUMNS": "300"})
                assert "it waits for tools that no driver has here: look" in shown.stdout, words
        with serving(server, environment, *options) as service:
            await nights.wait_until_counted(database, "select count(*) from generation_chunk")
            service.kill()
            await in_thread(service.communicate, PATIENCE)
        stall = False
        with serving(server, environment, *options) as service:
            await nights.wait_until_counted(database, SETTLED + " and error is null", session_id)
            later = await send(database, server, "main:test:later", [look])
            await nights.wait_until_counted(database, SETTLED, later)
            service.send_signal(signal.SIGTERM)
            await in_thread(service.communicate, PATIENCE)
        assert service.returncode == 0
    first, second = [describe_log(await read_log(database, each)) for each in (session_id, later)]
    called = ["user: hello?", "ThinkingStart", "model: ", "call: look", "result: look ok", "ThinkingStart"]
    assert first[1:9] == [*called, "decision: generation_replaced", "ThinkingStart"]
    assert second[1:7] == called
    assert first[-1] == second[-1]
    assert first[-1].startswith("model: I have ")


def read_health(port: int) -> str:
    """Return the health page."""
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as response:
        return str(response.read().decode())


async def test_two_services_share_sessions_and_one_goes_on_when_the_other_is_stopped(
    database: Database, environment: dict[str, str]
) -> None:
    async with ModelServer(answers=[ScriptedReply(text="Here I am again.", pace=0.05)]) as server:
        with ExitStack() as stack:
            services = [stack.enter_context(serving(server, environment)) for _ in range(2)]
            names = [await send(database, server, f"main:test:{number}") for number in range(10)]
            await nights.wait_until_counted(database, "select count(*) from generation_chunk")
            services[0].send_signal(signal.SIGTERM)
            for name in names:
                await nights.wait_until_counted(database, SETTLED, name)
            await in_thread(services[0].communicate, PATIENCE)
            assert services[0].returncode == 0
            assert services[1].poll() is None
    for name in names:
        answers = [line for line in describe_log(await read_log(database, name)) if line.startswith("model:")]
        assert answers == ["model: Here I am again."]
