"""A session's life over HTTP: what it began with, which model answered and why, its state, its error, its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator import Outcome, Tool, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, read_frames, serve
from tests.conftest import NOON
from tests.databases import database_copy
from tests.runtime import Replies, open_agent
from tests.support import in_thread, run_cli, run_job


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


@tool(idempotent=True)
async def note(key: str, value: Any) -> Outcome:
    """Set something in the session's state."""
    return Outcome("set", patch={key: value})


def drive(api: ApiServer, session_id: str, answers: Replies, tools: Iterable[Tool] = (), **settings: Any) -> list[Json]:
    """Answer what is open in a session, as a driver does; return the requests that the model got."""

    async def work(database: Database) -> Any:
        async with ModelServer(answers=answers) as model, open_agent(database, model, tools, **settings) as agent:
            await agent.wake(session_id)
            return model.requests

    requests: list[Json] = api.run(work)
    return requests


def create(owner: httpx2.Client, **wanted: Any) -> Json:
    """Create a session."""
    created: Json = owner.post("/sessions", json=wanted).raise_for_status().json()
    return created


def read_events(owner: httpx2.Client, session_id: str) -> list[Json]:
    """Return a session's events."""
    events: list[Json] = owner.get(f"/sessions/{session_id}/events").raise_for_status().json()["events"]
    return events


def test_a_session_whose_time_is_over_is_ended_by_retention(
    api: ApiServer, owner: httpx2.Client, tmp_path: Path
) -> None:
    """C12."""
    mortal = create(owner, agent="expiring", session_ttl_seconds=3600)
    lasting = create(owner, agent="expiring")
    assert mortal["expires_at"] > mortal["started_at"]
    assert (lasting["expires_at"], lasting["completed_at"]) == (None, None)
    later, settings = FrozenClock(NOON + timedelta(hours=2)), Settings(home=tmp_path, health_port=0)
    api.run(lambda database: run_job(database, settings, "retention"), later)
    ended = owner.get(f"/sessions/{mortal['id']}").json()
    assert (ended["status"], ended["activity"]) == ("ended", "ended")
    assert ended["completed_at"].startswith(f"{NOON + timedelta(hours=2):%Y-%m-%dT%H:%M}")
    last = read_events(owner, mortal["id"])[-1]
    assert (last["type"], last["data"]["reason"], last["principal"]) == ("SessionEnd", "expired", "operator")
    assert owner.get(f"/sessions/{lasting['id']}").json()["status"] == "open"
    refused = owner.post(f"/sessions/{mortal['id']}/messages", json={"text": "Are you there?"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:consolidator:problem:session-closed")


def test_an_error_that_ended_a_turn_is_told_until_a_turn_succeeds(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{create(owner, agent='failing')['id']}"
    owner.post(f"{path}/messages", json={"text": "Hello"}).raise_for_status()
    drive(api, path.rpartition("/")[2], [ScriptedReply.failed(401, message="no such key")])
    failed = owner.get(path).json()
    assert "401" in failed["error"]
    assert (failed["status"], failed["completed_at"]) == ("open", None)
    owner.post(f"{path}/messages", json={"text": "Hello again"}).raise_for_status()
    drive(api, path.rpartition("/")[2], ["Hello."])
    assert owner.get(path).json()["error"] is None


@pytest.mark.parametrize("trigger", ["chat", "message", "email", "cron", "api"])
def test_what_a_model_saw_at_the_start_is_kept_in_order_whatever_started_it(
    api: ApiServer, owner: httpx2.Client, trigger: str
) -> None:
    """P11."""
    thread: list[Json] = [
        {"role": "user", "content": "Dear all, the build is red.", "details": {"from": "ines"}},
        {"role": "assistant", "content": "I look into it."},
        {"role": "user", "content": "Thanks.", "is_new": True},
    ]
    session = create(
        owner, agent="desk", template="You help $team.", parameters={"team": "sales"}, seeds=thread,
        trigger_type=trigger, trigger_id=f"{trigger}-1",
    )  # fmt: skip
    assert (session["trigger_type"], session["trigger_id"]) == (trigger, f"{trigger}-1")
    seeds = owner.get(f"/sessions/{session['id']}/seeds").json()["seeds"]
    assert [(seed["role"], seed["content"]) for seed in seeds] == [
        ("system", "You help sales."), *((seed["role"], seed["content"]) for seed in thread)
    ]  # fmt: skip
    assert [seed["ordinal"] for seed in seeds] == [0, 1, 2, 3]
    assert seeds[1]["details"] == {"from": "ines"}
    owner.post(f"/sessions/{session['id']}/messages", json={"text": "And?"}).raise_for_status()
    (request,) = drive(api, session["id"], ["It is green."])
    shown = [(message["role"], message["content"]) for message in request["messages"]]
    assert [role for role, _ in shown] == ["system", "user"]
    assert shown[0][1] == "You help sales."
    places = [shown[1][1].index(text) for text in (*(seed["content"] for seed in thread), "And?")]
    assert places == sorted(places)


async def test_the_choice_of_a_model_and_its_reason_are_in_the_log(
    server_dsn: str, template: str, tmp_path: Path
) -> None:
    models = {"CONSOLIDATOR_MODEL": "gpt-4.1", "CONSOLIDATOR_EXTRACT_MODEL": "gpt-4o-mini"}

    def talk(url: str) -> tuple[list[Json], Json]:
        """Return the events and the cost of a session that the service has answered in."""
        with (
            database_copy(server_dsn, template) as dsn,
            serve(dsn, tmp_path, OPENAI_BASE_URL=url, OPENAI_API_KEY="none", **models) as service,
            service.client() as owner,
        ):
            session = create(owner, agent="routed", model="auto")
            accept = {"accept": "text/event-stream"}
            messages = f"/sessions/{session['id']}/messages"
            with owner.stream("POST", messages, json={"text": "Hello"}, headers=accept) as stream:
                frames = list(read_frames(stream.iter_lines()))
            assert frames[-1][2]["reason"] == "settled"
            cost = owner.get(f"/sessions/{session['id']}/cost", params={"by": "model"}).json()
            return read_events(owner, session["id"]), cost

    async with ModelServer(answers=["Hello."]) as model:
        events, cost = await in_thread(talk, model.url)
        asked = [request["model"] for request in model.requests]
    decisions = [event["data"] for event in events if event["type"] == "PolicyDecision"]
    (routed,) = [decision for decision in decisions if decision["decision"] == "model_routed"]
    assert (routed["model"], routed["reason"]) == ("gpt-4.1", "a turn of a person: the strong model")
    assert asked == ["gpt-4.1"]
    assert [group["name"] for group in cost["groups"]] == ["gpt-4.1"]


def test_a_state_is_the_fold_of_the_changes_that_tools_made(api: ApiServer, owner: httpx2.Client) -> None:
    """P3."""
    session = create(owner, agent="stateful")
    owner.post(f"/sessions/{session['id']}/messages", json={"text": "Set them"}).raise_for_status()
    answers: Replies = [
        ScriptedReply.calling(("note", {"key": "a", "value": 1}), ("note", {"key": "b", "value": [2]})),
        ScriptedReply.calling(("note", {"key": "a", "value": "three"})),
        "Done.",
    ]
    drive(api, session["id"], answers, [note])
    assert owner.get(f"/sessions/{session['id']}/state").json()["state"] == {"a": "three", "b": [2]}
    environment = {"CONSOLIDATOR_HOME": str(api.home), "CONSOLIDATOR_DATABASE_URL": api.dsn, "PATH": "/usr/bin:/bin"}
    assert "session rows are the fold of their logs" in run_cli("db", "verify", environment=environment).stdout
    shown = run_cli("session", "show", "--part", "state", session["id"], "--json", environment=environment).stdout
    assert '"three"' in shown


def test_the_runs_of_a_key_are_one_conversation_with_their_labels(api: ApiServer, owner: httpx2.Client) -> None:
    first = create(owner, key="threads:web:mara", labels={"space_id": "s7", "mailbox_id": "m1"})
    owner.post(f"/sessions/{first['id']}/end").raise_for_status()
    second = create(owner, key="threads:web:mara", labels={"space_id": "s7"})
    branched = {"at": 1, "same_conversation": True}
    fork = owner.post(f"/sessions/{second['id']}/fork", json=branched).raise_for_status().json()
    assert first["conversation_id"] == first["id"]
    assert {second["conversation_id"], fork["conversation_id"]} == {first["id"]}
    runs = owner.get("/sessions", params={"conversation": first["id"], "order": "runs"}).json()["sessions"]
    assert [run["id"] for run in runs] == [first["id"], second["id"], fork["id"]]
    labelled = owner.get("/sessions", params={"label": ["space_id=s7", "mailbox_id=m1"]}).json()["sessions"]
    assert [run["id"] for run in labelled] == [first["id"]]
