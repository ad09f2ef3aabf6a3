"""An MCP server in a process of its own lends its tools, and its troubles are outcomes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
from mcp import StdioServerParameters

from consolidator.errors import UsageError
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.tools import mcp_tools as module
from consolidator.runtime.tools.mcp_tools import mcp_tools
from consolidator.runtime.tools.tool import CallContext, Toolbox

SERVER = [sys.executable, "-m", "tests.integration.runtime.mcp_test_server"]
CALL = CallContext("call-7", "session-1")


@pytest.fixture
async def tools(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Toolbox]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    async with mcp_tools(SERVER, env={"HELPED": "yes"}) as server_tools:
        yield Toolbox(server_tools)


async def test_a_servers_tools_are_tools_in_every_way(tools: Toolbox) -> None:
    traits = {
        tool.name: (tool.idempotent, tool.side_effect, tool.needs_approval)
        for tool in (tools.get(name) for name in tools.names)
        if tool is not None
    }
    assert traits == {
        "add": (True, False, False),
        "note": (True, True, False),
        "drop": (False, True, True),
        "draw_dot": (False, True, False),
        "die": (False, True, False),
        "complain": (False, True, False),
        "environment": (False, True, False),
    }
    schema = tools.definitions()[0]["function"]["parameters"]
    assert schema["required"] == ["first"]
    assert schema["properties"]["second"]["description"] == "what is added"

    assert await tools.run("add", '{"first": 2, "second": 40}', CALL) == Outcome("42")
    assert (await tools.run("note", {"text": "rain"}, CALL)).content == "rain under call-7"
    assert (await tools.run("drop", {"name": "disk"}, CALL)).status == "error"
    assert (await tools.run("draw_dot", {}, CALL)).content == "[image image/png, 3 bytes, not shown]"
    wrong = await tools.run("add", {"second": "x"}, CALL)
    assert wrong.status == "error"
    assert "'first' is a required property" in wrong.content
    seen = (await tools.run("environment", {}, CALL)).content
    assert "HELPED" in seen
    assert "OPENAI_API_KEY" not in seen
    assert "not run" in (await tools.run("drop", {"name": "x"}, CallContext("c", "s", dry_run=True))).content


async def test_a_server_that_dies_in_a_call_says_so_and_is_there_for_the_next(tools: Toolbox) -> None:
    died = await tools.run("die", {}, CALL)
    assert died.status == "error"
    assert "may have taken effect" in died.content
    assert await tools.run("add", {"first": 1}, CALL) == Outcome("2")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-command-here", "No such file"),
        ("sh -c 'echo the key is missing >&2; exit 3'", "it said: the key is missing"),
        ("", "empty command"),
    ],
)
async def test_a_server_that_does_not_start_is_refused_with_what_it_said(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        async with mcp_tools(command):
            pass


async def test_a_server_that_is_started_again_begins_with_no_complaints() -> None:
    server = module.McpServerProcess(StdioServerParameters(command=SERVER[0], args=SERVER[1:]))
    await (await server.client()).call_tool("complain", {"times": 5})
    await server.stop()
    assert server.output.last_stderr_line() == "complaint 4"
    await server.client()
    assert server.output.last_stderr_line() == ""
    await server.stop()


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_TIMEOUT", 0.05)
    with pytest.raises(UsageError, match="did not answer within"):
        async with mcp_tools(["sleep", "60"]):
            pass


async def test_two_servers_tools_are_kept_apart_by_a_prefix() -> None:
    async with mcp_tools(SERVER, prefix="a.") as first:
        assert first[0].name == "a_add"
        assert await Toolbox(first).run("a_add", {"first": 1}, CALL) == Outcome("2")
