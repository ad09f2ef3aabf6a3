"""Bundles over HTTP: a session leaves and comes in as one stream of lines, whole or not at all."""

from __future__ import annotations

from tests.acceptance.api.server import ApiServer

LINES = {"content-type": "application/x-ndjson"}


def test_a_session_is_exported_and_imported_again(api: ApiServer) -> None:
    with api.client() as owner:
        session = owner.post("/sessions", json={"key": "main:web:bundled", "system": "Be brief."}).json()
        owner.post(f"/sessions/{session['id']}/messages", json={"text": "Hello"})
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
