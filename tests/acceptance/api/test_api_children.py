"""Checkpoints, forks, tasks, notes, agents and live streams over HTTP, as a program uses them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.acceptance.api.server import ApiServer, read_frames


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


def test_a_task_is_started_and_ended_with_its_outcome(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('tasks:web:mara')}/tasks"
    started = owner.post(path, json={"title": "Fix the build"})
    assert started.status_code == 201
    assert problem(owner.post(path, json={"title": "Another"})) == (422, "invalid")
    ended = owner.post(f"{path}/finish", json={"outcome": "success", "note": "green"}).json()
    assert (ended["id"], ended["outcome"], ended["started_by"]) == (started.json()["id"], "success", "user:owner")
    assert problem(owner.post(f"{path}/finish", json={"outcome": "failure"})) == (422, "invalid")
    assert [task["outcome"] for task in owner.get(path).json()["tasks"]] == ["success"]


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
    assert (session["config"]["max_steps"], session["max_cost_usd"]) == (7, "0.50")
    assert owner.get(f"/sessions/{session['id']}/seeds").json()["seeds"][0]["content"] == "You help support."
    with api.client(api.make_token("writer", "read", "write")) as writer:
        assert problem(writer.patch("/agents/helper", json={"max_steps": 100})) == (403, "forbidden")
        assert writer.get("/agents").json()["agents"][0]["name"] == "helper"
    assert owner.delete("/agents/helper").status_code == 204
    assert problem(owner.get("/agents/helper")) == (404, "not-found")
    assert len(owner.get("/agents/helper/versions").json()["versions"]) == 2


def test_sessions_are_found_by_status_labels_trigger_and_conversation(api: ApiServer, owner: httpx2.Client) -> None:
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
