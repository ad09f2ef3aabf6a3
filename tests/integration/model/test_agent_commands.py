"""Questions to a coding agent's command line: programs that answer in the form of each, well and badly."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from consolidator.errors import ModelUnavailable
from consolidator.llm import MARKER, WORKING_FOLDER
from consolidator.llm.choice import choose_model, pick_model, save_permission
from consolidator.llm.client import ModelRequest, parse_reply
from consolidator.llm.commands import CommandClient
from consolidator.settings import Settings
from tests.conftest import NOON

SCHEMA = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"]}
CLAUDE = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn", "total_cost_usd": 0.001}
CLAUDE |= {
    "result": '{"facts": []}',
    "usage": {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 9},
}
CODEX = (
    {"type": "thread.started", "thread_id": "t"},
    {"type": "error", "message": "Reconnecting... 2/5"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": '{"facts": []}'}},
    {"type": "turn.completed", "usage": {"input_tokens": 1000, "cached_input_tokens": 100, "output_tokens": 9}},
)
GEMINI = {"response": '{"facts": []}', "stats": {"models": {"m": {"tokens": {"prompt": 1000, "cached": 100}}}}}
ANSWERS = {
    "claude-code": json.dumps(CLAUDE),
    "codex": "\n".join(map(json.dumps, CODEX)),
    "gemini-cli": json.dumps(GEMINI, indent=2),
}
OUTAGES = {
    "claude-code": ({**CLAUDE, "is_error": True, "result": "Not logged in · Please run /login"}, "not logged in"),
    "codex": ({"type": "turn.failed", "error": {"message": "You've hit your usage limit."}}, "no quota left"),
    "gemini-cli": ({"error": {"message": "Please set an Auth method"}}, "not logged in"),
}


def write_program(folder: Path, output: str, *, code: str = "", status: int = 0) -> str:
    """Write a program that notes how it was run and prints what an agent's command line would."""
    path = folder / "program"
    seen = "[sys.argv[1:], sys.stdin.read(), os.getcwd(), dict(os.environ)]"
    note = f"json.dump({seen}, open(os.environ['HOME'] + '/seen', 'w'))"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\n{note}\n{code}\nprint({output!r})\nsys.exit({status})\n"
    )
    path.chmod(0o755)
    return str(path)


def make_client(folder: Path, agent: str, program: str, timeout: float = 30) -> CommandClient:
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "CLAUDECODE": "1", "SECRET": "x"}
    return CommandClient(agent, program, folder, timeout, environment)


def make_request(agent: str) -> ModelRequest:
    return ModelRequest("extract", f"{agent}/default", "Find facts.", "e1 user: tea", "facts", SCHEMA, 200)


@pytest.mark.parametrize("agent", ANSWERS)
async def test_an_agent_answers_from_standard_input_in_an_empty_folder(tmp_path: Path, agent: str) -> None:
    client = make_client(tmp_path, agent, write_program(tmp_path, ANSWERS[agent]))
    reply = await client.send(make_request(agent))
    assert parse_reply(reply, SCHEMA) == {"facts": []}
    assert (reply.input_tokens, reply.cached_tokens) == (1000, 100)
    arguments, question, folder, environment = json.loads((tmp_path / "seen").read_text())
    assert "e1 user: tea" in question
    assert not any("e1 user" in argument for argument in arguments)
    assert Path(folder).name == WORKING_FOLDER
    assert environment[MARKER] == "1"
    assert not {"CLAUDECODE", "SECRET"} & environment.keys()


@pytest.mark.parametrize("agent", OUTAGES)
async def test_a_missing_login_or_quota_is_an_outage(tmp_path: Path, agent: str) -> None:
    output, reason = OUTAGES[agent]
    client = make_client(tmp_path, agent, write_program(tmp_path, json.dumps(output), status=1))
    with pytest.raises(ModelUnavailable, match=reason) as caught:
        await client.send(make_request(agent))
    assert caught.value.is_permanent


async def test_an_agent_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    program = write_program(tmp_path, "", code="os.fork(); time.sleep(600)")
    with pytest.raises(ModelUnavailable, match="no answer within"):
        await make_client(tmp_path, "codex", program, timeout=1).send(make_request("codex"))


def test_an_agent_is_asked_only_with_a_yes(settings: Settings) -> None:
    settings = settings.model_copy(update={"find_model": True})
    for answer, source in ((None, "none"), (False, "none"), (True, "agent")):
        save_permission(settings.home, "claude-code", is_agreed=answer, now=NOON)
        choice = choose_model(settings)
        assert choice.source in (source, "local")  # the machine may have a server of its own


def test_the_preferred_model_makes_no_vectors_and_runs_here() -> None:
    listed = ["nomic-embed-text", "gpt-oss:120b-cloud", "qwen3:32b", "qwen3:8b", "qwen3:4b"]
    assert pick_model(listed) == "qwen3:8b"
    assert pick_model(["nomic-embed-text"]) is None
