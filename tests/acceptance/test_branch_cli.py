"""consolidator branch, compare and fork: a steer is tried beside a session, compared with it, and sent or dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consolidator.testing import ModelServer
from tests.acceptance.api.server import answer_models, use_model
from tests.acceptance.command_line import CommandLine

TOOLS = '''
from consolidator import tool


@tool(idempotent=True)
def look() -> str:
    """Look."""
    return "seen"
'''


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A stand-in model, which repeats what it is told."""
    with answer_models(lambda request: f"heard: {request['messages'][-1]['content'][-30:]}") as server:
        for name, value in use_model(server).items():
            monkeypatch.setenv(name, value)
        yield server


def run_json(cli: CommandLine, *words: str) -> Any:
    """Run a command with --json and return what it prints."""
    code, out, err = cli(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def list_steers(cli: CommandLine, session_id: str) -> list[str]:
    """Return the steers in a session's log."""
    code, out, err = cli("session", "events", session_id, "--json")
    assert code == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    return [event["data"]["text"] for event in events if event["data"].get("mode") == "steer"]


def test_a_steer_is_tried_compared_and_sent_once_or_dropped(cli: CommandLine, model: ModelServer) -> None:
    session_id = run_json(cli, "session", "create", "--key", "main:test:mara")["id"]
    run_json(cli, "session", "say", "--later", session_id, "Pack the boxes.")
    run_json(cli, "session", "wake", session_id)
    tried = run_json(cli, "session", "branch", session_id, "Use blue boxes.", "--kind", "pre_steer")
    branch_id = tried["branch"]
    compared = run_json(cli, "session", "diff", branch_id)
    assert compared == tried
    (turn,) = compared["diff"]["differences"]
    assert (turn["status"], turn["message"]) == ("added", "Use blue boxes.")
    code, out, _ = cli("session", "diff", branch_id[:12])
    assert (code, "Use blue boxes." in out, "heard:" in out) == (0, True, True)
    assert list_steers(cli, session_id) == []

    sent = run_json(cli, "session", "branch", "--commit", branch_id)
    assert (sent["id"], sent["status"]) == (branch_id, "committed")
    code, out, _ = cli("session", "branch", "--commit", branch_id)  # again: it was sent
    assert (code, out) == (0, f"the steer is event {sent['committed_seq']} of session {session_id}\n")
    assert list_steers(cli, session_id) == ["Use blue boxes."]

    run_json(cli, "session", "wake", session_id)
    dropped = run_json(cli, "session", "branch", session_id, "Use none.", "--kind", "pre_steer")["branch"]
    assert run_json(cli, "session", "branch", "--discard", dropped)["status"] == "ended"
    code, out, _ = cli("session", "branch", "--discard", dropped)
    assert (code, dropped in out) == (0, True)
    code, _, err = cli("session", "branch", "--commit", dropped)
    assert code == 2
    assert "propose it again" in err
    assert list_steers(cli, session_id) == ["Use blue boxes."]
    code, _, err = cli("session", "diff", session_id)
    assert (code, "is no branch" in err) == (2, True)


def test_a_tool_that_nobody_would_have_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mytools.py").write_text(TOOLS)
    known = ["--tools", str(tmp_path / "mytools.py")]
    session_id = run_json(cli, "session", "create", "--key", "main:test:mara", "--tool", "look")["id"]
    point = run_json(cli, "session", "checkpoint", session_id)["id"]
    for words in (["session", "fork", session_id], ["session", "fork", point], ["session", "branch", session_id]):
        for files in ([], known):
            code, _, err = cli(*words, "--tool", "nope", *files)
            assert (code, "nope" in err) == (2, True), words
            assert run_json(cli, *words, "--tool", "look", *files)
