"""A session that the service answered leaves as a file by HTTP, and is run again from it by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, answer_models, serve, use_model, wait_for
from tests.support import run_cli

TOOLS = '''
from pathlib import Path

from consolidator import tool


@tool(idempotent=True)
def look(what: str) -> str:
    """Look at something."""
    with Path(__file__).with_name("looked").open("a") as looked:
        looked.write(f"{what};")
    return f"{what} is as it was"
'''


def answer(request: Json) -> ScriptedReply:
    """Call a tool for each message, and answer by what the tool, the prompt, the model and the scratchpad say."""
    last = [message for message in request["messages"] if message["role"] == "tool" or "?" in str(message["content"])][
        -1
    ]
    whole = str(request["messages"])
    if last["role"] != "tool":
        name = "peek" if "'peek'" in str(request.get("tools")) else "look"
        return ScriptedReply.calling((name, {"what": "the oven" if "oven" in str(last["content"]) else "the door"}))
    seen = " and ".join(name for name in ("closed on Mondays", "be bold") if name in whole)
    return ScriptedReply(text=f"{request['model']}: {last['content']}, {seen}")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    """The stand-in model that records, and repeats."""
    with answer_models(answer) as server:
        yield server


@pytest.fixture(scope="module")
def driving_api(
    module_dsn: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ApiServer, Path]]:
    """A service that answers, and the folder of its tools."""
    home: Path = tmp_path_factory.mktemp("reruns")
    (home / "mytools.py").write_text(TOOLS)
    with serve(module_dsn, home, "--tools", str(home / "mytools.py"), **use_model(model)) as server:
        yield server, home


def check_rerun(owner: httpx2.Client, path: str, second: int) -> None:
    """Run a session again over HTTP: a job that tells how far it is, and at its end what is different."""
    for body, messages in (({}, 2), ({"from_message": second - 1}, 1)):
        started = owner.post(f"{path}/rerun", json={**body, "overrides": {"model": "gpt-4o"}})
        assert (started.status_code, started.json()["messages"]) == (202, messages), started.text
        wait_for(owner, started.headers["location"].removeprefix("/v1"), lambda rerun: rerun["status"] != "running")
        rerun = owner.get(started.headers["location"].removeprefix("/v1")).json()
        assert (rerun["status"], rerun["answered"], rerun["finish_reason"]) == ("done", messages, "stop")
        answers = [turn["right"]["answers"][0].partition(":")[0] for turn in rerun["diff"]["differences"]]
        assert answers == ["gpt-4o"] * messages
    refused = owner.post(f"{path}/rerun", json={"from_message": second + 1})
    assert (refused.status_code, "no person's message" in refused.json()["detail"]) == (422, True)
    branches = owner.get(f"{path}/branches").json()["branches"]
    shown = owner.get(f"{path}/reruns/{branches[-1]['id']}").json()
    assert (shown["status"], shown["messages"]) == ("unknown", None)


def test_a_bundle_by_http_is_run_again_and_a_difference_is_named(
    driving_api: tuple[ApiServer, Path], model: ModelServer, environment: dict[str, str], tmp_path: Path
) -> None:
    """P18, P19, P20, P21, P22, P23."""
    api, home = driving_api
    bundle = tmp_path / "session.jsonl"
    session_id = api.open_session("main:web:oven", system="Be brief.")
    path = f"/sessions/{session_id}"
    with api.client() as owner:
        opened = owner.get(path).json()
        assert (opened["model"], opened["tool_names"]) == (None, ["look"])
        for text in ("Is the oven on?", "And the door?"):
            owner.post(f"{path}/messages", json={"text": text}).raise_for_status()
            wait_for(owner, path, lambda session: not session["pending"])
            owner.patch(f"{path}/scratchpad", json={"text": "closed on Mondays"}).raise_for_status()
        assert owner.get(path).json()["model"] == "gpt-4o-mini"  # which answered
        bundle.write_bytes(owner.get(f"{path}/export").raise_for_status().content)
    assert (home / "looked").read_text() == "the oven;the door;"
    configured = {**environment, **use_model(model), "CONSOLIDATOR_DATABASE_URL": api.dsn}

    def rerun(source: str, *options: str) -> Any:
        return json.loads(run_cli("session", "rerun", source, *options, "--json", environment=configured).stdout)

    for source in (str(bundle), session_id):
        same = rerun(source)
        assert (same["diff"]["is_empty"], same["diff"]["turns"], same["diff"]["differences"]) == (True, 2, [])
        assert (same["calls_answered"], same["calls_unanswered"], same["finish_reason"]) == (2, 0, "stop")
    prompted = rerun(str(bundle), "--add-prompt", "be bold")["diff"]
    assert [turn["message"] for turn in prompted["differences"]] == ["Is the oven on?", "And the door?"]
    last = prompted["differences"][1]
    assert last["left"]["answers"] == ["gpt-4o-mini: the door is as it was, closed on Mondays"]
    assert last["right"]["answers"] == ["gpt-4o-mini: the door is as it was, closed on Mondays and be bold"]
    assert [call["status"] for call in last["calls"]] == ["same"]
    other = rerun(str(bundle), "--model", "gpt-4o")["diff"]
    assert [turn["right"]["answers"][0].partition(":")[0] for turn in other["differences"]] == ["gpt-4o", "gpt-4o"]
    shown = run_cli("session", "rerun", str(bundle), "--model", "gpt-4o", environment=configured).stdout
    assert "2 of 2 turns differ" in shown
    assert "+ gpt-4o: the oven is as it was" in shown
    (home / "othertools.py").write_text(TOOLS.replace("def look(", "def peek("))
    with api.client() as owner:
        said = owner.get(f"{path}/events").raise_for_status().json()["events"]
        second = next(event["seq"] for event in said if event["data"].get("text") == "And the door?")
        part = rerun(session_id, "--from", str(second), "--tools", str(home / "othertools.py"))
        assert part["from"] == second
        (turn,) = part["diff"]["differences"]
        assert [call["status"] for call in turn["calls"]] == ["changed"]
        assert turn["calls"][0]["right"]["result"].startswith("Dry run: peek was not run")
        # What HTTP alone has for one message: a branch that begins at it, and its comparison.
        body = {"kind": "sim", "at": second, "overrides": {"model": "gpt-4o"}}
        branch = owner.post(f"{path}/branch", json=body).raise_for_status().json()
        wait_for(owner, f"/sessions/{branch['id']}", lambda session: not session["pending"])
        (turn,) = owner.get(f"{path}/branches/{branch['id']}/compare").json()["diff"]["differences"]
        assert (turn["message"], turn["status"]) == ("And the door?", "changed")
        assert turn["right"]["answers"][0].startswith("gpt-4o: Dry run: look was not run")
        check_rerun(owner, path, second)
    assert (home / "looked").read_text() == "the oven;the door;"  # no tool ran again
