"""What the door of the API refuses: too many wrong tokens, bundles that are too large or cut off, other origins."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.api.server import ApiServer, serve
from tests.support import PATIENCE

LINES = {"content-type": "application/x-ndjson"}
LIMITS = {"IMPORT_BYTES": 9 * 1024 * 1024, "WRONG_TOKENS_PER_MINUTE": 5}
SETTINGS = {
    "CONSOLIDATOR_HTTP_HOST": "0.0.0.0",
    "CONSOLIDATOR_HTTP_ALLOWED_HOSTS": '["api.example"]',
}


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the service keeps what is uploaded."""
    return tmp_path_factory.mktemp("spool")


@pytest.fixture(scope="module")
def api(module_dsn: str, spool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serve(module_dsn, tmp_path_factory.mktemp("limits"), limits=LIMITS, **SETTINGS, TMPDIR=str(spool)) as server:
        yield server


def test_a_bundle_larger_than_other_bodies_is_taken_up_to_the_limit(api: ApiServer, spool: Path) -> None:
    with api.client() as owner:
        session = owner.post("/sessions", json={"key": "main:web:large"}).json()
        for _ in range(30):
            text = "x " * 95_000
            owner.post(f"/sessions/{session['id']}/messages", json={"text": text}).raise_for_status()
        bundle = owner.get(f"/sessions/{session['id']}/export").content
        assert len(bundle) > 5 * 1024 * 1024
        imported = owner.post("/sessions/import", content=bundle, headers=LINES, params={"copy": True})
        assert (imported.status_code, imported.json()["events"]) == (200, 31), imported.text
        again = owner.post("/sessions/import", content=iter([bundle]), headers=LINES, params={"copy": True})
        assert again.json()["is_new"] is False  # in pieces, without a length
        too_large = owner.post("/sessions/import", content=iter([bundle, bundle]), headers=LINES)
        assert (too_large.status_code, "a bundle has at most" in too_large.text) == (413, True)
        assert owner.post("/sessions", content=bundle, headers={"content-type": "application/json"}).status_code == 413
    assert list(spool.iterdir()) == []


def test_an_upload_that_is_cut_off_leaves_nothing(api: ApiServer, spool: Path) -> None:
    port = int(api.address.rpartition(":")[2])
    head = (
        f"POST /v1/sessions/import HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.owners_token}\r\n"
        "Content-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + b"x" * 500_000)
        with api.client() as owner:
            assert owner.get("/sessions").status_code == 200
    with api.client() as owner:
        assert owner.get("/sessions").status_code == 200
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "kind"), [("sessions", "application/json"), ("sessions/import", "application/x-ndjson")]
)
def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes(api: ApiServer, path: str, kind: str) -> None:
    head = (
        f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.owners_token}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: 10000000000\r\n\r\n"
    )
    port = int(api.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 ")
        connection.sendall(b"x" * 1_000_000)  # who sends on all the same is not cut off before it has heard


def test_a_key_names_one_bundle(api: ApiServer) -> None:
    with api.client(**{"idempotency-key": "bundle-1"}, **LINES) as owner:
        assert owner.post("/sessions/import", content=b"one").status_code == 422
        session_id = api.open_session("main:web:keyed")
        bundle = owner.get(f"/sessions/{session_id}/export").content
        first = owner.post("/sessions/import", content=bundle, params={"copy": True})
        again = owner.post("/sessions/import", content=bundle, params={"copy": True})
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
        assert owner.post("/sessions/import", content=bundle + b"\n", params={"copy": True}).status_code == 422


def test_only_named_hosts_are_answered(api: ApiServer) -> None:
    with api.client() as owner:
        assert owner.get("/sessions", headers={"host": "api.example"}).status_code == 200
        assert owner.get("/sessions", headers={"host": "evil.example"}).status_code == 421
    for path in ("/healthz", "/readyz"):
        for host, is_ours in (("api.example", True), ("localhost:1", True), ("evil.example", False)):
            state = httpx2.get(api.address + path, headers={"host": host}).json()
            assert (set(state) == {"status"}) is not is_ours, (path, host)
            assert state["status"] == "ok"
    assert "is reached from other machines, without encryption" in api.log_file.read_text()


def test_wrong_tokens_of_one_address_are_bounded_and_right_ones_are_not(api: ApiServer) -> None:
    with api.client() as owner:
        assert owner.get("/sessions").status_code == 200
        with api.client("cns_wrong") as wrong:
            answers = [wrong.get("/sessions") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert owner.get("/sessions").status_code == 200
        assert httpx2.get(f"{api.address}/v1/sessions").status_code == 401  # without any token
