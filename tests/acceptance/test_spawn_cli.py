"""consolidator spawn: a task is given to a sub-agent, its answer printed, and its parent's log tells of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, describe_log, open_agent, read_log
from tests.support import in_thread, run_here

TOOLS = '''
"""Tools for a sub-agent."""

from consolidator import tool


@tool(idempotent=True)
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is green"


@tool(needs_approval=True)
async def deploy(where: str) -> str:
    """Deploy."""
    return "deployed"
'''


def look_and_tell(request: dict[str, Any]) -> ScriptedReply:
    """Look left, and say what was seen."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return ScriptedReply(text=f"I saw: {last['content']}")
    return ScriptedReply.calling(("look", {"what": "left"}))


async def test_a_task_is_given_to_a_sub_agent_once_for_each_call(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "mytools.py").write_text(TOOLS)
    (tmp_path / "notes.txt").write_text("Left of the door.")
    async with ModelServer(answers=look_and_tell) as server:
        async with open_agent(database, server) as agent:
            parent = (await agent.open(KEY)).id
        model = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}

        async def spawn(*options: str, code: int = 0) -> Any:
            words = ["session", "spawn", parent, "Look around", "--tools", str(tmp_path / "mytools.py"), *options]
            return await in_thread(run_here, *words, environment=environment | model, code=code)

        told = await spawn("--call", "c1", "--context", str(tmp_path / "notes.txt"), "--json")
        requests = len(server.requests)
        again = await spawn("--call", "c1")
        assert len(server.requests) == requests  # a call has one sub-agent, also of another process
        refused = await spawn("--tool", "deploy", code=2)
        shown, offered = str(server.requests[0]["messages"]), server.requests[0]["tools"]
    result = json.loads(told.stdout)
    assert (result["status"], result["text"], result["call_id"]) == ("ok", "I saw: left is green", "c1")
    assert again.stdout.startswith("I saw: left is green\nok: session " + result["session_id"])
    assert "cannot have 'deploy'" in refused.stderr
    assert "Left of the door." in shown
    assert [entry["function"]["name"] for entry in offered] == ["look"]  # what asks a person is nobody's here
    log = await read_log(database, parent)
    assert describe_log(log)[-2:] == ["SubAgentSpawn", "SubAgentComplete"]
    assert [event.data["child"] for event in log if event.type is EventType.SUBAGENT_SPAWN] == [result["session_id"]]
    assert describe_log(await read_log(database, result["session_id"]))[-2:] == [
        "model: I saw: left is green", "SessionEnd",
    ]  # fmt: skip
