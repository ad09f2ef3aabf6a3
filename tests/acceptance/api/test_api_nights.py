"""The nights over HTTP: runs that are asked for, their ledger, revisions by another model, and erasures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consolidator.clock import FrozenClock
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.api.server import ApiServer, Json, answer_models, serve, use_model
from tests.conftest import NOON
from tests.oracle import decide_all, fact_json, parse_lines, schema_name
from tests.support import PATIENCE, log_events, user_message

BETTER = "gpt-4o"


def read_facts(request: dict[str, Any]) -> ScriptedReply:
    """Answer as a model that hears what people like, or as a better one that says so otherwise and hears more."""
    if schema_name(request) == "decisions":
        return decide_all(request)
    is_better = request["model"] == BETTER
    facts = []
    for event, who, words in parse_lines(request):
        for thing in ("tea", "rain") if who == "user" else ():
            if f"{thing} delights me" in words and (is_better or thing == "tea"):
                sentence = f"The user is fond of {thing}." if is_better else f"The user likes {thing}."
                quote = f"{thing} delights me"
                facts.append(fact_json(event, quote, "likes", thing, sentence, "preference", single_valued=False))
    return ScriptedReply.json({"facts": facts})


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with answer_models(read_facts) as server:
        yield server


@pytest.fixture(scope="module")
def api(module_dsn: str, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A service whose nights ask a model."""
    folder: Path = tmp_path_factory.mktemp("nights")
    variables = {"CONSOLIDATOR_QUIET_MINUTES": "0"}
    with serve(module_dsn, folder, **use_model(model), **variables) as server:
        yield server


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


def test_a_draft_of_another_model_is_compared_promoted_restored_and_discarded(api: ApiServer) -> None:
    words = [user_message("tea delights me, and rain delights me.")]
    earlier = FrozenClock(NOON - timedelta(hours=5))
    api.run(lambda database: log_events(database, "liking", words, agent="guest", peer="mara"), earlier)

    def likes(owner: httpx2.Client) -> set[str]:
        facts = owner.get("/facts", params={"agent": "guest"}).raise_for_status().json()["facts"]
        return {fact["sentence"] for fact in facts}

    with api.client() as owner:
        assert wait_for_run(owner, start(owner, "/runs", {"job": "consolidation"}, "liking-1"))["status"] == "done"
        assert likes(owner) == {"The user likes tea."}
        again = {"reprocess": True, "model": BETTER, "agent": "guest"}
        assert wait_for_run(owner, start(owner, "/backfill", again, "draft-1"))["status"] == "done"
        assert likes(owner) == {"The user likes tea."}, "a draft is believed by nobody"
        (draft,) = [each for each in owner.get("/revisions").json()["revisions"] if each["status"] == "draft"]
        path = f"/revisions/{draft['id']}"
        compared = owner.get(path).raise_for_status().json()
        assert (compared["model"], compared["status"], compared["lost"]) == (BETTER, "draft", [])
        assert compared["added"] == ["guest: The user is fond of rain."]
        assert compared["changed"] == [["guest: The user likes tea.", "guest: The user is fond of tea."]]
        with api.client(api.make_token("nights-writer", "read", "write")) as writer:
            assert [writer.get(path).status_code, writer.delete(path).status_code] == [403, 403]

        assert wait_for_run(owner, start(owner, f"{path}/promote", {}, "promote-2"))["status"] == "done"
        assert likes(owner) == {"The user is fond of tea.", "The user is fond of rain."}
        assert owner.delete(path).status_code == 422, "what is believed is no draft"
        assert wait_for_run(owner, start(owner, "/revisions/restore", {}, "restore-1"))["status"] == "done"
        assert likes(owner) == {"The user likes tea."}

        key = {"idempotency-key": "discard-1"}
        assert owner.delete(path, headers=key).status_code == 204
        assert owner.delete(path, headers=key).headers["idempotency-replayed"] == "true"
        assert [
            each["status"] for each in owner.get("/revisions").json()["revisions"] if each["id"] == draft["id"]
        ] == ["discarded"]
        assert start(owner, f"{path}/promote", {}, "promote-3").status_code == 422
        assert likes(owner) == {"The user likes tea."}


def test_what_is_repeated_becomes_a_fact_or_stays_away_once_a_person_decides(api: ApiServer) -> None:
    asked = ("read src/a.ts in full", "ok, read @docs/b.md in full please", "Read it in full, then go")
    also = "Never commit generated files."

    def work_a_day(number: int, *texts: str) -> None:
        for agent in ("reader", "skimmer"):
            events = [{"type": "UserMessage", "data": {"text": text}} for text in texts]
            batch = {"session_key": f"{agent}:day{number}:mara", "events": events, "project": "/src/shop"}
            person.post("/events", json=batch).raise_for_status()
        run = wait_for_run(owner, start(owner, "/runs", {"job": "consolidation"}, f"rules-night-{number}"))
        assert run["status"] == "done"

    def proposals(agent: str) -> dict[str, Json]:
        rules = owner.get("/rules", params={"agent": agent}).raise_for_status().json()["rules"]
        return {rule["rule"]: rule for rule in rules}

    with api.client() as owner, api.client(api.make_token("rules-person", "read", "write")) as person:
        for number, text in enumerate(asked[:2]):
            work_a_day(number, text, also)
        assert proposals("reader") == {}
        work_a_day(2, asked[2], also)
        waiting = proposals("reader")
        assert {rule: found["believed"] for rule, found in waiting.items()} == {
            "Read files in full.": False,
            also: True,
        }
        demand = waiting["Read files in full."]
        assert demand["sessions"] == 3
        assert {quote["quote"].rstrip(".") for quote in demand["quotes"]} == {text.rstrip(".") for text in asked}

        key = {"idempotency-key": "accept-1"}
        accepted, again = (person.post(f"/rules/{demand['id']}/accept", json={}, headers=key) for _ in range(2))
        assert accepted.raise_for_status().json() == again.json() == {"id": demand["id"], "believed": True}
        for path, query in (("/facts", "files in full"), ("/recall", "should I read files in full?")):
            found = owner.get(path, params={"query": query, "agent": "reader", "project": "/src/shop"})
            assert "Read files in full." in found.text, path
        for rule in (proposals("skimmer")["Read files in full."]["id"], waiting[also]["id"]):
            dismissed = person.post(f"/rules/{rule}/dismiss")
            assert dismissed.raise_for_status().json() == {"id": rule, "believed": False}
        work_a_day(3, asked[0], also)
        assert proposals("reader") == {}, "neither what was accepted nor what was dismissed is proposed again"
        assert set(proposals("skimmer")) == {also}
        believed = owner.get("/facts", params={"agent": "reader"}).json()["facts"]
        assert [fact["id"] for fact in believed] == [demand["id"]]
        assert person.post(f"/rules/{waiting[also]['id']}/accept", json={}).status_code == 404


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
