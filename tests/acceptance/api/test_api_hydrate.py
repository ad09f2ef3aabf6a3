"""One call shows a session whole: messages in pages, notes, state, what is open, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from consolidator.database import Database
from consolidator.store.log import events
from consolidator.store.turns import lease
from tests.acceptance.api.server import ApiServer, Json, read_frames
from tests.conftest import NOON
from tests.support import assistant_response, tool_call, tool_result, user_message


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def log_turns(api: ApiServer, session_id: str, count: int, about: str = "") -> None:
    """Log turns with a call each, the last of which waits for a person."""

    async def work(database: Database) -> None:
        async with database.transaction() as conn:
            for number in range(count):
                turn = [user_message(f"question {number}{about}"), tool_call(f"c{number}", "look", {"at": number})]
                if number < count - 1:
                    turn += [tool_result(f"c{number}", "seen"), assistant_response(f"answer {number}")]
                await events.append(conn, session_id, turn, now=NOON)
            requested = {f"c{count - 1}": {"kind": "approval", "tool": "look"}}
            await lease.set_attention(conn, session_id, requested=requested)

    api.run(work)


def test_a_session_is_shown_whole_at_one_moment(api: ApiServer, owner: httpx2.Client) -> None:
    seeds = [{"role": "user", "content": "Dear all"}]
    session_id = api.open_session("hydrate:web:mara", system="Be brief.", seeds=seeds)
    path = f"/sessions/{session_id}"
    owner.patch(f"{path}/scratchpad", json={"text": "- ask for the invoice"})
    owner.post(f"{path}/tasks", json={"title": "Fix the build"})
    log_turns(api, session_id, 3)
    checkpoint = owner.post(f"{path}/checkpoint", json={"label": "start", "at": 1}).json()
    fork = owner.post(f"{path}/fork", json={"at": 1}).json()
    shown = owner.get(f"{path}/hydrate").json()
    session = owner.get(path).json()
    assert session.items() >= shown["session"].items()
    assert [seed["content"] for seed in shown["seeds"]] == ["Be brief.", "Dear all"]
    assert shown["seed_count"] == 2
    said = [message["data"].get("text") for message in shown["messages"] if message["data"].get("text")]
    assert said == ["question 0", "answer 0", "question 1", "answer 1", "question 2"]
    assert shown["scratchpad"]["text"] == "- ask for the invoice"
    assert shown["open_task"]["title"] == "Fix the build"
    assert [(call["call_id"], call["arguments"]) for call in shown["open_calls"]] == [("c2", {"at": 2})]
    assert set(shown["session"]["attention"]) == {"c2"}
    assert [child["id"] for child in shown["children"]] == [fork["id"]]
    assert shown["checkpoints"] == [checkpoint]
    assert (shown["state"], shown["answering"], shown["next_cursor"]) == ({}, None, None)
    assert shown["last_event_id"] == str(session["head"])


def test_messages_come_in_pages_from_the_end_also_those_of_ancestors(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("hydrate:web:pages")
    log_turns(api, session_id, 6)
    answered = owner.get(f"/sessions/{session_id}/events", params={"limit": 500}).json()["events"]
    point = max(event["seq"] for event in answered if event["type"] == "AssistantResponse")
    child_id = owner.post(f"/sessions/{session_id}/fork", json={"at": point}).json()["id"]
    owner.post(f"/sessions/{child_id}/messages", json={"text": "and now"})
    pages: list[list[Json]] = []
    cursor: dict[str, str] = {}
    while True:
        shown = owner.get(f"/sessions/{child_id}/hydrate", params={"limit": 4, **cursor}).json()
        pages.append(shown["messages"])
        if shown["next_cursor"] is None:
            break
        cursor = {"cursor": shown["next_cursor"]}
    messages = [message for page in reversed(pages) for message in page]
    assert [len(page) for page in pages[:-1]] == [4] * (len(pages) - 1)
    history = owner.get(f"/sessions/{child_id}/events", params={"history": True, "limit": 500}).json()["events"]
    assert messages == [event for event in history if event["type"] != "SessionStart"]
    assert messages[-1]["data"]["text"] == "and now"
    other = api.open_session("hydrate:web:other")
    assert owner.get(f"/sessions/{other}/hydrate", params=cursor).status_code == 400


def test_a_stream_goes_on_where_a_surface_was_hydrated(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("hydrate:web:live")
    owner.post(f"/sessions/{session_id}/messages", json={"text": "before"})
    shown = owner.get(f"/sessions/{session_id}/hydrate").json()
    owner.post(f"/sessions/{session_id}/messages", json={"text": "after"})
    headers = {"accept": "text/event-stream", "last-event-id": shown["last_event_id"]}
    with owner.stream("GET", f"/sessions/{session_id}/events", headers=headers) as stream:
        _, event_id, event = next(read_frames(stream.iter_lines()))
    assert event["data"]["text"] == "after"
    assert event_id == str(int(shown["last_event_id"]) + 1)


def test_only_who_reads_the_session_is_shown_it(api: ApiServer) -> None:
    session_id = api.open_session("hydrate:web:ada")
    for name, scope, peer, status in (
        ("hydrate-ada", "read", "ada", 200),
        ("hydrate-bob", "read", "bob", 404),
        ("hydrate-writer", "write", None, 403),
    ):
        with api.client(api.make_token(name, scope, peer=peer)) as client:
            assert client.get(f"/sessions/{session_id}/hydrate").status_code == status


def test_who_may_only_write_is_shown_nothing_of_what_a_session_holds(api: ApiServer, owner: httpx2.Client) -> None:
    """B25."""
    session_id = api.open_session("unread:web:mara")
    path = f"/sessions/{session_id}"
    owner.patch(f"{path}/scratchpad", json={"text": "Quokka."}).raise_for_status()
    owner.post(f"{path}/tasks", json={"title": "Feed the quokka"}).raise_for_status()
    log_turns(api, session_id, 3, " about a quokka" * 400)
    with api.client(api.make_token("unread-writer", "write")) as writer:
        answers = [
            writer.post("/sessions", json={"key": "unread:web:mara"}),
            writer.patch(f"{path}/scratchpad", json={"mode": "append", "text": "More."}),
            writer.post(f"{path}/compact", json={"budget": 1000, "by_model": False}),
            writer.post(f"{path}/tasks/finish", json={"outcome": "success"}),
        ]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
    assert answers[2].json()["compacted"]
    assert owner.get(path).json()["compaction_count"] == 1
    for answer in answers:
        assert "quokka" not in answer.text.lower(), answer.text
    assert answers[0].json()["attention"] == {"c2": {"kind": "approval"}}
