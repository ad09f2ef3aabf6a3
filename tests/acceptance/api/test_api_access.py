"""Every route of the API, by its OpenAPI document, with every kind of token that must not be enough for it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from consolidator.api.problems import MEDIA_TYPE, TYPE_PREFIX
from consolidator.models.viewer import SCOPES
from tests.acceptance.api.server import ApiServer, find_operations, make_sample
from tests.support import QUICK

KEY = "main:web:mara"
NOBODY = "01K0NOTHINGOFTHISNAME00000"
EVERYDAY = ("read", "record", "write")


@pytest.fixture(scope="module")
def session_id(api: ApiServer) -> str:
    """A session of the agent main with mara, in which something was said."""
    opened = api.open_session(KEY, project="/src/shop")
    with api.client() as client:
        client.post(f"/sessions/{opened}/messages", json={"text": "marker-of-mara"}).raise_for_status()
    return opened


def request_each(
    api: ApiServer, session_id: str, token: str | None, *, first: int = 0, step: int = 1, **headers: str
) -> list[tuple[Any, httpx2.Response]]:
    """Make a request of every operation, or of each `step` from the `first` on; return each with its answer."""
    document = api.openapi()
    sent = {} if token is None else {"authorization": f"Bearer {token}"}
    answered = []
    with httpx2.Client(base_url=api.address, headers={**sent, **headers}, timeout=300) as client:
        for method, path, described in find_operations(document)[first::step]:
            filled = path.replace("{session_id}", session_id)
            filled = re.sub(r"\{\w+\}", NOBODY, filled)
            query = {
                each["name"]: make_sample(document, each["schema"])
                for each in described.get("parameters", ())
                if each["in"] == "query" and each.get("required")
            }
            body = described.get("requestBody", {}).get("content", {}).get("application/json")
            sample = None if body is None else make_sample(document, body["schema"])
            answer = client.request(method.upper(), filled, params=query, json=sample)
            answered.append(((method, path, described), answer))
    assert len(answered) >= 15
    return answered


def check_problem(answer: httpx2.Response, slug: str) -> None:
    """Check that an answer is a whole problem document of a kind."""
    assert answer.headers["content-type"] == MEDIA_TYPE
    problem = answer.json()
    assert problem["type"] == TYPE_PREFIX + slug
    assert problem["status"] == answer.status_code
    assert problem["instance"] == answer.request.url.path
    assert problem["title"]
    assert problem["detail"]
    assert problem["next"]


KINDS = ("missing", "wrong", "expired", "revoked", "cut off", "basic", "twice")


@pytest.mark.parametrize("kind", KINDS)
def test_no_route_answers_without_a_right_token(api: ApiServer, session_id: str, kind: str) -> None:
    before = show(api, session_id)
    token: str | None = None
    headers = {}
    if kind == "wrong":
        token = "cns_" + "x" * 43
    elif kind == "expired":
        token = api.make_token("old", *SCOPES, age=timedelta(days=2), expires_in=timedelta(days=1))
    elif kind == "revoked":
        token = api.make_token("gone", *SCOPES)
        api.revoke("gone")
    elif kind == "cut off":
        token = api.owners_token[:-1]
    elif kind == "basic":
        headers = {"authorization": f"Basic {api.owners_token}"}
    elif kind == "twice":
        token = f"{api.owners_token}, Bearer {api.owners_token}"
    part = {"first": KINDS.index(kind) % 3, "step": 3} if QUICK else {}  # in CI each route meets two kinds or more
    for (_, path, _), answer in request_each(api, session_id, token, **part, **headers):  # type: ignore[arg-type]
        assert answer.status_code == 401, path
        check_problem(answer, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "marker" not in answer.text
        told = {"expired": "expired at 20", "revoked": "was revoked at 20"}.get(kind, "missing, wrong, expired or")
        assert told in answer.json()["detail"]
    assert show(api, session_id) == before


@pytest.mark.parametrize("scope", SCOPES)
def test_a_route_needs_its_scope_and_says_so_before_it_looks_anything_up(api: ApiServer, scope: str) -> None:
    token = api.make_token(
        f"only-{scope}", *(each for each in SCOPES if each != scope and (scope, each) != ("record", "write"))
    )
    refused = 0
    for (method, path, described), answer in request_each(api, NOBODY, token):
        assert described["x-scope"] in SCOPES, f"{method} {path} does not say which scope it needs"
        if described["x-scope"] == scope:
            refused += 1
            assert answer.status_code == 403, (method, path, answer.text)
            check_problem(answer, "forbidden")
            assert scope in answer.json()["detail"]
    assert refused or scope == "admin"


@pytest.mark.parametrize(
    "narrowed",
    [{"agent": "other"}, {"peer": "bob"}, {"project": "/src/other"}, {"agent": "main", "peer": "mara2"}],
    ids=str,
)
def test_no_route_shows_or_changes_what_lies_outside(api: ApiServer, session_id: str, narrowed: dict[str, Any]) -> None:
    before = show(api, session_id)
    name = "foreign-" + "-".join(f"{key}.{value.strip('/').replace('/', '.')}" for key, value in narrowed.items())
    token = api.make_token(name, *EVERYDAY, **narrowed)
    answers = request_each(api, session_id, token)
    nothing = {(method, path): answer for (method, path, _), answer in request_each(api, NOBODY, token)}
    for (method, path, described), answer in answers:
        if described["x-scope"] == "admin" or path == "/v1/brief":  # what agents are told is for nobody who is narrowed
            assert answer.status_code == 403
        elif "{session_id}" in path:
            assert answer.status_code == 404, (method, path, answer.text)
            check_problem(answer, "not-found")
            if method == "get":  # and in the words for what does not exist
                shown = answer.text.replace(session_id, "ID").replace(NOBODY, "ID")  # a path may name a second thing
                assert shown == nothing[method, path].text.replace(NOBODY, "ID")
        else:
            assert answer.status_code in (200, 201, 404, 422), (method, path, answer.text)
        assert "marker-of-mara" not in answer.text
        if "{session_id}" not in path:
            assert session_id not in answer.text
    assert show(api, session_id) == before


def show(api: ApiServer, session_id: str) -> Any:
    """Return a session as its owner sees it, without the error that a service without a model notes by itself."""
    with api.client() as client:
        session = client.get(f"/sessions/{session_id}").raise_for_status().json()
    return {name: value for name, value in session.items() if name != "error"}


def test_what_is_public_needs_no_token_and_tells_nothing(api: ApiServer, session_id: str) -> None:
    document = api.openapi()
    assert document["openapi"].startswith("3.1")
    assert session_id not in str(document)
    assert httpx2.get(api.address + "/v1/docs").status_code == 401  # off unless asked for
    operations = [described["operationId"] for _, _, described in find_operations(document)]
    assert len(set(operations)) == len(operations)
