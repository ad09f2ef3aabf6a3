"""What the model of a served session is offered and shown: tools, notes, and contexts that its agent or fork bounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.clock import FrozenClock
from consolidator.context.build import advance_history
from consolidator.database import Database
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, answer_models, serve, use_model, wait_for
from tests.conftest import NOON
from tests.support import run_job, user_message

TOOLS = '''
from consolidator import Outcome, tool


@tool(side_effect=False, idempotent=True)
def look(what: str) -> str:
    """Look at something."""
    return f"{what} is green"


@tool(idempotent=True)
async def remember(text: str) -> Outcome:
    """Keep something in the session's state."""
    return Outcome("kept", patch={"kept": text})
'''
NOTES = "- ask ines for the key"
CALLS: dict[str, tuple[str, Json]] = {
    "Look at": ("look", {"what": "the build"}),
    "Keep it": ("remember", {"text": "blue"}),
    "Note it": ("update_scratchpad", {"mode": "append", "text": NOTES}),
}


def answer(request: Json) -> ScriptedReply:
    """Call the tool that the last message asks for; tell what a tool says; never end an answer that is to wait."""
    if "keep an AI agent's memory" in str(request["messages"][0]["content"]):
        return ScriptedReply.json({"summary": "They counted words.", "next_steps": []})
    last = [message for message in request["messages"] if not is_notes(message)][-1]
    if last["role"] == "tool":
        return ScriptedReply(text=f"It says: {last['content']}")
    for asked, call in CALLS.items():
        if asked in str(last["content"]) and call[0] in names_of(request):
            return ScriptedReply.calling(call)
    if "Wait there" in str(last["content"]):
        return ScriptedReply(text="one two three", stall_after=1)
    return ScriptedReply(text="An answer.")


def is_notes(message: Json) -> bool:
    """Tell whether a message of a request is the scratchpad alone."""
    return str(message["content"]).lstrip().startswith("<working_memory>")


def names_of(request: Json) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [tool["function"]["name"] for tool in request.get("tools", ())]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with answer_models(answer) as server:
        yield server


@pytest.fixture(scope="module")
def api(module_dsn: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A service that drives sessions, with tools of its own and the built-in notes."""
    home: Path = tmp_path_factory.mktemp("offers")
    (home / "mytools.py").write_text(TOOLS)
    options = ("--tools", str(home / "mytools.py"), "--tools", "scratchpad")
    with serve(module_dsn, home, *options, **use_model(model)) as server:
        yield server


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def talk(owner: httpx2.Client, path: str, *texts: str) -> None:
    """Send messages, each when the one before is answered."""
    for text in texts:
        owner.post(f"{path}/messages", json={"text": text}).raise_for_status()
        wait_for(owner, path, lambda session: not session["pending"] and session["activity"] == "idle")


def fork(owner: httpx2.Client, path: str, way: str = "fork", **overrides: Any) -> Json:
    """Return a child of a session."""
    answered = owner.post(f"{path}/{way}", json={"overrides": overrides})
    assert answered.status_code == 201, answered.text
    child: Json = answered.json()
    return child


def read_events(owner: httpx2.Client, path: str) -> list[Json]:
    """Return a session's own events."""
    found: list[Json] = owner.get(f"{path}/events", params={"limit": 500}).raise_for_status().json()["events"]
    return found


def count_compactions(owner: httpx2.Client, path: str) -> int:
    """Return how often a session's context was compacted, as its log says."""
    return sum(event["data"].get("decision") == "compaction" for event in read_events(owner, path))


def requests_with(model: ModelServer, text: str) -> list[Json]:
    """Return the requests that the model got with a text in a message."""
    return [request for request in model.requests if text in str(request["messages"])]


def age_of(point: Json) -> timedelta:
    """Return how long something is kept after it was made, in whole seconds."""
    age = datetime.fromisoformat(point["expires_at"]) - datetime.fromisoformat(
        point.get("started_at") or point["created_at"]
    )
    return timedelta(seconds=round(age.total_seconds()))


def test_what_the_next_context_takes_is_told_if_asked_for(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('offers:web:use', system='Be brief.', budget=9000)}"
    assert owner.get(path).json()["context"] is None
    first = owner.get(path, params={"with_context": True}).json()["context"]
    assert (first["budget"], first["strategy"], first["model"]) == (9000, "budget", "gpt-4o-mini")
    assert first["window"] == 128_000
    talk(owner, path, "How many words? " * 50)
    later = owner.get(path, params={"with_context": True}).json()["context"]
    assert later["tokens"] > first["tokens"] + 100
    assert later["share"] == pytest.approx(later["tokens"] / later["window"])
    shown = owner.get(f"{path}/context").json()
    assert later["tokens"] == sum(part["tokens"] for part in shown["parts"])


def test_a_checkpoint_lives_a_day_or_as_long_as_its_agent_or_request_says(api: ApiServer, owner: httpx2.Client) -> None:
    owner.patch("/agents/brief", json={"checkpoint_ttl_seconds": 600}).raise_for_status()
    for key, body, kept in (
        ("lasting:web:mara", {}, timedelta(hours=24)),
        ("brief:web:mara", {}, timedelta(minutes=10)),
        ("brief:web:mara", {"ttl_seconds": 60}, timedelta(minutes=1)),
    ):
        created = owner.post(f"/sessions/{api.open_session(key)}/checkpoint", json=body)
        assert created.status_code == 201, created.text
        assert age_of(created.json()) == kept


def test_an_agents_tools_time_and_threshold_are_in_effect(
    api: ApiServer, owner: httpx2.Client, model: ModelServer
) -> None:
    small = {"strategy": "compacted", "budget": 2000}
    narrow = {"tools": ["look"], "session_ttl_seconds": 3600, "compaction_threshold": 0.2, **small}
    owner.patch("/agents/narrow", json=narrow).raise_for_status()
    owner.patch("/agents/wide", json={"compaction_threshold": 1.0, **small}).raise_for_status()
    paths = {name: f"/sessions/{api.open_session(f'{name}:web:mara')}" for name in ("narrow", "wide")}
    shown = {name: owner.get(path).json() for name, path in paths.items()}
    assert age_of(shown["narrow"]) == timedelta(hours=1)
    assert shown["wide"]["expires_at"] is None
    for name, path in paths.items():
        talk(owner, path, *(f"Look at {name} {number}: " + "word " * 250 for number in range(3)))
    offered = {
        name: {tuple(names_of(request)) for request in requests_with(model, f"Look at {name} ")} for name in paths
    }
    assert offered["narrow"] - {()} == {("look",)}  # a summary is written without any
    assert offered["wide"] == {("look", "remember", "update_scratchpad")}
    assert count_compactions(owner, paths["narrow"]) > 0
    assert count_compactions(owner, paths["wide"]) == 0
    assert owner.get(paths["narrow"]).json()["compactions"] > 0


def test_the_models_notes_are_the_last_that_it_sees(api: ApiServer, owner: httpx2.Client, model: ModelServer) -> None:
    path = f"/sessions/{api.open_session('offers:web:notes')}"
    talk(owner, path, "Note it, my quokka", "And what of the quokka?")
    notes = owner.get(f"{path}/scratchpad").json()
    assert notes["text"] == NOTES
    (changed,) = [event for event in read_events(owner, path) if event["data"].get("decision") == "scratchpad_set"]
    assert (changed["seq"], changed["principal"], changed["data"]["text"]) == (notes["seq"], "agent", NOTES)
    asked, told, next_turn = requests_with(model, "my quokka")
    assert "<working_memory>" not in str(asked["messages"])
    for request in (told, next_turn):
        last = str(request["messages"][-1]["content"]).rstrip()
        assert last.endswith("</working_memory>")
        assert NOTES in last[last.rindex("<working_memory>") :]
    assert "what of the quokka" in str(next_turn["messages"][-2:])


def test_a_sub_agents_whole_work_has_its_calls_and_its_summary_has_not(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('offers:web:modes')}"
    texts = {}
    for mode in ("summary", "full"):
        started = owner.post(f"{path}/spawn", json={"task": "Look at it", "mode": mode, "tools": ["look"]}).json()
        result = wait_for(
            owner, f"/sessions/{started['session_id']}/result", lambda found: found["status"] != "running"
        )
        assert result["status"] == "ok", result
        texts[mode] = result["text"]
    assert texts["summary"] == "It says: the build is green"
    assert texts["full"] == f'[call look: {{"what": "the build"}}]\n\n[ok: the build is green]\n\n{texts["summary"]}'


def test_sub_agents_at_work_are_cancelled_when_their_parent_ends(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('offers:web:ending')}"
    children = [owner.post(f"{path}/spawn", json={"task": f"Wait there {n}"}).json()["session_id"] for n in range(2)]
    for child in children:
        wait_for(owner, f"/sessions/{child}", lambda found: found["activity"] == "running")
    owner.post(f"{path}/end", json={"reason": "enough"}).raise_for_status()
    for child in children:
        result = owner.get(f"/sessions/{child}/result").json()
        assert (result["status"], result["reason"]) == ("error", "its parent ended")
        assert owner.get(f"/sessions/{child}").json()["status"] == "ended"
    told = [event["data"] for event in read_events(owner, path) if event["type"] == "SubAgentComplete"]
    assert {(data["child"], data["status"]) for data in told} == {(child, "error") for child in children}


def test_a_steer_is_tried_while_the_session_is_in_the_middle_of_an_answer(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('offers:web:working')}"
    talk(owner, path, "Hello")
    owner.post(f"{path}/messages", json={"text": "Wait there"}).raise_for_status()
    wait_for(owner, path, lambda session: session["activity"] == "running")
    tried = owner.post(f"{path}/branch", json={"kind": "pre_steer", "message": "Look at it instead"})
    assert tried.status_code == 201, tried.text
    turns = tried.json()["comparison"]["diff"]["differences"]
    (turn,) = [turn["right"] for turn in turns if turn["message"] == "Look at it instead"]
    assert turn["answers"][-1] == "It says: the build is green"
    session = owner.get(path).json()
    assert session["activity"] == "running", "it is in the middle of its answer yet"
    assert [event["data"].get("mode") for event in read_events(owner, path)].count("steer") == 0
    owner.post(f"{path}/branches/{tried.json()['id']}/commit").raise_for_status()
    wait_for(owner, path, lambda session: not session["pending"] and session["activity"] == "idle")
    answers = [event["data"] for event in read_events(owner, path) if event["type"] == "AssistantResponse"]
    assert answers[-1]["text"] == "It says: the build is green"


def test_a_restore_is_compacted_by_its_own_threshold_and_strategy(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('offers:web:restored', budget=2000)}"
    talk(owner, path, *(f"Count {number}: " + "word " * 250 for number in range(3)))
    owner.post(f"{path}/checkpoint").raise_for_status()
    before = owner.get(path).json()
    named = {"strategy": "compacted", "budget": 2000}
    for threshold, is_compacted in ((0.2, True), (1.0, False)):
        child = fork(owner, path, "resume", compaction_threshold=threshold, **named)
        assert (child["config"]["strategy"], child["config"]["compaction_threshold"]) == ("compacted", threshold)
        own = f"/sessions/{child['id']}"
        talk(owner, own, "And now?")
        assert (count_compactions(owner, own) > 0) is is_compacted, threshold
    after = owner.get(path).json()
    assert (after["head"], after["config"], count_compactions(owner, path)) == (before["head"], before["config"], 0)


def test_a_forks_model_is_offered_the_tools_that_it_was_given(
    api: ApiServer, owner: httpx2.Client, model: ModelServer
) -> None:
    path = f"/sessions/{api.open_session('offers:web:forked')}"
    talk(owner, path, "Hello to the numbat")
    child = f"/sessions/{fork(owner, path, tools=['remember'])['id']}"
    talk(owner, child, "Look at the numbat's fork")
    talk(owner, path, "Look at the numbat itself")
    (forked,) = requests_with(model, "numbat's fork")
    assert names_of(forked) == ["remember"]
    assert "Hello to the numbat" in str(forked["messages"])
    assert {tuple(names_of(each)) for each in requests_with(model, "numbat itself")} == {
        ("look", "remember", "update_scratchpad")
    }


def test_each_surface_has_its_own_deliveries(api: ApiServer, owner: httpx2.Client) -> None:
    """L18, L19."""

    def wake() -> tuple[str, str, bool]:
        row = owner.post(f"{path}/wake").raise_for_status().json()
        return row["state"], row["action"], row["pending"]

    path = f"/sessions/{api.open_session('offers:web:surfaces')}"
    talk(owner, path, "One", "Two")
    ends = [str(event["seq"]) for event in read_events(owner, path) if event["type"] == "AssistantResponse"]
    shown = {"phone": (ends[0], 1), "desk": (ends[1], 2)}
    assert wake() == ("GEN_COMPLETE", "redeliver_if_unsent", True)
    wait_for(owner, path, lambda session: not session["pending"])
    for surface, (cursor, count) in shown.items():
        for expected in (count, 0):  # what was shown before is not shown again
            told = owner.post(f"{path}/deliveries", json={"surface": surface, "cursor": cursor})
            assert told.json()["messages"] == expected, told.text
    assert wake() == ("GEN_SENT", "idle", False)
    lines = [line for line in owner.get(f"{path}/export").raise_for_status().text.splitlines() if '"delivery"' in line]
    for surface, (_, count) in shown.items():
        assert sum(f'"{surface}"' in line for line in lines) == count, lines


def test_a_dream_has_no_state_and_a_night_learns_nothing_from_it(
    api: ApiServer, owner: httpx2.Client, tmp_path: Path
) -> None:
    path = f"/sessions/{api.open_session('dreamer:web:mara')}"
    talk(owner, path, "Keep it", "From now on, always use tabs for indentation.")
    assert owner.get(f"{path}/state").json()["state"] == {"kept": "blue"}
    made = {}
    for kind, wish in (("sim", "semicolons"), ("dream", "spaces")):
        message = f"From now on, always use {wish} for everything."
        branch = owner.post(f"{path}/branch", json={"kind": kind, "message": message}).raise_for_status().json()
        made[kind] = f"/sessions/{branch['id']}"
        wait_for(owner, made[kind], lambda found: not found["pending"])
    states = {kind: owner.get(f"{branch}/state").json()["state"] for kind, branch in made.items()}
    assert states == {"sim": {"kept": "blue"}, "dream": {}}
    night, settings = FrozenClock(NOON + timedelta(days=1)), Settings(home=tmp_path, health_port=0)
    api.run(lambda database: run_job(database, settings), night)
    learned = [fact["sentence"] for fact in owner.get("/facts", params={"agent": "dreamer"}).json()["facts"]]
    assert any("tabs" in sentence for sentence in learned), "the session itself is evidence"
    assert not [sentence for sentence in learned if "spaces" in sentence or "semicolons" in sentence]


def test_retention_keeps_what_a_checkpoint_needs_and_no_more_for_as_long_as_the_agent_says(
    api: ApiServer, owner: httpx2.Client, tmp_path: Path
) -> None:
    for agent, days in (("forgetful", 1), ("lasting", None)):
        owner.patch(f"/agents/{agent}", json={"retention_days": days}).raise_for_status()
    sessions = {
        name: api.open_session(f"{agent}:web:{name}")
        for name, agent in (("pinned", "forgetful"), ("plain", "forgetful"), ("kept", "lasting"))
    }

    async def log_many(database: Database) -> None:
        for session_id in sessions.values():
            async with database.transaction() as conn:
                said = [user_message(f"message {number}") for number in range(300)]
                await events.append(conn, session_id, said, now=NOON)
            async with database.connection() as conn:
                while await advance_history(conn, session_id):
                    continue

    api.run(log_many)
    owner.post(f"/sessions/{sessions['pinned']}/checkpoint", json={"ttl_seconds": 30 * 86400}).raise_for_status()
    for session_id in sessions.values():
        owner.post(f"/sessions/{session_id}/end").raise_for_status()
    settings = Settings(home=tmp_path, health_port=0, retention_max_share=1)
    api.run(lambda database: run_job(database, settings), FrozenClock(NOON + timedelta(days=1)))
    api.run(lambda database: run_job(database, settings, "retention"), FrozenClock(NOON + timedelta(days=5)))
    left = {name: [event["seq"] for event in read_events(owner, f"/sessions/{id_}")] for name, id_ in sessions.items()}
    assert left["plain"] == []
    assert left["kept"][0] == 1
    assert left["pinned"][0] == 1  # all that a restore reads
    restored = fork(owner, f"/sessions/{sessions['pinned']}", "resume")
    shown = owner.get(f"/sessions/{restored['id']}/context").json()
    assert "message 299" in str(shown["messages"])
