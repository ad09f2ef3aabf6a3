"""Sessions that a crash stopped are resumed: when the service starts, and by `consolidator wake`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from consolidator import Consolidator, tool
from consolidator.database import Database
from consolidator.runtime import sessions
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at
from tests import nights
from tests.nights import start_cli
from tests.runtime import describe_log, open_agent, read_log
from tests.support import PATIENCE, SimulatedKill, in_thread, run_cli

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
    (tmp_path / "mytools.py").write_text(TOOLS)
    async with ModelServer(answers=create_reply) as server:
        async with open_agent(database, server) as agent:
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
            await in_thread(service.communicate, None, PATIENCE)
        assert service.returncode == 0
        assert await nights.query_number(database, SETTLED, handy) == 0
        words = ["wake", "--all", "--tools", str(tmp_path / "mytools.py"), "--json"]
        [woken] = json.loads((await in_thread(run_cli, *words, environment=service_environment)).stdout)
    assert (woken["session"], woken["finish_reason"], woken["executed_tool_count"]) == (handy, "stop", 1)
    assert describe_log(await read_log(database, plain))[-3:] == [
        "decision: generation_replaced", "ThinkingStart", "model: Here I am again.",
    ]  # fmt: skip
    assert describe_log(await read_log(database, handy))[-4:] == [
        "call: look", "result: look ok", "ThinkingStart", "model: Here I am again.",
    ]  # fmt: skip
