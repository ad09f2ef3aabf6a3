"""The examples work as the documentation says: a stand-in model, a chat that kill -9 ends, and your own agent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from consolidator.testing import ModelServer
from tests.acceptance.terminal import Terminal
from tests.support import PATIENCE, in_thread, run_here

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MEMORY_TOOLS = {"recall", "lookup_error", "explain", "remember", "forget"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The base URL of the stand-in model."""
    words = [sys.executable, str(EXAMPLES / "model.py"), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        try:
            yield model.stdout.readline().split()[2].rstrip(";")
        finally:
            model.terminate()


@pytest.fixture
def model_environment(environment: dict[str, str], url: str) -> dict[str, str]:
    """The environment that the page about sessions tells a newcomer to export."""
    exported = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    return {name: value for name, value in (environment | exported).items() if name != "CONSOLIDATOR_CLOCK"}


def test_a_newcomer_sees_a_conversation_survive_kill_9(model_environment: dict[str, str], tmp_path: Path) -> None:
    """C1, C13, C14, L26."""
    page = (ROOT / "docs/sessions.md").read_text()
    assert "consolidator chat --tools examples/mytools.py" in page
    assert all(f"{name}=" in page for name in ("CONSOLIDATOR_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"))
    words = ["chat", "--tools", str(EXAMPLES / "mytools.py")]
    with Terminal(*words, environment=model_environment, cwd=tmp_path) as screen:
        screen.wait_for("> ")
        screen.type_line("note buy milk")
        screen.wait_for("kept, with 0 earlier notes")
        screen.wait_for("> ")
        screen.type_line("story")
        screen.wait_for("3. The question")
        screen.kill()
    with Terminal(*words, environment=model_environment, cwd=tmp_path) as screen:
        screen.wait_for("Restored: 1 previous turns")
        screen.wait_for("you said: story")
        screen.wait_for("3. The question")
        screen.type_line("enough, hello")
        screen.wait_for("You say 'enough, hello'")
        screen.wait_for("> ")
        screen.type_line("/quit")
        assert screen.wait_for_exit() == 0
    [kept] = [json.loads(line) for line in (tmp_path / "notes.jsonl").read_text().splitlines()]
    assert kept["text"] == "buy milk"
    go_on_from_files(model_environment, tmp_path)


def go_on_from_files(environment: dict[str, str], folder: Path) -> None:
    """Do what `docs/exercises.md` says with the files of the conversation: look at them, and go on from its log."""

    def run(*words: str) -> str:
        return run_here(*words, environment=environment, cwd=folder).stdout

    run("mirror", "workspace/.sessions", "--once")
    [entry] = json.loads((folder / "workspace/.sessions/sessions.json").read_text()).values()
    assert (folder / "workspace/.sessions/transcripts" / entry["transcript_file"]).read_text().count("\n") == 9
    log = run("session", "events", entry["session_id"], "--as", "lecture")
    kinds = [json.loads(line)["type"] for line in log.splitlines()]
    assert {"MESSAGE_RECEIVED", "LLM_CALLED", "TOOL_INVOKED", "TOOL_RESULT", "GEN_COMPLETE", "GEN_SENT"} <= set(kinds)
    assert kinds.index("GEN_CHUNK") < kinds.index("GEN_RESUMED") < len(kinds) - 1 - kinds[::-1].index("GEN_START")
    (folder / "log.jsonl").write_text(log)
    run("import", "log.jsonl")
    fork = run("session", "fork", "harness:log").split()[1].rstrip(":")
    run("session", "say", fork, "and now?")
    run("session", "wake", fork)
    assert "Before that you said 'enough, hello'" in run("session", "events", fork, "--as", "replay")


@pytest.mark.skipif(find_spec("absurdctl") is None, reason="needs absurd-sdk and absurdctl")
def test_a_durable_engine_keeps_a_pointer_of_four_fields_and_none_of_what_was_said(
    model_environment: dict[str, str], dsn: str, tmp_path: Path
) -> None:
    """P2, P24."""
    import absurdctl

    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        conn.execute("select absurd.create_queue('default')")
        environment = {**model_environment, "ABSURD_DATABASE_URL": dsn}

        def run(*words: str) -> subprocess.Popen[str]:
            program = [sys.executable, str(EXAMPLES / "durable.py"), *words]
            return subprocess.Popen(program, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

        with run("note buy milk") as process:
            assert "kept, with 0 earlier notes" in process.communicate(timeout=PATIENCE)[0]
        with run("story") as process:  # which dies in the middle of its answer
            wait_for_row(conn, "select from consolidator.generation_chunk where seq = 8")
            process.kill()
        conn.execute("update absurd.r_default set claim_expires_at = now() where state = 'running'")
        for words in ("hello", "thanks"):  # whoever comes next takes its task over, and tries it again
            with run(words) as process:
                assert process.wait(PATIENCE) == 0
            conn.execute("update absurd.r_default set available_at = now() where state in ('pending', 'sleeping')")
        assert conn.execute("select count(*) from absurd.t_default where state = 'completed'").fetchone() == (4,)
        steps = [state for (state,) in conn.execute("select state from absurd.c_default").fetchall()]
    fields = {"to_message_number", "finish_reason", "usage", "executed_tool_count"}
    assert all(step.keys() == fields for step in steps)
    assert [step["executed_tool_count"] for step in steps if step["finish_reason"] == "tool_calls"] == [1]
    assert "milk" not in str(steps)


def wait_for_row(conn: psycopg.Connection[Any], query: LiteralString) -> None:
    deadline = time.monotonic() + PATIENCE
    while conn.execute(query).fetchone() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_agent_of_ones_own_is_a_dozen_lines(model_environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "agent.py"), "note milk"],
        env=model_environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert "[0 earlier turns]\n\n> note milk\nThe tool says: kept, with 0 earlier notes" in done.stdout


def run_example(environment: dict[str, str], name: str, *words: str) -> str:
    """Run an example to its end and return what it wrote; a framework may warn of its own."""
    own = {**environment, "PYTHONWARNINGS": "default::ResourceWarning"}
    program = [sys.executable, str(EXAMPLES / name), *words]
    done = subprocess.run(program, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(find_spec("langgraph") is None, reason="LangGraph is not installed")
def test_a_langgraph_agent_knows_what_it_was_told_in_another_thread(environment: dict[str, str]) -> None:
    assert run_example(environment, "langgraph_store.py").splitlines() == [
        "You said 'I like tea'; before that: []",
        "You said 'I live in Bern'; before that: ['I like tea']",
        "[('memories', 'mara')]",
    ]


@pytest.mark.skipif(find_spec("pydantic_ai") is None, reason="Pydantic AI is not installed")
async def test_a_pydantic_ai_agent_is_told_what_is_known_about_a_prompt(environment: dict[str, str]) -> None:
    async with ModelServer(["On Tuesdays."]) as server:
        exported = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        told = await in_thread(run_example, environment | exported, "pydantic_ai_memory.py", "when do we deploy?")
    assert told == "On Tuesdays.\n"
    [request] = server.requests
    block, prompt = (message["content"] for message in request["messages"] if message["role"] == "user")
    assert "- We deploy on Tuesdays." in block
    assert prompt == "when do we deploy?"
    assert {tool["function"]["name"] for tool in request["tools"]} == MEMORY_TOOLS


@pytest.mark.skipif(find_spec("agents") is None, reason="the OpenAI Agents SDK is not installed")
def test_an_agent_of_the_sdk_has_something_remembered(model_environment: dict[str, str]) -> None:
    told = run_example(model_environment, "agents_memory.py", "remember we use tabs").splitlines()
    assert told[0].startswith('The tool says: remembered: "We use tabs." [fact:')
    assert told[1] == "['We use tabs.']"


def test_a_program_asks_memory_with_a_few_lines(environment: dict[str, str], tmp_path: Path) -> None:
    written = [
        subprocess.run(
            [sys.executable, str(EXAMPLES / "library.py")],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert written[0][0] == "new: We deploy on Tuesdays."
    assert written[1][0] == "known: We deploy on Tuesdays."
    assert written[0][2] == "Always use tabs for indentation."
    assert written[0][3] == "  said: From now on, always use tabs for indentation."
    assert written[0][2:] == written[1][2:]
    assert "[fact:" in written[0][6]


def test_ones_own_query_of_the_tables_is_a_select(environment: dict[str, str]) -> None:
    assert "examples/queries.py" in (ROOT / "docs/library.md").read_text()
    run_here("remember", "we deploy on Tuesdays", environment=environment)
    stated, counted = run_example(environment, "queries.py").splitlines()
    assert stated.endswith(": We deploy on Tuesdays.")
    assert counted == "environment: 1"
