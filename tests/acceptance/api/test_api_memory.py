"""Memory over HTTP: what was learned, by whom it is seen, and what a person tells it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from tests.acceptance.api.server import ApiServer
from tests.conftest import NOON
from tests.integration.service.test_i16_isolation import AGENT, QUERIES, log_person, persons_in
from tests.lessons import PREFIX_LINE, save_lessons
from tests.nights import query_rows
from tests.support import run_job

PEOPLE = ("ada", "bob", "eve")
EARLY = NOON - timedelta(days=30)
ERRORS = ("bash: deplyo: command not found", "fatal: The current branch main has no upstream branch.")


@pytest.fixture(scope="module")
def learned(api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The ids of what a night learned from three people's sessions, by table."""
    settings = Settings(home=tmp_path_factory.mktemp("night"), workers=2, health_port=0)

    async def work(database: Database) -> dict[str, list[str]]:
        for person in PEOPLE:
            await log_person(database, person, project="/srv/shop")
        assert isinstance(database.clock, FrozenClock)
        database.clock.set(NOON + timedelta(hours=1))
        await run_job(database, settings)
        tables = ("fact", "candidate", "procedure", "solution", "session")
        return {table: [row["id"] for row in await query_rows(database, f"select id from {table}")] for table in tables}

    return api.run(work, FrozenClock(NOON))


def ask_everything(client: httpx2.Client, learned: dict[str, list[str]]) -> str:
    """Return all that memory answers a client, in one text."""
    answers: list[httpx2.Response] = []
    for query in QUERIES[:4]:
        answers.append(client.get("/recall", params={"query": query, "token_budget": 50_000}))
        answers += [client.get(path, params={"query": query}) for path in ("/facts", "/procedures", "/solutions")]
    everything = {"include_superseded": True, "include_unworthy": True, "include_unsolved": True, "limit": 500}
    answers += [client.get(path, params=everything) for path in ("/facts", "/procedures", "/solutions")]
    answers += [client.get("/facts", params={"flagged": True}), client.get("/facts/quarantined")]
    for error in ERRORS:
        answers.append(client.post("/solutions/lookup", json={"error": error, "limit": 100}))
        failed = {"tool": "Bash", "arguments": {"command": "git push --to trunk"}}
        answers.append(client.post("/solutions/lookup", json={"error": error, "limit": 100, **failed}))
    answers += [client.get("/learned", params={"since": moment.isoformat(), "limit": 100}) for moment in (NOON, EARLY)]
    answers.append(client.get("/learned"))
    for answer in answers:
        assert answer.status_code == 200, answer.text
    ids = [memory_id for table in ("fact", "candidate", "procedure", "solution") for memory_id in learned[table][:12]]
    answers += [client.get(f"/explain/{memory_id}") for memory_id in ids]
    answers += [client.get("/next", params={"session": session_id}) for session_id in learned["session"][:6]]
    assert {answer.status_code for answer in answers} <= {200, 404}
    return json.dumps([answer.json() for answer in answers], ensure_ascii=False)


def test_the_owner_is_told_everything_with_its_evidence(api: ApiServer, learned: dict[str, list[str]]) -> None:
    with api.client() as owner:
        assert persons_in(ask_everything(owner, learned)) == set(PEOPLE)
        (fact, *_) = owner.get("/facts", params={"agent": AGENT, "limit": 1}).json()["facts"]
        explained = owner.get(f"/explain/{fact['id']}").json()
        assert (explained["kind"], explained["title"]) == ("fact", fact["sentence"])
        assert explained["evidence"][0]["session_id"] in learned["session"]
        looked_up = owner.post("/solutions/lookup", json={"error": ERRORS[0], "tool": "Bash"}).json()
        assert looked_up["solutions"][0]["body"]["line"]
        for _ in range(2):  # a key is taken, and the lookup is made again
            key = {"idempotency-key": "lookup-1"}
            keyed = owner.post("/solutions/lookup", json={"error": ERRORS[0], "tool": "Bash"}, headers=key)
            assert (keyed.json(), "idempotency-replayed" in keyed.headers) == (looked_up, False)
        assert owner.get("/next", params={"session": "ada-0"}).json()["suggestions"]
        believed = owner.get("/facts", params={"as_of": NOON.isoformat()}).json()
        assert believed == {"facts": []}
        assert owner.get("/facts", params={"as_of": "2026-03-02T12:00:00"}).status_code == 422  # of no time zone


@pytest.mark.parametrize("narrowed", [{"peer": "ada"}, {"agent": AGENT, "peer": "ada", "project": "/srv/shop"}])
def test_a_credential_of_one_person_is_told_that_persons_alone(
    api: ApiServer, learned: dict[str, list[str]], narrowed: dict[str, Any]
) -> None:
    with api.client(api.make_token(f"ada-{len(narrowed)}", "read", **narrowed)) as client:
        text = ask_everything(client, learned)
        assert persons_in(text) == {"ada"}
        assert client.get("/facts", params={"peer": "bob"}).status_code == 422
        assert client.get("/facts", params={"as_of": NOON.isoformat()}).status_code == 422


@pytest.mark.parametrize(
    "narrowed", [{"agent": "other"}, {"project": "/srv"}, {"peer": "zed"}, {"project": "/srv/shop/sub"}]
)
def test_a_credential_of_others_is_told_nothing(
    api: ApiServer, learned: dict[str, list[str]], narrowed: dict[str, Any]
) -> None:
    name = "-".join(f"{key}.{value.strip('/').replace('/', '.')}x" for key, value in narrowed.items())
    with api.client(api.make_token(name, "read", "write", **narrowed)) as client:
        assert persons_in(ask_everything(client, learned)) == set()
        for fact_id in learned["fact"]:
            for action, body in (("forget", None), ("correct", {"text": "I was changed."})):
                assert client.post(f"/facts/{fact_id}/{action}", json=body).status_code in (403, 404)
    with api.client() as owner:
        assert "I was changed." not in owner.get("/facts", params={"limit": 500}).text


def test_what_is_said_is_believed_and_forgotten(api: ApiServer, learned: dict[str, list[str]]) -> None:
    said = {"statement": "the lighthouse is painted green", "agent": AGENT, "project": "/srv/shop"}
    with api.client(api.make_token("said-read", "read")) as reader:
        assert reader.post("/remember", json=said).status_code == 403
    with api.client(api.make_token("said-record", "record", "read")) as agent:
        assert agent.post("/remember", json=said).json()["known"] is False
        (fact,) = agent.get("/facts", params={"query": "lighthouse"}).json()["facts"]
        assert fact["trust"] == "agent"
    with api.client() as owner:
        headers = {"Idempotency-Key": "lighthouse"}
        first, again = (owner.post("/remember", json=said, headers=headers).json() for _ in range(2))
        assert first == again
        assert (first["scope"], first["known"]) == ("project", True)
        assert (
            "lighthouse" in owner.get("/recall", params={"query": "is the lighthouse painted green?"}).json()["block"]
        )
        with api.client(api.make_token("said-record2", "record", "read")) as agent:
            assert agent.post("/forget", json={"words": "lighthouse green"}).status_code == 403
        assert owner.post("/forget", json={"words": "lighthouse green"}).json()["id"] == first["id"]
        assert owner.get("/facts", params={"query": "lighthouse"}).json() == {"facts": []}
        assert owner.post("/forget", json={"words": "lighthouse green"}).status_code == 404
        assert owner.post("/remember", json={**said, "statement": " "}).status_code == 422


def test_lessons_and_the_brief_are_told_within_a_credentials_reach(
    api: ApiServer, learned: dict[str, list[str]]
) -> None:
    ids = api.run(lambda database: save_lessons(database, "/srv/lessons"))
    here = {"project": "/srv/lessons"}
    with api.client() as owner:
        listed = {path: owner.get(path, params=here).json()["lessons"] for path in ("/commands", "/friction")}
        assert [row["id"] for row in listed["/commands"]] == [ids["rtk pnpm"], ids["test"]]  # not the hostile one
        assert [row["key"] for row in listed["/friction"]] == ["rtk pnpm"]
        (found,) = owner.get("/commands", params={**here, "query": "Tests"}).json()["lessons"]
        assert found["body"]["purpose"] == "test"
        brief = owner.get("/brief", params=here).json()
        assert {line["id"] for line in brief["lines"] if line["kind"] == "lesson"} == {ids["rtk pnpm"], ids["test"]}
        assert PREFIX_LINE in brief["text"]
        assert 0 < sum(line["tokens"] for line in brief["lines"]) <= brief["tokens"] <= 600
        assert owner.get("/brief", params={**here, "moment": "never"}).status_code == 422
        assert owner.get(f"/explain/{ids['test']}").json()["kind"] == "lesson"
    credentials: list[dict[str, Any]] = [{"peer": "ada"}, {"project": "/srv/shop"}, {"agent": "codex"}]
    for narrowed in credentials:
        with api.client(api.make_token(f"brief-{next(iter(narrowed))}", "read", **narrowed)) as client:
            assert client.get("/brief").status_code == 403
            assert "rtk pnpm" not in client.get("/commands").text
    with api.client() as owner:
        assert owner.post("/forget", json={"words": ids["test"]}).status_code == 200
        assert ids["test"] not in owner.get("/brief", params=here).text


def test_rules_are_listed_and_decided_by_those_who_may(api: ApiServer, learned: dict[str, list[str]]) -> None:
    with api.client() as owner:
        proposals = owner.get("/rules").raise_for_status().json()["rules"]
        assert all(proposal["sessions"] >= 3 and proposal["quotes"] for proposal in proposals)
        for decision, body in (("accept", {}), ("dismiss", None)):
            assert owner.post(f"/rules/nothing/{decision}", json=body).status_code == 404
            with api.client(api.make_token(f"rules-{decision}", "record", "read")) as agent:
                assert agent.post(f"/rules/nothing/{decision}", json=body).status_code == 403


def test_what_was_learned_is_told_with_what_waits_to_the_owner_alone(
    api: ApiServer, learned: dict[str, list[str]]
) -> None:
    with api.client() as owner, api.client(api.make_token("ada-learned", "read", peer="ada")) as ada:
        whole = owner.get("/learned", params={"limit": 100}).json()
        assert whole["nights"] == 1
        assert whole["seen"] == whole["learned"] + whole["nothing"] + whole["deferred"] + whole["dead"]
        assert set(whole["waiting"]) == {"to_review", "flagged", "dead_letters", "calls", "rules"}
        listed = {fact["id"] for fact in owner.get("/facts", params={"limit": 500}).json()["facts"]}
        assert {fact["id"] for fact in whole["facts"]} <= listed
        first = owner.get("/learned", params={"limit": 1}).json()
        assert first["facts"] == whole["facts"][:1]
        assert first["more"]["facts"] == len(whole["facts"]) - 1
        hers = ada.get("/learned", params={"limit": 100}).json()
        assert (hers["waiting"], hers.get("nights"), hers["since"]) == (None, None, whole["since"])
        seen = {fact["id"] for fact in ada.get("/facts", params={"limit": 500}).json()["facts"]}
        assert {fact["id"] for fact in hers["facts"]} <= seen
        assert all(fact["evidence"] == [] for fact in hers["facts"])
        assert hers["facts"]
        assert hers["procedures"]
        assert ada.get("/learned", params={"peer": "bob"}).status_code == 422
        later = owner.get("/learned", params={"since": (NOON + timedelta(days=1)).isoformat()}).json()
        assert (later["facts"], later["nights"]) == ([], 0)


def test_a_person_corrects_and_forgets_a_fact_once(api: ApiServer, learned: dict[str, list[str]]) -> None:
    with api.client() as owner:
        facts = owner.get("/facts", params={"limit": 500}).json()["facts"]
        own = next(fact for fact in facts if fact["peer"] == "ada")
        other = next(fact for fact in facts if fact["peer"] == "bob")
        with api.client(api.make_token("ada-writes", "read", "write", peer="ada")) as ada:
            assert ada.post(f"/facts/{other['id']}/forget").status_code == 404
            key = {"idempotency-key": "correct-1"}
            corrected = ada.post(f"/facts/{own['id']}/correct", json={"text": "Ada likes tea."}, headers=key)
            again = ada.post(f"/facts/{own['id']}/correct", json={"text": "Ada likes tea."}, headers=key)
            assert corrected.json() == again.json() == {"id": corrected.json()["id"], "believed": True}
            assert again.headers["idempotency-replayed"] == "true"
            assert "Ada likes tea." in ada.get("/facts").text
        new_id = corrected.json()["id"]
        assert owner.post(f"/facts/{new_id}/forget").json() == {"id": new_id, "believed": False}
        assert "Ada likes tea." not in owner.get("/facts", params={"limit": 500}).text
        assert "Ada likes tea." in owner.get("/facts", params={"limit": 500, "include_superseded": True}).text
        assert owner.post(f"/facts/{own['id']}/correct", json={"text": " "}).status_code == 422
        assert owner.post(f"/facts/{new_id}/undo").json() == {"id": new_id, "believed": True}
        assert owner.post(f"/facts/{new_id}/undo").json() == {"id": own["id"], "believed": True}
        assert owner.post(f"/facts/{new_id}/undo").status_code == 422
        restored = next(
            fact for fact in owner.get("/facts", params={"limit": 500}).json()["facts"] if fact["id"] == own["id"]
        )
        assert restored == own
        assert owner.post("/facts/nothing/forget").status_code == 404
        assert owner.post("/facts/nothing/review", json={"accept": True}).status_code == 404
