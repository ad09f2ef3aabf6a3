"""Branches over HTTP: tried beside a session, compared with it, sent or dropped, also where the service is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.api.guard import PREVIEWS_EACH
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, serve
from tests.databases import database_copy
from tests.support import PATIENCE

TOOLS = '''
from pathlib import Path

from consolidator import tool


@tool(needs_approval=True)
def publish(what: str) -> str:
    """Publish something."""
    with Path(__file__).with_name("published").open("a") as published:
        published.write(what)
    return f"published {what}"
'''


class Model:
    """A stand-in model on a thread of its own; it calls a tool where it is told to publish."""

    def __init__(self) -> None:
        self.url = ""
        self.stalls = threading.Event()  # whether an answer to a steer comes to no end
        self.stalled = threading.Event()
        self.is_slow = threading.Event()  # whether an answer to a steer takes seconds

    def answer(self, request: Json) -> ScriptedReply:
        """Answer a request."""
        last = request["messages"][-1]
        if last["role"] == "tool":
            return ScriptedReply(text=f"It says: {last['content']}")
        if "publish" in str(last["content"]):
            return ScriptedReply.calling(("publish", {"what": "it"}))
        if self.is_slow.is_set() and "slow steer" in str(last["content"]):
            return ScriptedReply(text="An answer.", delay=5)
        if self.stalls.is_set() and "steer" in str(last["content"]):
            self.stalled.set()
            return ScriptedReply(text="An answer.", stall_after=1)
        return ScriptedReply(text="An answer.")

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Serve until the block ends."""
        loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def run() -> None:
            async with ModelServer(answers=self.answer) as server:
                self.url = server.url
                started.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
        thread.start()
        try:
            assert started.wait(PATIENCE)
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(PATIENCE)
            loop.close()


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    served = Model()
    with served.serve():
        yield served


@pytest.fixture(scope="module")
def start(
    server_dsn: str, template: str, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Any]]:
    """Return what starts a service with tools and the model; all of them have one database."""
    home: Path = tmp_path_factory.mktemp("branches")
    (home / "mytools.py").write_text(TOOLS)
    known = {"CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
    quick = {"CONSOLIDATOR_SESSION_LEASE_SECONDS": "2"}
    with database_copy(server_dsn, template) as dsn:
        yield lambda: serve(dsn, home, "--tools", str(home / "mytools.py"), **known, **quick)


@pytest.fixture(scope="module")
def driving_api(start: Callable[[], Any]) -> Iterator[ApiServer]:
    """A service that drives sessions."""
    with start() as server:
        yield server


def talk(client: httpx2.Client, session_id: str, text: str) -> None:
    """Send a message and wait until the service has answered it."""
    client.post(f"/sessions/{session_id}/messages", json={"text": text}).raise_for_status()
    wait_for(lambda: not client.get(f"/sessions/{session_id}").json()["pending"])


def wait_for(check: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < until
        time.sleep(0.05)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """Return the status and the kind of a problem."""
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def steers_of(client: httpx2.Client, session_id: str) -> list[str]:
    """Return the steers in a session's log."""
    events = client.get(f"/sessions/{session_id}/events", params={"limit": 200}).json()["events"]
    return [event["data"]["text"] for event in events if event["data"].get("mode") == "steer"]


@pytest.mark.parametrize("kind", ["sim", "dream"])
def test_a_branch_is_driven_beside_its_session_and_compared_with_it(driving_api: ApiServer, kind: str) -> None:
    """B27."""
    session_id = driving_api.open_session(f"main:web:{kind}")
    with driving_api.client() as owner:
        talk(owner, session_id, "Hello")
        before = owner.get(f"/sessions/{session_id}/events").json()
        key = {"idempotency-key": f"branch-{kind}"}
        body = {"kind": kind, "message": "publish it", "overrides": {"max_steps": 3}}
        created = owner.post(f"/sessions/{session_id}/branch", json=body, headers=key)
        assert created.status_code == 201, created.text
        branch = created.json()
        assert owner.post(f"/sessions/{session_id}/branch", json=body, headers=key).json()["id"] == branch["id"]
        path = created.headers["location"].removeprefix("/v1")
        wait_for(lambda: not owner.get(path).json()["pending"])
        [listed] = owner.get(f"/sessions/{session_id}/branches").json()["branches"]
        assert (listed["id"], listed["kind"], listed["status"]) == (branch["id"], kind, "ready")
        compared = owner.get(f"/sessions/{session_id}/branches/{branch['id']}/compare").json()
        [turn] = compared["diff"]["differences"]
        assert (compared["kind"], compared["status"], turn["status"]) == (kind, "ready", "added")
        assert turn["calls"][0]["right"]["arguments"] == {"what": "it"}
        assert turn["calls"][0]["right"]["result"].startswith("Dry run: publish was not run")
        assert (compared["diff"]["left"]["answers"], compared["diff"]["right"]["answers"]) == (0, 2)
        assert not (driving_api.home.parent / "published").exists()
        assert owner.get(f"/sessions/{session_id}/events").json() == before
        talk(owner, session_id, "Something else")
        moved = owner.get(f"/sessions/{session_id}/branches/{branch['id']}/compare").json()["diff"]["differences"]
        sides = [(turn["status"], turn["message"], turn["left"] is None) for turn in moved]
        assert sides == [("removed", "Something else", False), ("added", "publish it", True)]
        spent = float(owner.get(f"/sessions/{session_id}").json()["cost_usd"])
        assert spent > float(listed["cost_usd"]) > 0, "the session pays for its branch"
        assert problem(owner.post(f"/sessions/{branch['id']}/branch", json={"kind": "sim"})) == (422, "invalid")
        other = driving_api.open_session("main:web:other")
        for way in ("compare", "commit", "discard"):
            method = "GET" if way == "compare" else "POST"
            foreign = owner.request(method, f"/sessions/{other}/branches/{branch['id']}/{way}")
            assert problem(foreign) == (404, "not-found"), way
        assert problem(owner.post(f"/sessions/{session_id}/branches/{branch['id']}/commit")) == (422, "invalid")


def test_tools_run_in_a_branch_that_asks_for_it(driving_api: ApiServer) -> None:
    session_id = driving_api.open_session("main:web:live")
    with driving_api.client() as owner:
        talk(owner, session_id, "Hello")
        body = {"kind": "sim", "message": "publish it", "live_tools": True}
        branch = owner.post(f"/sessions/{session_id}/branch", json=body).json()
        assert branch["live_tools"] is True
        wait_for(lambda: bool(owner.get(f"/sessions/{branch['id']}").json()["attention"]))
        [listed] = owner.get(f"/sessions/{session_id}/branches").json()["branches"]
        assert listed["status"] == "waiting"
        assert owner.post(f"/sessions/{session_id}/branches/{branch['id']}/discard").json()["status"] == "ended"


def test_a_steer_is_tried_compared_and_sent_once(driving_api: ApiServer) -> None:
    session_id = driving_api.open_session("main:web:steer")
    with driving_api.client() as owner:
        talk(owner, session_id, "Hello")
        body = {"kind": "pre_steer", "message": "publish it instead"}
        proposed = owner.post(f"/sessions/{session_id}/branch", json=body)
        assert proposed.status_code == 201, proposed.text
        branch = proposed.json()
        assert (branch["status"], branch["committed_seq"]) == ("ready", None)
        [turn] = branch["comparison"]["diff"]["differences"]
        assert (turn["message"], turn["status"]) == ("publish it instead", "added")
        assert steers_of(owner, session_id) == []
        assert not (driving_api.home.parent / "published").exists()
        path = f"/sessions/{session_id}/branches/{branch['id']}"
        reader = driving_api.make_token("reader", "read")
        with driving_api.client(reader) as reading:
            assert reading.get(f"{path}/compare").status_code == 200
            assert problem(reading.post(f"{path}/commit")) == (403, "forbidden")
        sent = owner.post(f"{path}/commit").json()
        assert (sent["status"], sent["committed_seq"] > branch["after"]) == ("committed", True)
        assert owner.post(f"{path}/commit").json() == sent
        assert steers_of(owner, session_id) == ["publish it instead"]
        wait_for(lambda: bool(owner.get(f"/sessions/{session_id}").json()["attention"]))  # it is real now
        compared = owner.get(f"{path}/compare").json()["diff"]["differences"]
        assert [(turn["left"]["message"], turn["right"]["message"]) for turn in compared] == [(body["message"],) * 2]
        dropped = owner.post(f"/sessions/{session_id}/branch", json={"kind": "pre_steer", "message": "no"}).json()
        path = f"/sessions/{session_id}/branches/{dropped['id']}"
        assert owner.post(f"{path}/discard").json()["status"] == "ended"
        assert problem(owner.post(f"{path}/commit")) == (422, "invalid")
        for wrong in ({"kind": "pre_steer"}, {"kind": "pre_steer", "message": "x", "at": 1}, {"kind": "x"}):
            assert problem(owner.post(f"/sessions/{session_id}/branch", json=wrong)) == (422, "invalid")


def test_a_preview_survives_kill_9_and_the_same_request_goes_on_with_it(start: Callable[[], Any], model: Model) -> None:
    key, body = {"idempotency-key": "preview-1"}, {"kind": "pre_steer", "message": "steer left"}
    model.stalls.set()
    with start() as first:
        session_id = first.open_session("main:web:killed")
        with first.client() as owner:
            talk(owner, session_id, "Hello")
            path = f"/sessions/{session_id}/branch"
            asking = threading.Thread(target=ask_in_vain, args=(first, path, body, key))
            asking.start()
            assert model.stalled.wait(PATIENCE)
            [unfinished] = owner.get(f"{path}es").json()["branches"]
            assert unfinished["status"] == "running"
        os.kill(first.process.pid, signal.SIGKILL)
        asking.join(PATIENCE)
    model.stalls.clear()
    with start() as second, second.client() as owner:
        [left] = owner.get(f"{path}es").json()["branches"]
        assert left["id"] == unfinished["id"]
        again = owner.post(path, json=body, headers=key)
        assert again.status_code == 201, again.text
        assert (again.json()["id"], again.json()["status"]) == (unfinished["id"], "ready")
        assert owner.post(path, json=body, headers=key).headers["idempotency-replayed"] == "true"
        assert len(owner.get(f"{path}es").json()["branches"]) == 1
        assert steers_of(owner, session_id) == []


def test_previews_leave_places_for_other_requests(driving_api: ApiServer, model: Model) -> None:
    session_id = driving_api.open_session("main:web:many-previews")
    with driving_api.client() as client:
        talk(client, session_id, "Hello.")
        model.is_slow.set()
        asked = {"kind": "pre_steer", "message": "a slow steer"}

        def preview(token: str | None) -> httpx2.Response:
            with driving_api.client(token) as own:
                return own.post(f"/sessions/{session_id}/branch", json=asked)

        other = driving_api.make_token("previewer", "read", "write")
        with ThreadPoolExecutor(11) as pool:
            try:
                futures = [pool.submit(preview, None) for _ in range(10)]
                others = pool.submit(preview, other)  # whose places the owner's requests do not take
                wait_for(lambda: sum(future.done() for future in futures) == 10 - PREVIEWS_EACH)
                assert client.get("/sessions", params={"limit": 1}).status_code == 200
            finally:
                model.is_slow.clear()
            answers = [future.result() for future in futures]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 10 - PREVIEWS_EACH
    assert all(answer.headers["retry-after"] for answer in refused)
    assert [answer.status_code for answer in answers if answer not in refused] == [201] * PREVIEWS_EACH
    assert others.result().status_code == 201


def test_a_preview_that_is_repeated_meanwhile_is_answered_busy_and_takes_no_place(
    driving_api: ApiServer, model: Model
) -> None:
    session_id = driving_api.open_session("main:web:repeated-preview")
    asked = {"kind": "pre_steer", "message": "a slow steer"}
    with driving_api.client(**{"idempotency-key": "repeated-preview"}) as client, ThreadPoolExecutor(1) as pool:
        with driving_api.client() as owner:
            talk(owner, session_id, "Hello.")
        model.is_slow.set()
        try:
            first = pool.submit(client.post, f"/sessions/{session_id}/branch", json=asked)
            wait_for(lambda: bool(client.get(f"/sessions/{session_id}/branches").json()["branches"]))
            repeats = [client.post(f"/sessions/{session_id}/branch", json=asked) for _ in range(PREVIEWS_EACH + 1)]
        finally:
            model.is_slow.clear()
        assert {(each.status_code, each.json()["type"].rpartition(":")[2]) for each in repeats} == {(409, "busy")}
        assert first.result().status_code == 201


def test_a_preview_needs_the_scope_to_read(driving_api: ApiServer) -> None:
    session_id = driving_api.open_session("main:web:write-only")
    with driving_api.client() as client:
        talk(client, session_id, "Hello.")
    with driving_api.client(driving_api.make_token("only-write", "write")) as client:
        asked = {"kind": "pre_steer", "message": "repeat"}
        answer = client.post(f"/sessions/{session_id}/branch", json=asked)
    assert answer.status_code == 403
    assert "scope read" in answer.json()["detail"]
    described = driving_api.openapi()["paths"]["/v1/sessions/{session_id}/branch"]["post"]
    assert (described["x-scope"], list(described["x-scope-also"])) == ("write", ["read"])
    with driving_api.client() as client:
        assert client.get(f"/sessions/{session_id}/branches").json()["branches"] == []


@pytest.mark.parametrize(
    ("route", "more"), [("fork", {}), ("resume", {}), ("branch", {"kind": "sim", "message": "Try."})]
)
def test_tools_that_the_service_lacks_are_refused(driving_api: ApiServer, route: str, more: Json) -> None:
    session_id = driving_api.open_session(f"main:web:unknown-tools-{route}")
    with driving_api.client() as client:
        talk(client, session_id, "Hello.")
        client.post(f"/sessions/{session_id}/checkpoint").raise_for_status()
        answer = client.post(f"/sessions/{session_id}/{route}", json={**more, "overrides": {"tools": ["nope"]}})
        assert answer.status_code == 422
        assert "nope" in answer.json()["detail"]
        answer = client.post(f"/sessions/{session_id}/{route}", json={**more, "overrides": {"tools": ["publish"]}})
        assert answer.status_code == 201


def ask_in_vain(api: ApiServer, path: str, body: Json, headers: dict[str, str]) -> None:
    """Make a request whose service dies."""
    with api.client() as client, pytest.raises(httpx2.TransportError):
        client.post(path, json=body, headers=headers)
