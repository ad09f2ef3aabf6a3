"""Sessions over HTTP by the names of the sessions' specification: taken beside ours, and answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx2
import pytest

from tests.acceptance.api.server import ApiServer
from tests.acceptance.api.test_api_sessions import owner as owner  # a fixture

ANALYST = {"template": "You look at $pair. Risk: $risk.", "parameters": {"risk": "low"}}


def open_session(owner: httpx2.Client, **members: Any) -> dict[str, Any]:
    answer = owner.post("/sessions", json=members)
    assert answer.status_code == 201, answer.text
    opened: dict[str, Any] = answer.json()
    return opened


def test_a_session_is_created_by_an_agents_number_and_a_config(owner: httpx2.Client) -> None:
    """B1, B2, B6."""
    config = {"model": "gpt-4o-mini", "system_prompt": "Be brief.", "max_cost_usdc": 0.5}
    compaction = {"threshold": 0.7, "strategy": "window"}
    session = open_session(owner, agent_id=42, config=config | {"compaction": compaction})
    assert (session["agent_id"], session["golem_id"], session["agent"]) == (42, 42, "42")
    assert (session["model"], session["max_cost_usd"]) == ("gpt-4o-mini", 0.5)
    options = {"system": "Be brief.", "compaction_threshold": 0.7, "strategy": "window", "tool_names": []}
    named = {"system_prompt": "Be brief.", "compaction": compaction, "max_cost_usdc": 0.5}
    assert session["config"] == options | named
    assert owner.get(f"/sessions/{session['id']}").json()["config"] == session["config"]


def test_a_session_says_whose_it_is_by_what_policy_and_who_answered(owner: httpx2.Client) -> None:
    """P5, P8, P9."""
    policy = {"loop_suspicion": False, "web": {"allow": ["example.org"]}}
    trigger = {"trigger_type": "herald-chat", "trigger_id": "m-1"}
    of = {"space_id": "space-9", "mailbox_id": "box-2"}
    session = open_session(owner, key="herald:mail:ines", policy=policy, **trigger, **of)
    assert (session["policy"], session["space_id"], session["mailbox_id"]) == (policy, "space-9", "box-2")
    start = owner.get(f"/sessions/{session['id']}/events").json()["events"][0]["data"]
    assert (start["policy"], start["tool_names"]) == (policy, session["tool_names"])
    listed = owner.get("/sessions", params={"space_id": "space-9", "mailbox_id": "box-2"}).json()["sessions"]
    assert [each["id"] for each in listed] == [session["id"]]
    assert owner.get("/sessions", params={"space_id": "space-9", "mailbox_id": "box-3"}).json()["sessions"] == []
    other = owner.post("/sessions", json={"key": "herald:mail:ines", "policy": {}, **trigger})
    assert other.status_code == 409


def test_a_wake_over_http_says_which_row_of_the_recovery_table_applies(owner: httpx2.Client) -> None:
    """L9, L19."""
    session = open_session(owner, agent_id=7)
    woken = owner.post(f"/sessions/{session['id']}/wake").json()
    assert (woken["state"], woken["action"]) == ("GEN_SENT", "idle")


def test_an_event_is_shown_by_the_names_of_its_description(owner: httpx2.Client) -> None:
    """A2, L3."""
    session = open_session(owner, agent_id=7)
    owner.patch(f"/sessions/{session['id']}/scratchpad", json={"content": "plan"}).raise_for_status()
    first, second = owner.get(f"/sessions/{session['id']}/events").json()["events"]
    names = {"id", "session_id", "event_type", "data", "created_at", "consolidated_at", "task_id", "tool_name"}
    assert first.keys() >= names
    assert (first["event_type"], first["session_id"], second["id"] > first["id"]) == (
        "SessionStart", session["id"], True,
    )  # fmt: skip
    assert (first["consolidated_at"], first["task_id"], first["tool_name"]) == (None, None, None)


def test_a_fork_begins_a_conversation_that_names_its_parents(owner: httpx2.Client) -> None:
    """P10."""
    session = open_session(owner, key="forked:web:mara")
    fork = owner.post(f"/sessions/{session['id']}/fork").json()
    assert (fork["conversation_id"], fork["parent_conversation_id"]) == (fork["id"], session["conversation_id"])
    owner.post(f"/sessions/{session['id']}/end").raise_for_status()
    assert open_session(owner, key="forked:web:mara")["conversation_id"] == session["conversation_id"]


def test_the_latest_of_a_conversation_is_no_branch_and_no_copy(owner: httpx2.Client) -> None:
    """P15, P19."""
    session = open_session(owner, key="latest:web:mara")
    conversation = session["conversation_id"]
    branch = owner.post(f"/sessions/{session['id']}/branch", json={"kind": "sim", "message": "What if?"}).json()
    bundle = owner.get(f"/sessions/{session['id']}/export", params={"exact": True}).content
    headers = {"Content-Type": "application/x-ndjson"}
    answer = owner.post("/sessions/import", params={"copy": True}, content=bundle, headers=headers)
    copy = owner.get(f"/sessions/{answer.json()['session_id']}").json()
    for name in (branch["id"], copy["id"]):
        other = owner.get(f"/sessions/{name}").json()
        assert other["conversation_id"] != other["parent_conversation_id"] == conversation
    listed = owner.get("/sessions", params={"conversation": conversation}).json()["sessions"]
    assert [each["id"] for each in listed] == [session["id"]]


def test_a_session_keeps_the_version_of_the_template_that_it_names(owner: httpx2.Client) -> None:
    """B5."""
    assert owner.patch("/agents/lp-analyst", json=ANALYST).status_code == 200
    assert owner.patch("/agents/lp-analyst", json={"template": "Now: $pair, $risk."}).status_code == 200
    template = {"name": "lp-analyst", "version": "1", "params": {"pair": "ETH/USDC"}}
    first = open_session(owner, agent_id=7, config={"model": "gpt-4o-mini", "template": template})
    assert first["config"]["system"] == "You look at ETH/USDC. Risk: low."
    start = owner.get(f"/sessions/{first['id']}/events").json()["events"][0]["data"]
    assert start["template"] == {"name": "lp-analyst", "version": 1}
    pinned = {"name": "lp-analyst", "version": 1, "params": {"risk": "low", "pair": "ETH/USDC"}}
    assert first["config"]["template"] == pinned
    fork = owner.post(f"/sessions/{first['id']}/fork").json()
    other = owner.post(f"/sessions/{first['id']}/fork", json={"overrides": {"system": "Be brief."}}).json()
    assert (fork["config"]["template"], other["config"].get("template")) == (pinned, None)
    latest = open_session(owner, agent="main", template={"name": "lp-analyst"}, parameters={"pair": "BTC"})
    assert latest["config"]["system"] == "Now: BTC, low."


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"name": "nobody"}, "there are: "),
        ({"name": "pinned", "version": "3"}, "there are: 1"),
        ({"name": "pinned", "version": "v1.0"}, "there are: 1"),
        ({"name": "pinned", "version": "1", "params": {}}, "needs pair"),
        ({"name": "pinned", "params": {"pair": "x", "mood": "y"}}, "no parameter mood"),
    ],
)
def test_a_template_that_is_not_there_lists_those_that_are(
    owner: httpx2.Client, named: dict[str, Any], says: str
) -> None:
    owner.patch("/agents/pinned", json={"template": "You look at $pair."})
    refused = owner.post("/sessions", json={"agent_id": 7, "config": {"model": "gpt-4o-mini", "template": named}})
    assert refused.status_code == 422
    assert says in refused.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"agent_id": 7, "config": {"modl": "auto"}},
        {"agent_id": 7, "agent": "main"},
        {"agent_id": 7, "config": {"model": "auto"}, "model": "gpt-4o-mini"},
        {"agent_id": 7, "config": "auto"},
        {"agent_id": 7, "config": {"compaction": {"threshold": 0.5}}, "compaction_threshold": 0.6},
        {"agent_id": 77, "key": "other:web:z"},
        {"agent_id": -1},
        {"agent_id": 2**64},
    ],
)
def test_what_nobody_knows_or_stands_twice_is_refused(owner: httpx2.Client, body: dict[str, Any]) -> None:
    assert owner.post("/sessions", json=body).status_code == 422


def test_a_scratchpad_is_set_by_its_content(owner: httpx2.Client) -> None:
    """B15, B16."""
    session = open_session(owner, agent_id=7)
    changed = owner.patch(f"/sessions/{session['session_id']}/scratchpad", json={"content": "- [ ] ask"}).json()
    assert (changed["session_id"], changed["content"]) == (session["id"], "- [ ] ask")
    assert changed["token_count"] > 0
    event = owner.get(f"/sessions/{session['id']}/events").json()["events"][-1]
    assert changed["last_updated_at"] == int(datetime.fromisoformat(event["created_at"]).timestamp() * 1000)
    twice = owner.patch(f"/sessions/{session['id']}/scratchpad", json={"content": "a", "text": "b"})
    assert twice.status_code == 422


def test_a_checkpoint_is_resumed_with_another_config(owner: httpx2.Client) -> None:
    """B8, B12, B13."""
    session = open_session(owner, agent_id=7, config={"model": "gpt-4o-mini"})
    labelled = {"label": "before the swap", "metadata": {"strategy": "lp"}}
    checkpoint = owner.post(f"/sessions/{session['id']}/checkpoint", json=labelled).json()
    override = {
        "model": "gpt-4o",
        "system_prompt": "Think twice.",
        "max_cost_usdc": 2,
        "compaction": {"threshold": 0.4},
    }
    resumed = owner.post(
        f"/sessions/{session['id']}/resume", json={"checkpoint_id": checkpoint["id"], "config_override": override}
    )
    assert resumed.status_code == 201, resumed.text
    child = resumed.json()
    assert child["session_id"] != session["session_id"]
    assert (child["model"], child["max_cost_usd"], child["config"]["system"]) == ("gpt-4o", 2, "Think twice.")
    assert child["config"]["compaction_threshold"] == 0.4
    owner.patch("/agents/swapper", json={"template": "You swap $pair."}).raise_for_status()
    template = {"name": "swapper", "version": None, "params": {"pair": "ETH/USDC"}}
    other = owner.post(
        f"/sessions/{session['id']}/resume",
        json={"checkpoint_id": checkpoint["id"], "config_override": {"template": template}},
    ).json()
    assert (other["config"]["system"], other["model"]) == ("You swap ETH/USDC.", "gpt-4o-mini")
    shown = owner.get(f"/sessions/{session['id']}").json()
    assert [each["label"] for each in shown["checkpoints"]] == ["before the swap"]
    second = owner.post(f"/sessions/{session['id']}/checkpoint", json={"label": "again"}).json()
    assert (second["delta"]["cost"], second["delta"]["events"]) == (0, 0)
    same = owner.post(f"/sessions/{session['id']}/resume", json={"checkpoint_id": None, "config_override": None})
    assert (same.status_code, same.json()["model"]) == (201, "gpt-4o-mini")


def test_a_session_is_shown_by_the_names_of_the_specification(owner: httpx2.Client, api: ApiServer) -> None:
    """B25."""
    session = open_session(owner, agent_id=7, config={"model": "gpt-4o-mini", "max_cost_usdc": 1.5})
    owner.patch(f"/sessions/{session['id']}/scratchpad", json={"content": "plan"})
    shown = owner.get(f"/sessions/{session['id']}").json()
    assert shown["session_id"] == session["id"]
    assert (shown["agent_id"], shown["golem_id"], shown["model"], shown["max_cost_usd"]) == (7, 7, "gpt-4o-mini", 1.5)
    assert shown["created_at"] == int(datetime.fromisoformat(shown["started_at"]).timestamp() * 1000)
    assert (shown["total_cost_usd"], shown["compaction_count"]) == (0.0, 0)
    assert (shown["checkpoints"], shown["sub_agents"], shown["scratchpad"]["content"]) == ([], [], "plan")


@pytest.mark.parametrize("kind", ["sim", "pre-steer", "dream"])
def test_a_branch_of_each_kind_is_named_as_the_specification_does(owner: httpx2.Client, kind: str) -> None:
    """B28."""
    session = open_session(owner, agent_id=7, config={"model": "gpt-4o-mini"})
    answer = owner.post(f"/sessions/{session['id']}/branch", json={"kind": kind, "message": "What if?"})
    assert (answer.status_code, answer.json()["kind"]) == (201, kind.replace("-", "_"))
