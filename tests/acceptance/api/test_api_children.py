"""Checkpoints, forks, tasks, notes, agents and live streams over HTTP, as a program uses them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.runtime.lineage.checkpoints import create_checkpoint
from tests.acceptance.api.server import ApiServer, read_frames
from tests.conftest import NOON
from tests.integration.log.claude_logs import import_logs, user_line, user_lines, write_log


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """Return the status and the kind of a problem."""
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_a_checkpoint_is_set_listed_restored_and_deleted(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("points:web:mara", system="Be brief.")
    created = owner.post(f"/sessions/{session_id}/checkpoint", json={"label": "start", "metadata": {"by": "ci"}})
    assert created.status_code == 201
    checkpoint = created.json()
    assert owner.get(created.headers["location"].removeprefix("/v1")).json() == checkpoint
    assert owner.get(f"/sessions/{session_id}/checkpoints").json()["checkpoints"] == [checkpoint]
    restored = owner.post(f"/sessions/{session_id}/resume", json={"overrides": {"system": "Be long."}})
    assert restored.status_code == 201
    child = restored.json()
    assert (child["kind"], child["parent_id"], child["config"]["system"]) == ("resume", session_id, "Be long.")
    other = api.open_session("points:web:bob")
    assert problem(owner.post(f"/sessions/{other}/resume", json={"checkpoint_id": checkpoint["id"]})) == (
        404,
        "not-found",
    )
    assert owner.delete(f"/checkpoints/{checkpoint['id']}").status_code == 204
    assert problem(owner.get(f"/checkpoints/{checkpoint['id']}")) == (404, "not-found")
    assert problem(owner.post(f"/sessions/{session_id}/resume")) == (404, "not-found")


def test_a_fork_goes_on_by_itself_and_the_original_is_untouched(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("forks:web:mara")
    owner.post(f"/sessions/{session_id}/messages", json={"text": "One"})
    before = owner.get(f"/sessions/{session_id}/events").json()
    patch = {"prompt_patch": {"append": "Be kind."}, "max_steps": 3}
    key = {"idempotency-key": "fork-1"}
    forked = owner.post(f"/sessions/{session_id}/fork", json={"at": 1, "overrides": patch}, headers=key)
    assert forked.status_code == 201, forked.text
    child = forked.json()
    again = owner.post(f"/sessions/{session_id}/fork", json={"at": 1, "overrides": patch}, headers=key)
    assert again.json()["id"] == child["id"]
    assert (child["kind"], child["parent_seq"], child["config"]["max_steps"]) == ("fork", 1, 3)
    owner.post(f"/sessions/{child['id']}/messages", json={"text": "Two"})
    assert owner.get(f"/sessions/{session_id}/events").json() == before
    told = owner.get(f"/sessions/{child['id']}/events", params={"history": True}).json()["events"]
    assert [event["seq"] for event in told] == list(range(1, told[-1]["seq"] + 1))
    own = owner.get(f"/sessions/{child['id']}/events", params={"limit": 50}).json()["events"]
    assert own == [event for event in told if event["seq"] > 1]
    assert problem(owner.post(f"/sessions/{session_id}/fork", json={"at": 99})) == (422, "invalid")
    assert len(owner.get("/sessions", params={"parent": session_id}).json()["sessions"]) == 1


def test_an_imported_fork_is_read_and_forked_in_its_past(api: ApiServer, owner: httpx2.Client, tmp_path: Path) -> None:
    parent = user_lines(3, "p")
    copies = [
        {**line, "sessionId": "c", "forkedFrom": {"sessionId": "p", "messageUuid": line["uuid"]}} for line in parent
    ]
    log = write_log(tmp_path / "c.jsonl", [*copies[:2], user_line(9, "another way", "c")])
    for path in (write_log(tmp_path / "p.jsonl", parent), log):
        api.run(lambda database, path=path: import_logs(database, path))  # type: ignore[misc]
    found = owner.get("/sessions", params={"agent": "claude-code"}).json()["sessions"]
    child = next(session for session in found if session["kind"] == "fork")
    told = owner.get(f"/sessions/{child['id']}/events", params={"history": True}).json()["events"]
    said = {event["seq"]: event["data"].get("text") for event in told if event["type"] == "UserMessage"}
    assert said == {-1: "p says 1", 0: "p says 2", 2: "another way"}
    made = owner.post(f"/sessions/{child['id']}/fork", json={"at": -1}).json()
    assert (made["parent_id"], made["parent_seq"]) == (child["parent_id"], 2)
    assert owner.post(f"/sessions/{child['id']}/branch", json={"at": 0, "kind": "sim"}).status_code == 201
    point = owner.post(f"/sessions/{child['id']}/checkpoint", json={"at": 0}).json()
    restored = owner.post(f"/sessions/{child['id']}/resume", json={"checkpoint_id": point["id"]}).json()
    assert (restored["parent_id"], restored["parent_seq"]) == (child["parent_id"], 3)
    assert problem(owner.post(f"/sessions/{child['id']}/fork", json={"at": -9})) == (422, "invalid")


def test_a_task_is_started_and_ended_with_its_outcome(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('tasks:web:mara')}/tasks"
    started = owner.post(path, json={"title": "Fix the build"})
    assert started.status_code == 201
    assert problem(owner.post(path, json={"title": "Another"})) == (422, "invalid")
    session = path.removesuffix("/tasks")
    for text in ("Not there.", "Here."):
        owner.post(f"{session}/steer", json={"text": text}).raise_for_status()
    owner.post(f"{session}/follow-up", json={"text": "Then rest."}).raise_for_status()
    assert [task["steers"] for task in owner.get(path).json()["tasks"]] == [2]
    ended = owner.post(f"{path}/finish", json={"outcome": "success", "note": "green"}).json()
    owner.post(f"{session}/steer", json={"text": "This is of no task."}).raise_for_status()
    owner.post(path, json={"title": "Rest"}).raise_for_status()
    owner.post(f"{path}/finish", json={"outcome": "cancelled"}).raise_for_status()
    assert (ended["id"], ended["outcome"], ended["started_by"]) == (started.json()["id"], "success", "user:owner")
    assert problem(owner.post(f"{path}/finish", json={"outcome": "failure"})) == (422, "invalid")
    listed = owner.get(path).json()["tasks"]
    assert [(task["outcome"], task["steers"]) for task in listed] == [("cancelled", 0), ("success", 2)]


def test_a_scratchpad_is_changed_by_version_and_within_its_limit(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('notes:web:mara')}/scratchpad"
    first = owner.patch(path, json={"text": "- a"}).json()
    assert owner.patch(path, json={"mode": "append", "text": "- b"}).json()["text"] == "- a\n- b"
    assert problem(owner.patch(path, json={"text": "x", "expected_seq": first["seq"]})) == (409, "conflict")
    too_long = owner.patch(path, json={"text": "x" * (first["limit"] + 1)})
    assert problem(too_long) == (422, "invalid")
    assert f"{first['limit']:,}" in too_long.json()["detail"]
    assert owner.get(path).json()["text"] == "- a\n- b"


def test_an_agents_defaults_are_those_of_its_sessions(api: ApiServer, owner: httpx2.Client) -> None:
    defaults = {"template": "You help $team.", "parameters": {"team": "sales"}, "max_steps": 7, "max_cost_usd": "0.50"}
    changed = owner.patch("/agents/helper", json={**defaults, "model": "gpt-4o-mini"})
    assert changed.status_code == 200, changed.text
    assert owner.get("/agents/helper").json() == changed.json()
    session = owner.post("/sessions", json={"agent": "helper", "parameters": {"team": "support"}}).json()
    assert session["config"]["system"] == "You help support."
    assert (session["config"]["max_steps"], session["max_cost_usd"]) == (7, 0.5)
    assert owner.get(f"/sessions/{session['id']}/seeds").json()["seeds"][0]["content"] == "You help support."
    with api.client(api.make_token("writer", "read", "write")) as writer:
        assert problem(writer.patch("/agents/helper", json={"max_steps": 100})) == (403, "forbidden")
        assert writer.get("/agents").json()["agents"][0]["name"] == "helper"
    assert owner.delete("/agents/helper").status_code == 204
    assert problem(owner.get("/agents/helper")) == (404, "not-found")
    assert len(owner.get("/agents/helper/versions").json()["versions"]) == 2


def test_sessions_are_found_by_status_labels_trigger_and_conversation(api: ApiServer, owner: httpx2.Client) -> None:
    """P15."""
    mail = {"agent": "mail", "labels": {"space_id": "s1"}, "trigger_type": "email", "trigger_id": "<1@x>"}
    first = owner.post("/sessions", json={**mail, "seeds": [{"role": "user", "content": "Dear all"}]}).json()
    run = owner.post("/sessions", json={"agent": "mail", "conversation_id": first["conversation_id"]}).json()
    for query, found in (
        ({"label": "space_id=s1"}, [first]),
        ({"label": "space_id=s2"}, []),
        ({"trigger_type": "email", "trigger_id": "<1@x>"}, [first]),
        ({"conversation": first["conversation_id"], "order": "runs"}, [first, run]),
        ({"agent": "mail", "status": "ended"}, []),
    ):
        answer = owner.get("/sessions", params=query)
        assert [session["id"] for session in answer.json()["sessions"]] == [session["id"] for session in found], query
    assert owner.get("/sessions", params={"label": "nonsense"}).status_code == 422


def test_a_stream_goes_on_where_it_broke(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("live:web:mara")
    path, accept = f"/sessions/{session_id}/events", {"accept": "text/event-stream"}
    with owner.stream("GET", path, headers=accept) as stream:
        frames = read_frames(stream.iter_lines())
        kind, last_id, _ = next(frames)
        assert (kind, last_id) == ("event", "1")
    for number in range(3):
        owner.post(f"/sessions/{session_id}/messages", json={"text": str(number)})
    with owner.stream("GET", path, headers={**accept, "last-event-id": last_id or ""}) as stream:
        frames = read_frames(stream.iter_lines())
        events = [next(frames) for _ in range(3)]
        assert [event_id for _, event_id, _ in events] == ["2", "3", "4"]
        owner.post(f"/sessions/{session_id}/end")
        assert [kind for kind, _, _ in frames][-1] == "end"
    for wrong, status in (("x", 400), ("1.x", 400), ("999", 400)):
        assert owner.get(path, headers={**accept, "last-event-id": wrong}).status_code == status
    shown = owner.post(f"/sessions/{session_id}/deliveries", json={"surface": "web", "cursor": "4"})
    assert shown.json() == {"session_id": session_id, "messages": 0}


def test_a_checkpoint_is_restored_by_its_id_however_many_came_after(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("points:web:many")

    async def set_many(database: Database) -> list[str]:
        return [(await create_checkpoint(database, session_id)).id for _ in range(101)]

    first = api.run(set_many)[0]
    restored = owner.post(f"/sessions/{session_id}/resume", json={"checkpoint_id": first})
    assert restored.status_code == 201, restored.text
    with api.client(api.make_token("points-writer", "write")) as writer:
        assert writer.post(f"/sessions/{session_id}/resume", json={"checkpoint_id": first}).status_code == 201


def test_an_expired_checkpoint_is_not_there(api: ApiServer, owner: httpx2.Client) -> None:
    """B14."""
    session_id = api.open_session("points:web:expired")

    async def set_expired(database: Database) -> str:
        early = Database(database.dsn, FrozenClock(NOON - timedelta(days=2)))
        try:
            return (await create_checkpoint(early, session_id, time_to_live=timedelta(hours=1))).id
        finally:
            await early.close()

    expired = api.run(set_expired)
    assert problem(owner.get(f"/checkpoints/{expired}")) == (404, "not-found")
    for body in ({"checkpoint_id": expired}, {}):
        assert problem(owner.post(f"/sessions/{session_id}/resume", json=body)) == (404, "not-found")


def test_a_branch_takes_no_checkpoint(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("points:web:branch")
    branch = owner.post(f"/sessions/{session_id}/branch", json={"kind": "sim", "message": "What if?"})
    assert branch.status_code == 201, branch.text
    refused = owner.post(f"/sessions/{branch.json()['id']}/checkpoint")
    assert problem(refused) == (422, "invalid")
    assert "parent" in refused.json()["detail"]


def test_a_restore_and_a_fork_take_a_model_a_prompt_and_a_cap_of_their_own(
    api: ApiServer, owner: httpx2.Client
) -> None:
    """P16."""
    session_id = api.open_session("points:web:overrides", system="Be brief.", model="gpt-4o", max_cost_usd="5")
    path = f"/sessions/{session_id}"
    first = owner.post(f"{path}/checkpoint").json()
    assert first["delta"] == {}
    owner.post(f"{path}/messages", json={"text": "One"})
    owner.post(f"{path}/messages", json={"text": "Two"})
    head = owner.get(path).json()["head"]
    second = owner.post(f"{path}/checkpoint", json={"at": head}).json()
    delta = second["delta"]
    assert (delta["since"], delta["events"], delta["messages"]) == (first["id"], head - first["seq"], 2)
    assert (delta["tools"], delta["input_tokens"], float(delta["cost"])) == ({}, 0, 0)
    template = {"template": "You help $team.", "parameters": {"team": "sales"}}
    for overrides, system in ((template, "You help sales."), ({"prompt_patch": {"append": "Be kind."}}, None)):
        named = {"model": "gpt-4o-mini", "max_cost_usd": "0.25", **overrides}
        for route, point in (("resume", {"checkpoint_id": first["id"]}), ("fork", {"at": first["seq"]})):
            answer = owner.post(f"{path}/{route}", json={**point, "overrides": named})
            assert answer.status_code == 201, answer.text
            child = answer.json()
            assert (child["model"], child["max_cost_usd"], child["parent_seq"]) == ("gpt-4o-mini", 0.25, first["seq"])
            prompt = child["config"]["system"]
            assert prompt == system if system else "Be brief." in prompt and "Be kind." in prompt
    original = owner.get(path).json()
    assert (original["model"], original["max_cost_usd"], original["config"]["system"]) == ("gpt-4o", 5, "Be brief.")


def test_a_thread_out_of_reach_is_not_joined(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("threads:web:mara")
    with api.client(api.make_token("thread-other", "read", "write", agent="other")) as other:
        for body in ({"key": "other:web:zz", "new": True}, {"key": "other:web:zz"}, {"agent": "other"}):
            answer = other.post("/sessions", json={**body, "conversation_id": session_id})
            assert problem(answer) == (404, "not-found"), body
        own = other.post("/sessions", json={"agent": "other", "conversation_id": "thread-7"}).json()
        joined = other.post("/sessions", json={"agent": "other", "conversation_id": own["id"]})
        assert (joined.status_code, joined.json()["conversation_id"]) == (201, own["id"])
    (found,) = owner.get("/sessions", params={"conversation": session_id}).json()["sessions"]
    assert found["id"] == session_id


def test_who_may_not_read_is_not_shown_the_prompt(api: ApiServer) -> None:
    session_id = api.open_session("prompts:web:mara", system="The secret prompt.")
    with api.client(api.make_token("prompt-writer", "write")) as writer:
        opened = writer.post("/sessions", json={"key": "prompts:web:mara"})
        forked = writer.post(f"/sessions/{session_id}/fork")
        for answer in (opened, forked):
            assert answer.status_code == 201
            assert "secret prompt" not in answer.text
