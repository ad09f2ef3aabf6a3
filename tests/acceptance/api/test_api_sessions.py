"""Sessions over HTTP: what is opened, said, read, decided and ended, as a program does it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator import Consolidator
from consolidator.api import guard
from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.service.encoding import encode_cursor
from consolidator.store.log import events
from consolidator.store.turns import lease
from consolidator.testing import ModelServer
from tests.acceptance.api.server import ApiServer, read_frames, serve
from tests.databases import database_copy
from tests.integration.log.test_blobs import LARGE_EVENTS, damage_blobs
from tests.runtime import create_settings, read_log
from tests.support import PATIENCE, log_events, tool_call, user_message


@pytest.fixture(scope="module")
def owner(api: ApiServer) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


def drive(api: ApiServer, session_id: str, *answers: str) -> None:
    """Answer what is open in a session, as a driver does."""

    async def work(database: Database) -> None:
        async with ModelServer(list(answers)) as model:
            settings = create_settings(model, Path("/nonexistent"))
            async with Consolidator(settings=settings, database=database) as agent:
                await agent.wake(session_id)

    api.run(work)


def test_a_session_is_opened_talked_to_read_and_ended(api: ApiServer, owner: httpx2.Client) -> None:
    """P4."""
    opened = owner.post("/sessions", json={"key": "main:web:ines", "system": "Be brief.", "max_steps": 5})
    assert opened.status_code == 201
    session = opened.json()
    path = opened.headers["location"].removeprefix("/v1")
    assert owner.get(path).json().items() >= session.items()
    assert (session["key"], session["status"], session["head"]) == ("main:web:ines", "open", 1)
    said = {"system": "Be brief.", "system_prompt": "Be brief."}  # by our name and the specification's
    assert session["config"] == {**said, "max_steps": 5, "tool_names": []}
    assert owner.post("/sessions", json={"key": "main:web:ines"}).json()["id"] == session["id"]
    sent = owner.post(f"{path}/messages", json={"text": "Hello"})
    assert (sent.status_code, sent.json()) == (202, {"session_id": session["id"], "seq": 2})
    drive(api, session["id"], "Hello, Ines.")
    page = owner.get(f"{path}/events").json()
    assert [(event["type"], event["principal"]) for event in page["events"]] == [
        ("SessionStart", "operator"),
        ("UserMessage", "user:owner"),
        ("ThinkingStart", "agent"),
        ("AssistantResponse", "agent"),
    ]
    assert page["next_cursor"] is None
    assert owner.get(path).json()["title"] == "Hello"
    listed = owner.get("/sessions", params={"key": "main:web:ines"}).json()["sessions"]
    assert [one["title"] for one in listed] == ["Hello"]
    shown = owner.get(f"{path}/context").json()
    assert [message["content"] for message in shown["messages"]] == ["Be brief.", "Hello", "Hello, Ines."]
    assert owner.get(f"{path}/state").json()["state"] == {}
    cost = owner.get(f"{path}/cost", params={"by": "model"}).json()
    assert cost["total"]["calls"] == 1
    assert cost["groups"][0]["name"] == "gpt-4o-mini"
    ended = owner.post(f"{path}/end", json={"reason": "done"})
    row = ended.json()
    assert (row["status"], row["error"], row["turns"], row["conversation_id"]) == ("ended", None, 1, session["id"])
    assert min(row["input_tokens"], row["output_tokens"], row["total_cost_usd"]) > 0
    assert row["completed_at"] >= row["started_at"]
    assert owner.post(f"{path}/end").json() == ended.json()
    woken = owner.post(f"{path}/wake").json()
    assert (woken["state"], woken["action"], woken["pending"]) == ("SESSION_TERMINATED", "noop", False)
    for action in ("messages", "steer", "follow-up", "stop"):
        refused = owner.post(f"{path}/{action}", json={"text": "More"})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:consolidator:problem:session-closed")
    assert owner.post("/sessions", json={"key": "main:web:ines"}).json()["id"] != session["id"]
    assert owner.post("/sessions", json={"key": "main:web:in\x1b[2Jes"}).status_code == 422


def test_a_key_is_not_opened_with_another_beginning(api: ApiServer, owner: httpx2.Client) -> None:
    begun = {"key": "main:mail:ines", "project": "/src", "trigger_type": "email", "trigger_id": "42"}
    first = owner.post("/sessions", json=begun).json()
    assert owner.post("/sessions", json=begun).json() == first
    refused = owner.post("/sessions", json={**begun, "trigger_id": "43", "metadata": {"subject": "Invoice"}})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:consolidator:problem:conflict")
    assert "other values of trigger_id, and these stay" in refused.json()["detail"]
    assert owner.get(f"/sessions/{first['id']}").json()["trigger_id"] == "42"
    with api.client(api.make_token("mailer", "write", project="/src", agent="main")) as mailer:  # its project is meant
        assert mailer.post("/sessions", json={"key": "main:mail:ines"}).json()["id"] == first["id"]


def test_who_speaks_is_the_credential_and_never_what_a_body_says(api: ApiServer) -> None:
    session_id = api.open_session("main:chat:mara")
    with api.client(api.make_token("web-chat", "write", peer="mara")) as client:
        assert client.post(f"/sessions/{session_id}/messages", json={"text": "Hi"}).status_code == 202
        refused = client.post(f"/sessions/{session_id}/messages", json={"text": "Hi", "speaker": "bob"})
        assert refused.status_code == 403
        for member in ({"principal": "operator"}, {"origin": "harness"}, {"mode": "steer"}):
            assert client.post(f"/sessions/{session_id}/messages", json={"text": "Hi", **member}).status_code == 422
    log = api.run(lambda database: read_log(database, session_id))
    assert [event.principal for event in log] == ["operator", "user:web-chat"]


def test_what_is_recorded_or_imported_is_read_and_never_driven(api: ApiServer, owner: httpx2.Client) -> None:
    batch = {"session_key": "main:elsewhere:mara", "events": [{"type": "UserMessage", "data": {"text": "Use tabs."}}]}
    recorded = owner.post("/events", json=batch).json()
    assert recorded == {"session": recorded["session"], "first_seq": 1, "last_seq": 1, "repeated": False}
    path = f"/sessions/{recorded['session']}"
    assert owner.get(f"{path}/events").json()["events"][0]["principal"] == "client:owner"  # a record, no person's word
    with api.client(api.make_token("surface", "write")) as surface:
        other = surface.post("/events", json=batch).json()["session"]
        assert other != recorded["session"]
        assert surface.get(f"/sessions/{other}").status_code == 403
    assert owner.get(f"/sessions/{other}/events").json()["events"][0]["principal"] == "user:surface"
    assert owner.get(path).json()["driven_here"] is False
    for action in ("messages", "steer", "follow-up", "stop", "wake", "compact", "end"):
        refused = owner.post(
            f"{path}/{action}", json={"text": "Hi"} if action in ("messages", "steer", "follow-up") else None
        )
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:consolidator:problem:session-closed")
    assert owner.delete(path).status_code == 409
    assert owner.get(path).json()["head"] == 1


def test_a_batchs_key_is_not_taken_for_other_events(api: ApiServer, owner: httpx2.Client) -> None:
    def build(*texts: str) -> list[dict[str, object]]:
        return [{"type": "UserMessage", "data": {"text": text, "n": 1.50, "nul": "\0"}} for text in texts]

    large = "x" * 100_000
    body = {"session_key": "batches:web:mara", "idempotency_key": "batch-1"}
    first = owner.post("/events", json={**body, "events": build("one", large)})
    assert first.status_code == 200, first.text
    again = owner.post("/events", json={**body, "events": build("one", large)}).json()
    assert again == {**first.json(), "repeated": True}
    for others in (build("one", "two"), build("one"), build("one", large, "two"), build("one", large + "x")):
        refused = owner.post("/events", json={**body, "events": others})
        assert refused.status_code == 422, refused.text
        assert refused.json()["type"] == "urn:consolidator:problem:idempotency-key-reused"
        assert "other events" in refused.json()["detail"]
    assert owner.get(f"/sessions/{again['session']}").json()["head"] == 2


def test_events_that_no_client_may_say_are_refused_as_a_whole(api: ApiServer, owner: httpx2.Client) -> None:
    events = [{"type": "UserMessage", "data": {"text": "x"}}, {"type": "ApprovalGranted", "data": {"call_id": "c"}}]
    refused = owner.post("/events", json={"session_key": "main:forged", "events": events})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:consolidator:problem:invalid")
    assert owner.get("/sessions", params={"agent": "main"}).json()["sessions"][0]["key"] != "main:forged"


def test_lists_come_in_pages_that_lose_and_repeat_nothing(api: ApiServer, owner: httpx2.Client) -> None:
    ids = {api.open_session(f"pages:web:{number}") for number in range(5)}
    found: list[str] = []
    cursor: str | None = None
    while True:
        position = {"cursor": cursor} if cursor else {}
        page = owner.get("/sessions", params={"agent": "pages", "limit": 2, **position}).json()
        found += [session["id"] for session in page["sessions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(found) == 5
    assert set(found) == ids
    path = f"/sessions/{found[0]}"
    for number in range(4):
        owner.post(f"{path}/messages", json={"text": str(number)})
    first = owner.get(f"{path}/events", params={"limit": 3}).json()
    rest = owner.get(f"{path}/events", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [event["seq"] for event in first["events"] + rest["events"]] == [1, 2, 3, 4, 5]
    assert rest["next_cursor"] is None
    assert owner.get(f"{path}/events", params={"after": 5}).json()["events"] == []


def test_a_cursor_that_was_changed_or_is_of_another_list_is_refused(api: ApiServer, owner: httpx2.Client) -> None:
    for number in range(3):
        session_id = api.open_session(f"cursors:web:{number}")
    page = owner.get("/sessions", params={"agent": "cursors", "limit": 1}).json()
    cursor = page["next_cursor"]
    changed = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
    assert owner.get("/sessions", params={"agent": "cursors", "cursor": cursor}).status_code == 200
    refused = [
        owner.get("/sessions", params={"agent": "cursors", "cursor": wrong})
        for wrong in (changed, cursor[:-3], cursor + "AAAA", "x", "{}", "é", "A" * 900, encode_cursor("sessions", [1]))
    ]
    refused.append(owner.get("/sessions", params={"agent": "main", "cursor": cursor}))
    refused.append(owner.get(f"/sessions/{session_id}/events", params={"cursor": cursor}))
    for answer in refused:
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:consolidator:problem:invalid-cursor")


def wait_call(api: ApiServer, session_id: str, call_id: str, kind: str = "approval") -> None:
    """Have a call of a session wait for a person."""

    async def work(database: Database) -> None:
        async with database.transaction() as conn:
            call = tool_call(call_id, "deploy", {"to": "production"})
            await events.append(conn, session_id, [call], now=database.clock.now())
            requested = {call_id: {"kind": kind, "tool": "deploy"}}
            await lease.set_attention(conn, session_id, requested=requested)

    api.run(work)


def test_calls_that_wait_are_listed_and_decided_by_those_who_reach_them(api: ApiServer, owner: httpx2.Client) -> None:
    maras, bobs = api.open_session("ops:web:mara"), api.open_session("ops:web:bob")
    for session_id, kind in ((maras, "approval"), (bobs, "approval")):
        wait_call(api, session_id, "call_1", kind)
    wait_call(api, maras, "call_2", "uncertain")
    with (
        api.client(api.make_token("mara-web", "read", "write", peer="mara")) as mara,
        api.client(api.make_token("mara-reader", "read", peer="mara")) as reader,
    ):
        waiting = mara.get("/attention").json()["calls"]
        assert {(call["session_id"], call["call_id"]) for call in waiting} == {(maras, "call_1"), (maras, "call_2")}
        assert reader.post("/calls/call_1/grant").status_code == 403
        ambiguous = owner.post("/calls/call_1/grant")
        assert ambiguous.status_code == 422
        assert maras in ambiguous.json()["detail"]
        assert mara.post("/calls/call_1/deny", json={"session_id": bobs}).status_code == 404
        assert mara.post("/calls/call_2/grant").status_code == 404  # nobody asks for it
        granted = mara.post("/calls/call_1/grant").json()
        assert granted == {"call_id": "call_1", "session_id": maras}
        assert mara.post("/calls/call_1/grant").status_code == 404
        assert mara.post("/calls/call_2/resolve", json={"outcome": "ok"}).json()["session_id"] == maras
        assert owner.post("/calls/call_1/deny", json={"reason": "not today"}).json()["session_id"] == bobs
    log = api.run(lambda database: read_log(database, maras))
    assert [(event.type, event.principal) for event in log if event.type is EventType.APPROVAL_GRANTED] == [
        (EventType.APPROVAL_GRANTED, "user:mara-web")
    ]
    assert owner.get("/attention").json()["calls"] == []


def test_a_deleted_session_is_not_listed_and_its_log_stays(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("deleted:web:mara")
    assert owner.delete(f"/sessions/{session_id}").status_code == 204
    assert owner.delete(f"/sessions/{session_id}").status_code == 204
    assert owner.get("/sessions", params={"agent": "deleted"}).json()["sessions"] == []
    assert len(owner.get("/sessions", params={"agent": "deleted", "hidden": True}).json()["sessions"]) == 1
    assert len(owner.get(f"/sessions/{session_id}/events").json()["events"]) == 2


def test_what_the_log_holds_can_be_sent_whatever_it_is(api: ApiServer, owner: httpx2.Client) -> None:
    body = (
        b'{"session_key": "odd:web:x", "events": [{"type": "ToolResult", "data": '
        b'{"call_id": "c", "status": "ok", "content": ["\\ud800 \\u0000", NaN, 1e400, {"\\udfff": null}]}}]}'
    )
    recorded = owner.post("/events", content=body, headers={"content-type": "application/json"})
    assert recorded.status_code == 200, recorded.text
    page = owner.get(f"/sessions/{recorded.json()['session']}/events")
    assert page.json()["events"][0]["data"]["content"][0] == "\ud800 \0"


def count_messages(api: ApiServer, session_id: str) -> int:
    """Return how many messages a session holds."""
    log = api.run(lambda database: read_log(database, session_id))
    return sum(event.type is EventType.USER_MESSAGE for event in log)


def test_a_request_with_a_key_is_done_once_also_when_it_comes_many_times_at_once(
    api: ApiServer, owner: httpx2.Client
) -> None:
    session_id = api.open_session("keys:web:mara")

    def send(_: int) -> httpx2.Response:
        with api.client(**{"idempotency-key": "same"}) as client:
            while True:
                answer = client.post(f"/sessions/{session_id}/messages", json={"text": "once"})
                if answer.status_code != 409:
                    return answer
                assert answer.headers["retry-after"]
                time.sleep(0.02)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    assert {(answer.status_code, answer.json()["seq"]) for answer in answers} == {(202, 2)}
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert count_messages(api, session_id) == 1


def test_a_key_names_one_request_of_one_credential(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("keys:web:ines")
    key = {"idempotency-key": "k-1"}
    assert owner.post(f"/sessions/{session_id}/messages", json={"text": "a"}, headers=key).status_code == 202
    for path, body in (
        (f"/sessions/{session_id}/messages", {"text": "b"}),
        (f"/sessions/{session_id}/steer", {"text": "a"}),
    ):
        reused = owner.post(path, json=body, headers=key)
        assert (reused.status_code, reused.json()["type"]) == (422, "urn:consolidator:problem:idempotency-key-reused")
    with api.client(api.make_token("another", "write"), **key) as other:
        assert other.post(f"/sessions/{session_id}/messages", json={"text": "c"}).status_code == 202
    failed = owner.post(f"/sessions/{session_id}/messages", json={"text": " "}, headers={"idempotency-key": "k-2"})
    assert failed.status_code == 422  # a failure had no effect, and is not kept
    again = owner.post(f"/sessions/{session_id}/messages", json={"text": "d"}, headers={"idempotency-key": "k-2"})
    assert again.status_code == 202
    for wrong in ("", "two words", "x" * 201):
        answer = owner.post(f"/sessions/{session_id}/messages", json={"text": "e"}, headers={"idempotency-key": wrong})
        assert answer.status_code in (400, 422)
    assert count_messages(api, session_id) == 3


def test_every_post_takes_a_key_and_repeats_its_answer(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("keys:web:paul")
    wait_call(api, session_id, "call_3")
    event = {"type": "UserMessage", "data": {"text": "x"}}
    for number, (path, body) in enumerate(
        [
            ("/sessions", {"key": "keys:web:new"}),
            ("/events", {"session_key": "keys:recorded", "events": [event]}),
            (f"/sessions/{session_id}/follow-up", {"text": "later"}),
            (f"/sessions/{session_id}/wake", None),
            (f"/sessions/{session_id}/compact", None),
            ("/calls/call_3/grant", None),
            (f"/sessions/{session_id}/stop", None),
            (f"/sessions/{session_id}/end", None),
        ]
    ):
        first, again = (owner.post(path, json=body, headers={"idempotency-key": f"p{number}"}) for _ in range(2))
        assert first.status_code < 300, (path, first.text)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers.get("location") == first.headers.get("location")


def test_a_stream_says_that_its_message_was_sent_before(api: ApiServer, owner: httpx2.Client) -> None:
    path = f"/sessions/{api.open_session('keys:web:streamed')}/messages"
    headers = {"idempotency-key": "streamed", "accept": "text/event-stream"}
    for is_repeated in (False, True):
        with owner.stream("POST", path, json={"text": "hello"}, headers=headers) as answer:
            assert answer.status_code == 200
            assert ("idempotency-replayed" in answer.headers) is is_repeated


def test_a_program_names_a_session_by_all_of_its_id(api: ApiServer, owner: httpx2.Client) -> None:
    session_id = api.open_session("whole:web:mara")
    beginning = f"/sessions/{session_id[:-1]}"
    assert owner.delete(beginning).status_code == 404
    assert owner.post(f"{beginning}/end").status_code == 404
    for path in ("", "/context", "/scratchpad", "/tasks", "/state", "/export", "/events", "/hydrate", "/cost"):
        assert owner.get(beginning + path).status_code == 404, path
    assert owner.get(f"/sessions/{session_id}").json()["status"] == "open"


def test_bodies_and_types_are_bounded(owner: httpx2.Client) -> None:
    json_type = {"content-type": "application/json"}
    for content, headers, status, slug in (
        (b'{"key": "' + b"x" * guard.BODY_BYTES + b'"}', json_type, 413, "too-large"),
        (b"key=main", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported-media-type"),
        (b'{"key": "main"}', {"content-type": "text/plain"}, 415, "unsupported-media-type"),
        (b'{"key": ', json_type, 422, "invalid"),
        (b"[" * 100_000, json_type, 400, "bad-request"),
        (b"", json_type, 422, "invalid"),
        (b'{"key": "main:web:x", "surprise": 1}', json_type, 422, "invalid"),
        (b'{"key": "a\\u0000b"}', json_type, 422, "invalid"),
        (b"\xff\xfe", json_type, 422, "invalid"),
    ):
        answer = owner.post("/sessions", content=content, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:consolidator:problem:{slug}"), content[:40]
    assert owner.get("/sessions/a%00b").json()["status"] in (404, 422)
    assert owner.get("/nowhere").json()["type"] == "urn:consolidator:problem:not-found"
    wrong = owner.put("/sessions")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


def test_a_page_of_another_site_reaches_nothing(api: ApiServer, owner: httpx2.Client) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:8377"):
        assert owner.get("/sessions", headers={"host": host}).status_code == 421
    answer = owner.get("/sessions", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    preflight = owner.options(
        "/sessions", headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 405


def test_a_streamed_message_that_nobody_can_answer_ends_with_an_error_and_is_answered_later(api: ApiServer) -> None:
    def read_stream(session_id: str) -> list[Any]:
        headers = {"accept": "text/event-stream", "idempotency-key": f"unanswered-{session_id}"}
        path = f"/sessions/{session_id}/messages"
        with api.client() as client, client.stream("POST", path, json={"text": "Tabs?"}, headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            return list(read_frames(stream.iter_lines()))

    def follow(session_id: str) -> Any:
        path, headers = f"/sessions/{session_id}/events", {"accept": "text/event-stream"}
        with api.client() as client, client.stream("GET", path, headers=headers) as stream:
            return next(data for kind, _, data in read_frames(stream.iter_lines()) if kind == "error")

    asked = api.open_session("unanswered:web:mara")
    needy = api.open_session("unanswered:web:omar", model="gpt-4o-mini", tools=["look"])
    with ThreadPoolExecutor() as pool:
        streams = list(pool.map(read_stream, (asked, needy)))
    for frames, words in zip(streams, ("set CONSOLIDATOR_MODEL", "here: look"), strict=True):
        assert [kind for kind, _, _ in frames] == ["event", "error", "end"]
        assert frames[0][2]["data"]["text"] == "Tabs?"
        problem = frames[1][2]
        assert (problem["status"], problem["type"]) == (503, "urn:consolidator:problem:unanswered")
        assert problem["detail"].startswith("the message is stored and nobody answers it yet: it waits for ")
        assert words in problem["detail"]
        assert "Do not send it again" in problem["next"]
        assert frames[2][2] == {"reason": "unanswered", "head": 2}
    assert follow(asked)["instance"] == f"/v1/sessions/{asked}/events"  # the stream of what comes goes on
    drive(api, asked, "Tabs.")
    frames = read_stream(asked)  # the same request: the message is not said again
    assert [frame[0] for frame in frames] == ["event", "event", "piece", "event", "end"]
    assert (frames[2][2]["text"], frames[-1][2]["reason"]) == ("Tabs.", "settled")


def test_streams_of_one_token_are_bounded_and_told_when_the_service_stops(
    server_dsn: str, template: str, tmp_path: Path
) -> None:
    with (
        database_copy(server_dsn, template) as dsn,
        serve(dsn, tmp_path, limits={"STREAMS": 2}, CONSOLIDATOR_HTTP_REQUESTS_PER_SECOND="5") as api,
        api.client(accept="text/event-stream") as client,
    ):
        path = f"/sessions/{api.open_session()}/events"
        with client.stream("GET", path) as first, client.stream("GET", path) as second:
            lines = first.iter_lines()
            assert next(read_frames(lines))[2]["type"] == "SessionStart"
            refused = client.get(path)
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:consolidator:problem:too-many-streams")
            with api.client(api.make_token("another", "read")) as other:
                answers = [other.get("/sessions") for _ in range(40)]
            too_many = [answer for answer in answers if answer.status_code == 429]
            assert too_many
            assert int(too_many[0].headers["retry-after"]) >= 1
            assert api.process.poll() is None
            api.process.send_signal(signal.SIGTERM)
            assert list(read_frames(lines))[-1] == ("end", None, {"reason": "stopping"})
            assert list(read_frames(second.iter_lines()))[-1][2] == {"reason": "stopping"}
        assert api.process.wait(PATIENCE) == 0


def test_a_kill_between_effect_and_answer_does_nothing_twice(server_dsn: str, template: str, tmp_path: Path) -> None:
    key = {"idempotency-key": "k"}
    with database_copy(server_dsn, template) as dsn:
        with serve(dsn, tmp_path) as api:
            session_id = api.open_session()

            def send_until_killed() -> None:
                with api.client(**key) as client:
                    try:
                        client.post(f"/sessions/{session_id}/messages", json={"text": "once"})
                    except httpx2.TransportError:
                        return

            sending = threading.Thread(target=send_until_killed)
            sending.start()
            time.sleep(0.01)
            api.process.kill()
            sending.join()
            api.process.wait(PATIENCE)
        with serve(dsn, tmp_path) as api, api.client(**key) as client:
            sent = client.post(f"/sessions/{session_id}/messages", json={"text": "once"})
            assert (sent.status_code, sent.json()["seq"]) == (202, 2)
            assert count_messages(api, session_id) == 1


def test_nothing_internal_is_told(api: ApiServer, owner: httpx2.Client) -> None:
    """An error of the service itself is logged, redacted, and answered without its details."""

    async def break_sessions(database: Database) -> None:
        async with database.transaction() as conn:
            await conn.execute("alter table session rename column head to neck_ghp_" + "Zk3" * 3)

    async def mend_sessions(database: Database) -> None:
        async with database.transaction() as conn:
            await conn.execute(f"alter table session rename column neck_ghp_{'Zk3' * 3} to head")

    session_id = api.open_session("broken:web:mara")
    api.run(break_sessions)
    try:
        answer = owner.get(f"/sessions/{session_id}")
    finally:
        api.run(mend_sessions)
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:consolidator:problem:internal")
    for word in ("neck", "psycopg", "Traceback", "head"):
        assert word not in answer.text
    assert owner.get(f"/sessions/{session_id}").status_code == 200


def test_a_session_is_shown_with_a_note_in_place_of_a_lost_value(api: ApiServer, owner: httpx2.Client) -> None:
    large = list(LARGE_EVENTS.values())

    async def work(database: Database) -> None:
        await log_events(database, "lost", [user_message("Hello"), tool_call("c", "Bash", {}), *large])
        damage = "delete from blob using blob_ref r where r.sha256 = blob.sha256 and session_id = 'lost'"
        await damage_blobs(database, damage)

    api.run(work)
    shown = owner.get("/sessions/lost/events").json()["events"]
    assert len(shown) == len(large) + 2
    assert "session lost, event 3: the blob of its 'text' is lost" in shown[2]["data"]["text"]
    for path in ("", "/context", "/hydrate", "/state", "/export"):
        assert owner.get(f"/sessions/lost{path}").status_code == 200
