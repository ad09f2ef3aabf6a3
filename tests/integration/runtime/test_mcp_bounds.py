"""Whatever an MCP server sends, and however much: it is read within bounds, and ends in an outcome that says why."""

from __future__ import annotations

import os
import sys

import pytest
from anyio.abc import Process
from mcp import StdioServerParameters

from consolidator.errors import UsageError
from consolidator.runtime.tools import mcp_tools
from consolidator.runtime.tools.mcp_tools import McpServerProcess, ServerOutput
from consolidator.runtime.tools.tool import CallContext, Toolbox

CALL = CallContext("call-7", "session-1")


def server(mode: str) -> list[str]:
    return [sys.executable, "-m", "tests.integration.runtime.mcp_hostile_server", mode]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("endless line", "a message of more than"),
        ("endless answer", "a message of more than"),
        ("endless lines", "bytes for one request"),
        ("endless empty lines", "messages for one request"),
        ("endless notifications", "messages for one request"),
        ("endless requests", "messages for one request"),
    ],
)
async def test_a_server_that_sends_without_end_is_stopped_and_the_call_says_so(mode: str, reason: str) -> None:
    async with mcp_tools.mcp_tools(server(mode)) as tools:
        outcome = await Toolbox(tools).run("work", {}, CALL)
    assert outcome.status == "error"
    assert "was stopped, because it sent" in outcome.content
    assert reason in outcome.content
    assert "may have taken effect" in outcome.content


async def test_no_more_of_an_endless_line_is_read_than_a_message_may_have() -> None:
    output = ServerOutput(max_message_bytes=300_000)
    command = server("endless line")
    process = McpServerProcess(StdioServerParameters(command=command[0], args=command[1:]), output)
    client = await process.client()
    with pytest.raises(Exception, match=r"(?i)closed"):
        await client.call_tool("work", {})
    assert process.output.received_bytes <= 300_000 + 2 * 65536
    await process.stop()


async def test_a_server_that_was_stopped_is_started_again_at_the_next_call() -> None:
    async with mcp_tools.mcp_tools(server("endless line")) as tools:
        for _ in range(2):
            outcome = await Toolbox(tools).run("work", {}, CALL)
            assert "was stopped, because it sent" in outcome.content


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("endless line at the start", "a message of more than"),
        ("endless pages", "does not end within"),
        ("many tools", "more than 500"),
        ("huge schema", "the schema of 'work'"),
        ("tools of the wrong form", "refused|did not list"),
        ("never lists", "did not list its tools within"),
    ],
)
async def test_a_server_whose_list_of_tools_does_not_end_or_fit_is_refused(
    mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "never lists":
        monkeypatch.setattr(mcp_tools, "START_TIMEOUT", 20.0)
    with pytest.raises(UsageError, match=message):
        async with mcp_tools.mcp_tools(server(mode)):
            pass


async def test_a_description_is_shown_to_a_model_in_part_only() -> None:
    async with mcp_tools.mcp_tools(server("huge description")) as (tool,):
        assert len(tool.description) == mcp_tools.MAX_DESCRIPTION_CHARACTERS


async def test_what_a_server_writes_to_its_stderr_is_read_and_only_its_end_is_kept() -> None:
    async with mcp_tools.mcp_tools(server("endless stderr")) as tools:
        outcome = await Toolbox(tools).run("work", {}, CALL)
    assert outcome.content == "done"


async def test_the_last_line_of_a_flooded_stderr_is_known() -> None:
    command = server("endless stderr")
    process = McpServerProcess(StdioServerParameters(command=command[0], args=command[1:]))
    await (await process.client()).call_tool("work", {})
    await process.stop()
    assert process.output.last_stderr_line() == "the end of it"
    assert len(process.output.stderr_tail) <= 4096


@pytest.mark.parametrize("mode", ["deep result", "result of the wrong form", "never answers"])
async def test_an_answer_that_is_none_ends_in_an_error(mode: str) -> None:
    async with mcp_tools.mcp_tools(server(mode), call_timeout=2) as tools:
        outcome = await Toolbox(tools).run("work", {}, CALL)
    assert outcome.status == "error"
    assert len(outcome.content) < 10_000


async def test_an_error_of_a_server_is_shown_in_part_only() -> None:
    async with mcp_tools.mcp_tools(server("huge error")) as tools:
        outcome = await Toolbox(tools).run("work", {}, CALL)
    assert outcome.status == "error"
    assert len(outcome.content) < 5_000


async def test_a_result_of_many_parts_is_one_result() -> None:
    async with mcp_tools.mcp_tools(server("many blocks")) as tools:
        outcome = await Toolbox(tools).run("work", {}, CALL)
    assert outcome.content.count("done") == 100_000


async def test_the_process_is_gone_after_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    signal_group = mcp_tools._signal_group

    def record_pid(process: Process, number: int) -> None:
        pids.append(process.pid)
        signal_group(process, number)

    monkeypatch.setattr(mcp_tools, "_signal_group", record_pid)
    async with mcp_tools.mcp_tools(server("endless answer")) as tools:
        await Toolbox(tools).run("work", {}, CALL)
    assert pids
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
