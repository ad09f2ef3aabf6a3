"""The nights over HTTP: runs that are asked for, their ledger, and erasures."""

from __future__ import annotations

import time

import httpx2

from tests.acceptance.api.server import ApiServer, Json
from tests.support import PATIENCE


def wait_for_run(owner: httpx2.Client, started: httpx2.Response) -> Json:
    """Return a run that was asked for when it has ended."""
    assert started.status_code == 202, started.text
    path = started.headers["location"].removeprefix("/v1")
    assert path == f"/runs/{started.json()['run_id']}"
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        run: Json = owner.get(path).raise_for_status().json()
        if run["status"] != "running":
            return run
        time.sleep(0.05)
    raise AssertionError("the run does not end")


def start(owner: httpx2.Client, path: str, body: Json, key: str) -> httpx2.Response:
    """Ask for a run, again while another one is under way."""
    until = time.monotonic() + PATIENCE
    while (answer := owner.post(path, json=body, headers={"idempotency-key": key})).status_code == 409:
        assert answer.headers["retry-after"]
        assert time.monotonic() < until
        time.sleep(0.05)
    return answer


def test_a_run_is_asked_for_once_and_is_in_the_ledger(api: ApiServer) -> None:
    batch = {"session_key": "main:web:mara", "events": [{"type": "UserMessage", "data": {"text": "We use pnpm."}}]}
    with api.client() as owner:
        session_id = owner.post("/events", json=batch).raise_for_status().json()["session"]
        started = start(owner, "/runs", {"job": "consolidation"}, "night-1")
        run = wait_for_run(owner, started)
        assert (run["status"], run["job"], run["dead_letters"]) == ("done", "consolidation", [])
        again = start(owner, "/runs", {"job": "consolidation"}, "night-1")
        assert again.json() == started.json()
        listed = owner.get("/runs", params={"job": "consolidation"}).json()["runs"]
        assert run["id"] in [each["id"] for each in listed]
        filled = start(owner, "/backfill", {"session": session_id, "reprocess": True}, "backfill-1")
        run = wait_for_run(owner, filled)
        assert (run["job"], run["status"]) == ("backfill", "done")
        nothing = start(owner, "/retry", {}, "retry-1")
        assert (nothing.status_code, nothing.json()) == (202, {"run_id": None})
        assert start(owner, "/retry", {"id": "nothing"}, "retry-2").status_code == 404
        assert owner.get("/runs/nothing").status_code == 404
        assert owner.get("/revisions").status_code == 200
        assert start(owner, "/revisions/99/promote", {}, "promote-1").status_code in (404, 422)


def test_options_that_do_not_fit_are_refused(api: ApiServer) -> None:
    with api.client() as owner:
        for path, body in (
            ("/runs", {"job": "import", "force": True}),
            ("/runs", {"job": "dream"}),
            ("/backfill", {"model": "m"}),
            ("/backfill", {"session": ""}),
            ("/erase", {}),
            ("/erase", {"session": "a", "peer": "b"}),
        ):
            assert owner.post(path, json=body).status_code == 422, (path, body)


def test_a_session_is_erased_by_its_whole_id_alone(api: ApiServer) -> None:
    session_id = api.open_session("main:web:leaving")
    with api.client() as owner:
        assert owner.post("/erase", json={"session": session_id[:-1]}).status_code == 404
        assert owner.get(f"/sessions/{session_id}").status_code == 200
        assert owner.post("/erase", json={"session": session_id}).json()["sessions"] == 1
        assert owner.get(f"/sessions/{session_id}").status_code == 404
        assert owner.post("/erase", json={"peer": "nobody"}).status_code == 404
