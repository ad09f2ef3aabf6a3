"""Sub-agents over HTTP: given a task, driven by the service, read when they are done; one for each call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.models.payload import EventType
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, answer_models, read_frames, serve, use_model, wait_for
from tests.databases import database_copy
from tests.runtime import read_log
from tests.support import PATIENCE

HAS_STOPPED = threading.Event()  # whether an answer came to no end because its service was to be killed
MODELS = {"CONSOLIDATOR_MODEL": "gpt-4o", "CONSOLIDATOR_EXTRACT_MODEL": "gpt-4o-mini"}


def answer(request: dict[str, Any]) -> ScriptedReply | str:
    """Answer a task by its own words; `fail` is refused for good, `hang` does not go on, `tell all` uses a tool."""
    if any(message["role"] == "tool" for message in request["messages"]):
        return "done: all is told"
    task = str(request["messages"][-1]["content"]).rsplit("\n\n", 1)[-1]
    if task.startswith("fail"):
        return ScriptedReply(status=400, body={"error": {"message": "no such thing", "type": "invalid_request_error"}})
    if task.startswith("stop once") and not HAS_STOPPED.is_set():
        HAS_STOPPED.set()
        return ScriptedReply(text="one two three", stall_after=1)
    if task.startswith("hang"):
        return ScriptedReply(text="one two three", stall_after=1)
    if task.startswith("tell all"):
        return ScriptedReply.calling(("update_scratchpad", {"mode": "append", "text": "a note"}))
    return f"done: {task}"


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with answer_models(answer) as server:
        yield server


@pytest.fixture(scope="module")
def api(module_dsn: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A service that drives sessions with the stand-in model."""
    folder: Path = tmp_path_factory.mktemp("spawn")
    with serve(module_dsn, folder, "--tools", "scratchpad", **use_model(model) | MODELS) as server:
        yield server


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def spawn(client: httpx2.Client, parent_id: str, task: str, **more: Any) -> Json:
    """Give a task to a new sub-agent; return it as it was answered."""
    answered = client.post(f"/sessions/{parent_id}/spawn", json={"task": task, **more})
    assert answered.status_code == 202, answered.text
    started: Json = answered.json()
    assert answered.headers["location"] == f"/v1/sessions/{started['session_id']}/result"
    return started


def wait_result(client: httpx2.Client, started: Json) -> Json:
    """Return what came of a sub-agent."""
    return wait_for(client, f"/sessions/{started['session_id']}/result", lambda found: found["status"] != "running")


def test_a_sub_agent_does_its_task_and_both_logs_say_so(
    api: ApiServer, owner: httpx2.Client, model: ModelServer
) -> None:
    """B19, B25."""
    parent_id = api.open_session("spawning:web:mara", system="You know a secret.")
    started = spawn(owner, parent_id, "count the files", context="a.py, b.py", model="gpt-4o-mini", max_tokens=50)
    assert (started["status"], started["text"], started["parent_id"]) == ("running", None, parent_id)
    result = wait_result(owner, started)
    assert (result["status"], result["text"], result["reason"]) == ("ok", "done: count the files", None)
    assert Decimal(result["cost_usd"]) > 0
    (asked,) = [request for request in model.requests if "count the files" in str(request["messages"])]
    assert "a.py, b.py" in str(asked["messages"])
    assert "secret" not in str(asked["messages"])
    assert 50 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    log = api.run(lambda database: read_log(database, parent_id))
    assert [event.type for event in log][1:] == [EventType.SUBAGENT_SPAWN, EventType.SUBAGENT_COMPLETE]
    assert (log[2].data["status"], log[2].data["cost"]) == ("ok", result["cost_usd"])
    child = owner.get(f"/sessions/{started['session_id']}").json()
    assert (child["kind"], child["status"], child["parent_id"]) == ("sub-agent", "ended", parent_id)
    parent = owner.get(f"/sessions/{parent_id}").json()
    assert parent["cost_usd"] == result["cost_usd"]  # attributed to the parent
    assert [each["session_id"] for each in parent["sub_agents"]] == [child["id"]]
    assert parent["total_cost_usd"] == float(result["cost_usd"]) > 0
    runs = owner.get("/sessions", params={"conversation": parent["conversation_id"]}).json()["sessions"]
    assert [each["id"] for each in runs] == [parent_id]  # a sub-agent's is within one of them


def test_spawned_work_goes_to_the_cheap_model_where_the_agents_is_auto(
    api: ApiServer, owner: httpx2.Client, model: ModelServer
) -> None:
    """B24, P7."""
    owner.patch("/agents/thrifty", json={"model": "auto"}).raise_for_status()
    parent_id = api.open_session("thrifty:web:mara")
    owner.post(f"/sessions/{parent_id}/messages", json={"text": "think hard"}).raise_for_status()
    wait_for(owner, f"/sessions/{parent_id}", lambda found: found["turns"] == 1)
    row = owner.get(f"/sessions/{parent_id}").json()
    assert (row["config"].get("model"), row["context_window"]) == (None, 128_000)
    unnamed = api.open_session("plain:web:mara")
    owner.post(f"/sessions/{unnamed}/messages", json={"text": "hello"}).raise_for_status()
    row = wait_for(owner, f"/sessions/{unnamed}", lambda found: found["turns"] == 1)
    assert (row["model"], row["context_window"]) == ("gpt-4o", 128_000)
    result = wait_result(owner, spawn(owner, parent_id, "count the sheep"))
    assert (result["status"], result["text"]) == ("ok", "done: count the sheep")
    asked = [
        request["model"] for request in model.requests
        if str(request["messages"][-1]["content"]).endswith(("think hard", "count the sheep"))
    ]  # fmt: skip
    assert asked == ["gpt-4o", "gpt-4o-mini"]
    for session_id, chosen, reason in (
        (parent_id, "gpt-4o", "a turn of a person: the strong model"),
        (result["session_id"], "gpt-4o-mini", "spawned: the cheap model"),
    ):
        events = owner.get(f"/sessions/{session_id}/events").json()["events"]
        decisions = [event["data"] for event in events if event["data"].get("decision") == "model_routed"]
        assert [(data["model"], data["reason"]) for data in decisions] == [(chosen, reason)]


def test_one_goes_on_after_its_service_was_killed(
    server_dsn: str, template: str, tmp_path: Path, model: ModelServer
) -> None:
    """In the middle of its answer, with SIGKILL; the service that comes next wakes it, and its parent hears once."""
    quick = {**use_model(model), **MODELS, "CONSOLIDATOR_SESSION_LEASE_SECONDS": "2"}
    with database_copy(server_dsn, template) as dsn:
        with serve(dsn, tmp_path, **quick) as first, first.client() as owner:
            parent_id = first.open_session("spawning:web:killed")
            started = spawn(owner, parent_id, "stop once, then go on", call_id="c-1")
            assert HAS_STOPPED.wait(PATIENCE)
            path = f"/sessions/{started['session_id']}"
            assert owner.get(f"{path}/result").json()["status"] == "running"
            first.process.kill()
            first.process.wait(PATIENCE)
        with serve(dsn, tmp_path, **quick) as second, second.client() as owner:
            assert owner.post(f"{path}/wake").status_code in (200, 202)
            result = wait_result(owner, started)
            assert (result["status"], result["text"]) == ("ok", "done: stop once, then go on")
            assert spawn(owner, parent_id, "stop once, then go on", call_id="c-1") == result
            assert len(owner.get(f"/sessions/{parent_id}/children").json()["sessions"]) == 1
            log = second.run(lambda database: read_log(database, parent_id))
            assert [event.type for event in log][1:] == [EventType.SUBAGENT_SPAWN, EventType.SUBAGENT_COMPLETE]
            cost = owner.get(f"/sessions/{parent_id}").json()["cost_usd"]
            assert cost == owner.get(path).json()["cost_usd"] == result["cost_usd"]  # what was cut off is in it


def test_the_whole_of_what_it_did_is_told_if_asked_for(api: ApiServer, owner: httpx2.Client) -> None:
    """B19, B20."""
    parent_id = api.open_session("spawning:web:full")
    named = {"model": "gpt-4o-mini", "context": "Be quick.", "max_tokens": 60, "return_format": "summary"}
    result = wait_result(owner, spawn(owner, parent_id, "tell all", **named))
    assert (result["status"], result["text"]) == ("ok", "done: all is told")
    thread = [{"role": "user", "content": "We use tabs."}, {"role": "assistant", "content": "Noted."}]
    result = wait_result(owner, spawn(owner, parent_id, "tell all", return_format="full", context=thread))
    assert result["status"] == "ok"
    assert result["text"].startswith("[call update_scratchpad: ")
    assert result["text"].endswith("\n\ndone: all is told")


def test_several_are_at_work_at_once_and_listed_as_children(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:several")
    started = [spawn(owner, parent_id, f"part {number}") for number in range(5)]
    assert {wait_result(owner, each)["text"] for each in started} == {f"done: part {number}" for number in range(5)}
    forked = owner.post(f"/sessions/{parent_id}/fork").json()
    listed: list[Json] = []
    cursor: dict[str, str] = {}
    while True:
        page = owner.get(f"/sessions/{parent_id}/children", params={"limit": 2, **cursor}).json()
        listed += page["sessions"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [row["id"] for row in listed[:1]] == [forked["id"]]
    assert {row["id"] for row in listed[1:]} == {each["session_id"] for each in started}
    assert len(listed) == 6
    assert owner.get("/sessions/01NOBODY/children").status_code == 404


def test_a_call_has_one_sub_agent_however_often_it_is_made(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:once")
    with api.client(**{"idempotency-key": "s-1"}) as keyed:
        first, again = spawn(keyed, parent_id, "once"), spawn(keyed, parent_id, "once")
        assert first == again
        other = keyed.post(f"/sessions/{parent_id}/spawn", json={"task": "another"})
        assert (other.status_code, other.json()["type"]) == (422, "urn:consolidator:problem:idempotency-key-reused")
    named = [spawn(owner, parent_id, "named", call_id="c-1")["session_id"] for _ in range(2)]
    assert named[0] == named[1] != first["session_id"]
    other = owner.post(f"/sessions/{parent_id}/spawn", json={"task": "renamed", "call_id": "c-1"})
    assert (other.status_code, other.json()["type"]) == (422, "urn:consolidator:problem:invalid")
    assert "another call_id" in other.json()["detail"]
    finished = wait_result(owner, {"session_id": named[0]})
    assert spawn(owner, parent_id, "named", call_id="c-1") == finished
    assert (finished["status"], finished["text"]) == ("ok", "done: named")
    assert len(owner.get(f"/sessions/{parent_id}/children").json()["sessions"]) == 2


def test_its_log_is_streamed_until_it_ends_with_its_result(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:stream")
    accept = {"accept": "text/event-stream"}
    with owner.stream("POST", f"/sessions/{parent_id}/spawn", json={"task": "stream"}, headers=accept) as stream:
        frames = list(read_frames(stream.iter_lines()))
    assert [kind for kind, _, _ in frames][-2:] == ["result", "end"]
    assert (frames[-2][2]["status"], frames[-2][2]["text"]) == ("ok", "done: stream")
    assert frames[-1][2]["reason"] == "ended"
    assert frames[0][2]["type"] == "SessionStart"


def test_one_whose_model_fails_ends_with_the_reason(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:failing")
    result = wait_result(owner, spawn(owner, parent_id, "fail at this"))
    assert (result["status"], result["text"]) == ("error", "")
    assert result["reason"]
    log = api.run(lambda database: read_log(database, parent_id))
    assert [(event.type, event.data.get("status")) for event in log][2:] == [(EventType.SUBAGENT_COMPLETE, "error")]


def test_one_that_is_ended_at_work_is_told_of_in_its_parents_log(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:ending")
    started = spawn(owner, parent_id, "hang there")
    path = f"/sessions/{started['session_id']}"
    wait_for(owner, path, lambda found: found["activity"] == "running")
    assert owner.post(f"{path}/end", json={"reason": "no longer needed"}).status_code == 200
    result = owner.get(f"{path}/result").json()
    assert (result["status"], result["reason"]) == ("error", "no longer needed")
    log = api.run(lambda database: read_log(database, parent_id))
    assert (log[-1].type, log[-1].data["reason"]) == (EventType.SUBAGENT_COMPLETE, "no longer needed")


def test_what_it_may_cost_is_reserved_against_both_caps(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:poor", max_cost_usd="0.00000001")
    result = wait_result(owner, spawn(owner, parent_id, "cost nothing", model="gpt-4o-mini"))
    assert result["status"] == "error"
    assert Decimal(result["cost_usd"]) == 0
    rich = api.open_session("spawning:web:rich")
    own = wait_result(owner, spawn(owner, rich, "cost little", model="gpt-4o-mini", max_cost_usd="0.00000001"))
    assert (own["status"], Decimal(own["cost_usd"])) == ("error", Decimal(0))


def test_what_no_sub_agent_can_run_with_is_refused(api: ApiServer, owner: httpx2.Client) -> None:
    parent_id = api.open_session("spawning:web:refused")
    ended = api.open_session("spawning:web:ended")
    owner.post(f"/sessions/{ended}/end")
    for session_id, body, status in (
        (parent_id, {"task": " "}, 422),
        (parent_id, {"task": "x", "tools": ["rm"]}, 422),
        (parent_id, {"task": "x", "mode": "short"}, 422),
        (parent_id, {"task": "x", "max_tokens": 0}, 422),
        (parent_id, {"task": "x", "context": [{"role": "system", "content": "obey"}]}, 422),
        (parent_id, {"task": "x", "call_id": "two words"}, 422),
        (ended, {"task": "x"}, 422),
        ("01NOBODY", {"task": "x"}, 404),
    ):
        answered = owner.post(f"/sessions/{session_id}/spawn", json=body)
        assert answered.status_code == status, (body, answered.text)
    child_id = spawn(owner, parent_id, "have no children")["session_id"]
    assert owner.post(f"/sessions/{child_id}/spawn", json={"task": "x"}).status_code == 422
    assert owner.get(f"/sessions/{parent_id}/result").status_code == 422
    with api.client(api.make_token("spawn-bob", "read", "write", peer="bob")) as bob:
        assert bob.post(f"/sessions/{parent_id}/spawn", json={"task": "x"}).status_code == 404
        assert bob.get(f"/sessions/{child_id}/result").status_code == 404
        assert bob.get(f"/sessions/{parent_id}/children").status_code == 404
