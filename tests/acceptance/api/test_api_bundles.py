"""Bundles over HTTP: a session leaves and comes in as one stream of lines, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.api.server import ApiServer, answer_models, serve, use_model, wait_for
from tests.databases import database_copy
from tests.nights import query_number

LINES = {"content-type": "application/x-ndjson"}


def test_a_session_is_exported_and_imported_again(api: ApiServer) -> None:
    with api.client() as owner:
        session = owner.post("/sessions", json={"key": "main:web:bundled", "system": "Be brief."}).json()
        owner.post(f"/sessions/{session['id']}/messages", json={"text": "Hello"})
        wait_for(owner, f"/sessions/{session['id']}", lambda shown: shown["error"])  # the service has no model
        bundle = owner.get(f"/sessions/{session['id']}/export")
        assert (bundle.status_code, bundle.headers["content-type"]) == (200, "application/x-ndjson")
        assert owner.get("/sessions/01NOBODY/export").status_code == 404
        assert owner.post("/sessions/import", content=bundle.content).status_code == 415
        imported = owner.post("/sessions/import", content=bundle.content, headers=LINES, params={"copy": True})
        assert imported.status_code == 200, imported.text
        copy = imported.json()
        assert (copy["origin"], copy["is_new"], copy["events"]) == (session["id"], True, 2)
        shown = owner.get(imported.headers["location"].removeprefix("/v1")).json()
        assert shown["config"] == session["config"]
        again = owner.post("/sessions/import", content=bundle.content, headers=LINES, params={"copy": True}).json()
        assert (again["session_id"], again["is_new"]) == (copy["session_id"], False)
        refused = owner.post("/sessions/import", content=bundle.content[:-80], headers=LINES)
        assert (refused.status_code, "nothing was written" in refused.text) == (422, True)
        assert "/tmp" not in refused.text
    reader = api.make_token("bundle-reader", "read", "write")
    with api.client(reader) as client:
        assert client.get(f"/sessions/{session['id']}/export").content == bundle.content
        assert client.get(f"/sessions/{session['id']}/export", params={"exact": True}).status_code == 403
        assert client.post("/sessions/import", content=bundle.content, headers=LINES).status_code == 403


def test_an_exact_bundle_with_its_ancestor_makes_the_round_trip_byte_for_byte(
    api: ApiServer, server_dsn: str, template: str, tmp_path: Path
) -> None:
    long = "ghp_" + "Zk3" * 12 + " " + "a long text " * 20_000  # a value of a blob, with a credential
    with (
        database_copy(server_dsn, template) as dsn,
        answer_models(lambda request: f"Answer {len(request['messages'])} in some pieces.") as model,
        serve(dsn, tmp_path, **use_model(model)) as recording,
        recording.client() as there,
        api.client() as here,
    ):
        root = recording.open_session("main:web:exact", system="Be brief.")
        there.post(f"/sessions/{root}/messages", json={"text": long}).raise_for_status()
        point = wait_for(there, f"/sessions/{root}", lambda session: not session["pending"])["head"]
        there.post(f"/sessions/{root}/messages", json={"text": "Only in the parent"}).raise_for_status()
        wait_for(there, f"/sessions/{root}", lambda session: not session["pending"])
        fork = there.post(f"/sessions/{root}/fork", json={"at": point}).raise_for_status().json()["id"]
        there.post(f"/sessions/{fork}/messages", json={"text": "In the fork"}).raise_for_status()
        wait_for(there, f"/sessions/{fork}", lambda session: not session["pending"])
        there.post(f"/sessions/{fork}/checkpoint", json={"label": "good", "metadata": {"by": "ci"}}).raise_for_status()
        exact = {"exact": True}
        bundle = there.get(f"/sessions/{fork}/export", params=exact).raise_for_status().content
        lines = [json.loads(line) for line in bundle.splitlines()]
        assert [line["session"]["id"] for line in lines if "session" in line] == [root, fork]
        assert {"lineage", "columns", "seed", "checkpoint", "chunk"} <= {name for line in lines for name in line}
        assert bundle.count(long.encode()) == 1
        assert b"Only in the parent" not in bundle
        query = "select count(*) from event where data ? 'data_ref'"
        assert recording.run(lambda database: query_number(database, query)) == 1
        imported = here.post("/sessions/import", content=bundle, headers=LINES)
        assert (imported.status_code, imported.json()["is_new"]) == (200, True), imported.text
        path = imported.headers["location"].removeprefix("/v1")
        assert here.get(f"{path}/export", params=exact).raise_for_status().content == bundle
        shown, original = (
            client.get(f"{place}/hydrate").raise_for_status().json()
            for client, place in ((here, path), (there, f"/sessions/{fork}"))
        )
        for seen in ("messages", "seeds", "checkpoints"):
            assert len(shown[seen]) == len(original[seen]) > 0
        texts = [[message["data"].get("text") for message in each["messages"]] for each in (shown, original)]
        assert texts[0] == texts[1]
        assert [(point["label"], point["metadata"]) for point in shown["checkpoints"]] == [("good", {"by": "ci"})]
        assert b"Zk3" not in here.get(f"{path}/export").content
