"""Two MCP clients of other people, from npm: the TypeScript SDK, and the inspector on its command line.

CONSOLIDATOR_TEST_NODE_MODULES names a folder with `@modelcontextprotocol/sdk` and `@modelcontextprotocol/inspector`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.memory.recall.block import estimate_tokens
from consolidator.settings import Settings
from tests.acceptance.test_mcp import TOOLS
from tests.nights import workday_events
from tests.support import in_thread, later, log_events, run_job

NODE_MODULES = Path(os.environ.get("CONSOLIDATOR_TEST_NODE_MODULES") or "node_modules").absolute()
SDK, INSPECTOR = (NODE_MODULES / "@modelcontextprotocol" / name for name in ("sdk", "inspector"))
SERVER = [str(Path(sys.executable).with_name("consolidator")), "mcp"]
CALL_TOOLS = Path(__file__).parent / "mcp" / "call_tools.mjs"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not SDK.exists() or not INSPECTOR.exists(),
    reason="no node, or no MCP clients: npm install @modelcontextprotocol/sdk @modelcontextprotocol/inspector, "
    "CONSOLIDATOR_TEST_NODE_MODULES names the folder",
)
HUGE = "tabs " * 100_000
MESSAGE = {"type": "UserMessage", "data": {"text": "hello"}}
CALL = {"tool": "get_user", "arguments": {"user_id": "user_1"}}
OUTCOMES = ("good", "bad", "huge")
# what each call answers begins with, or None for any answer; "!" for an error
CALLS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "recall": [
        ({"query": "tabs"}, "<"),
        ({"token_budget": 5}, "!recall: query: Field required; token_budget: Input should be"),
        ({"query": HUGE}, "!recall: query: String should have at most 8000 characters"),
    ],
    "lookup_error": [
        ({"error": "bash: pytets: command not found"}, "From earlier sessions"),
        ({"error": 5}, "!lookup_error: error: Input should be a valid string"),
        ({"error": HUGE}, "!lookup_error: error: String should have at most 100000 characters"),
    ],
    "how": [
        ({"words": "test"}, "nothing known: no lesson fits"),
        ({"limit": 0}, "!how: limit: Input should be greater than or equal to 1"),
        ({"words": HUGE}, "!how: words: String should have at most 1000 characters"),
    ],
    "suggest_next": [
        ({"recent_calls": [CALL], "agent": "coder"}, "From earlier sessions"),
        ({}, "!give either recent_calls"),
        ({"recent_calls": [{"tool": "Bash", "arguments": {"command": HUGE}}], "agent": "coder"}, ""),
    ],
    "list_procedures": [
        ({"include_unworthy": True}, "From earlier sessions"),
        ({"limit": 1000}, "!list_procedures: limit: Input should be less than or equal to 100"),
        ({"query": HUGE}, "!list_procedures: query: String should have at most 1000 characters"),
    ],
    "follow_procedure": [
        ({"name": "none"}, "no procedure is compiled here"),
        ({"name": HUGE}, "!follow_procedure: name: String should have at most 200 characters"),
    ],
    "learned": [
        ({}, "Learned since "),
        ({"since": "yesterday"}, "!learned: since: Input should be a valid datetime"),
        ({"since": HUGE}, "!learned: since: Input should be a valid datetime"),
    ],
    "explain": [
        ({"id": "FACT"}, "From earlier sessions"),
        ({"id": "nobody"}, "!"),
        ({"id": HUGE}, "!explain: id: String should have at most 200 characters"),
    ],
    "remember": [
        ({"statement": "the release branch is called stable"}, "remembered, for "),
        ({"statement": " "}, "!what memory remembers is one to 400 characters"),
        ({"statement": HUGE}, "!remember: statement: String should have at most 400 characters"),
    ],
    "forget": [
        ({"fact": "release branch"}, "no longer believed: "),
        ({"fact": "zebras"}, "!no fact has this id or these words"),
        ({"fact": HUGE}, "!forget: fact: String should have at most 400 characters"),
    ],
    "record_events": [
        ({"session_key": "main:cli:x", "events": [MESSAGE]}, "recorded: "),
        ({"session_key": "main:cli:x", "events": []}, "!between 1 and 500 events can be recorded at once, not 0"),
        (
            {"session_key": "main:cli:x", "events": [MESSAGE] * 501},
            "!record_events: events: List should have at most 500",
        ),
    ],
}


@pytest.fixture
async def fact_id(database: Database, clock: FrozenClock, settings: Settings) -> str:
    """Three working days and the night after them; the id of a fact."""
    for number in range(3):
        await log_events(database, f"day{number}", workday_events(number), peer="mara")
    clock.set(later(clock.now(), hours=1))
    await run_job(database, settings)
    async with database.connection() as conn:
        row = await (await conn.execute("select id from fact where superseded_at is null limit 1")).fetchone()
    assert row is not None
    return str(row[0])


def run_node(*arguments: str | Path, environment: Mapping[str, str], input_text: str = "") -> tuple[str, int]:
    """Run a program with node in a directory without a project; return what it printed, and its exit code."""
    done = subprocess.run(
        ["node", *map(str, arguments)],
        input=input_text,
        env={**environment},
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr, done.returncode


async def test_the_typescript_sdk_calls_every_tool(fact_id: str, environment: dict[str, str]) -> None:
    calls = [
        (tool, {**arguments, "id": fact_id} if arguments.get("id") == "FACT" else arguments, beginning)
        for tool, cases in CALLS.items()
        for arguments, beginning in cases
    ]
    request = json.dumps([(tool, arguments) for tool, arguments, _ in calls])
    printed, code = await in_thread(
        run_node, CALL_TOOLS, NODE_MODULES, *SERVER, environment=environment, input_text=request
    )
    assert code == 0, printed
    told = json.loads(printed)
    assert set(told["tools"]) == TOOLS == set(CALLS)
    assert len(told["answers"]) == len(calls) == len(TOOLS) * len(OUTCOMES)
    for (tool, _, beginning), answer in zip(calls, told["answers"], strict=True):
        assert answer["error"] == beginning.startswith("!"), (tool, answer)
        assert answer["text"].startswith(beginning.removeprefix("!")), tool
        assert not answer["structured"]
        assert estimate_tokens(answer["text"]) <= (100 if answer["error"] else 2000)
        if answer["error"]:
            assert "\n" not in answer["text"]


async def test_the_inspector_lists_and_calls_tools(fact_id: str, environment: dict[str, str]) -> None:
    inspector = INSPECTOR / "cli" / "build" / "cli.js"
    listed, code = await in_thread(
        run_node, inspector, "--cli", *SERVER, "--method", "tools/list", environment=environment
    )
    assert code == 0, listed
    tools = {tool["name"]: tool for tool in json.loads(listed)["tools"]}
    assert set(tools) == TOOLS
    assert tools["remember"]["inputSchema"]["properties"]["statement"]["maxLength"] == 400
    for words, answer_begins in (
        (["--tool-name", "explain", "--tool-arg", f"id={fact_id}"], "From earlier sessions"),
        (["--tool-name", "recall", "--tool-arg", "query=tabs", "token_budget=5"], "recall: token_budget must be"),
    ):
        called, code = await in_thread(
            run_node, inspector, "--cli", *SERVER, "--method", "tools/call", *words, environment=environment
        )
        (content,) = json.loads(called)["content"]
        assert content["text"].startswith(answer_begins)
