"""Which model the nights ask, by what listens on loopback and what a person configured or allowed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from consolidator.llm import choice as choice_module
from consolidator.llm.choice import choose_model, save_permission
from consolidator.settings import Settings
from tests.conftest import NOON

LISTED = {"object": "list", "data": [{"id": "qwen3:8b", "object": "model", "owned_by": "library"}]}
# What each kind of server answers by path, and how long a question and its answer may be.
SERVERS: dict[str, tuple[dict[str, Any], int | None]] = {
    "Ollama": ({"/v1/models": LISTED, "/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 16384}]}}, 16384),
    "LM Studio": (
        {
            "/v1/models": LISTED,
            "/api/v0/models": {"data": [{"id": "qwen3:8b", "state": "loaded", "loaded_context_length": 8192}]},
        },
        8192,
    ),
    "llama.cpp": (
        {
            "/v1/models": {"data": [{"id": "qwen3:8b", "owned_by": "llamacpp", "meta": {"n_ctx_train": 40960}}]},
            "/props": {"default_generation_settings": {"n_ctx": 6144}, "total_slots": 1},
        },
        6144,
    ),
    "vLLM": ({"/v1/models": {"data": [{"id": "qwen3:8b", "owned_by": "vllm", "max_model_len": 32768}]}}, 32768),
}


@contextmanager
def serve(pages: Mapping[str, Any]) -> Iterator[int]:
    """Answer on a port of loopback, which is yielded, with a JSON page for each path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def listen_as(name: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move a server of the table to the port, and take the others out of it."""
    table = choice_module._table()
    server = next(row for row in table["server"] if row["name"] == name)
    monkeypatch.setattr(choice_module, "_table", lambda: {**table, "server": [{**server, "port": port}]})


@pytest.fixture
def searching(settings: Settings) -> Settings:
    return settings.model_copy(update={"find_model": True})


@pytest.mark.parametrize("name", SERVERS)
def test_a_local_server_is_asked_with_the_window_that_it_says(
    searching: Settings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pages, window = SERVERS[name]
    with serve(pages) as port:
        listen_as(name, port, monkeypatch)
        choice = choose_model(searching)
        assert (choice.source, choice.name, choice.window) == ("local", "qwen3:8b", window)
        url = f"http://127.0.0.1:{port}/v1"
        assert choice.place == url
        # The same where a person named the server, or the model, too.
        named = searching.model_copy(update={"openai_base_url": url})
        choice = choose_model(named)
        assert (choice.source, choice.name, choice.window) == ("local", "qwen3:8b", window)
        configured = choose_model(named.model_copy(update={"model": "qwen3:8b"}))
        assert (configured.source, configured.window) == ("configured", window)
        assert configured.apply(named).model_window == window
        set_by_hand = choose_model(named.model_copy(update={"model": "qwen3:8b", "model_window": 2048}))
        assert set_by_hand.window == 2048


@pytest.mark.parametrize(("name", "window"), [("Ollama", 4096), ("llama.cpp", None)])
def test_a_configured_server_that_says_no_window_has_its_kinds(
    searching: Settings, monkeypatch: pytest.MonkeyPatch, name: str, window: int | None
) -> None:
    with serve({"/v1/models": LISTED}) as port:
        listen_as(name, port, monkeypatch)
        update = {"openai_base_url": f"http://localhost:{port}/v1", "model": "qwen3:8b"}
        choice = choose_model(searching.model_copy(update=update))
        assert choice.window == window  # what listens on llama.cpp's port is not llama.cpp


def test_another_program_on_a_servers_port_is_not_asked(searching: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"/v1/models": LISTED}) as port:
        listen_as("llama.cpp", port, monkeypatch)
        assert choose_model(searching).source == "none"


def test_another_users_server_gets_nothing_and_is_named(searching: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(SERVERS["Ollama"][0]) as port:
        listen_as("Ollama", port, monkeypatch)
        for owners, source in (([os.geteuid()], "local"), ([0], "local"), ([], "none"), ([0, 12345], "none")):
            monkeypatch.setattr(choice_module, "_list_owners", lambda port, owners=owners: iter(owners))
            choice = choose_model(searching)
            assert choice.source == source
            assert ("Ollama is another user's" in choice.description) is (source == "none")


def test_what_is_configured_comes_before_a_local_server_and_that_before_an_agent(
    searching: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_permission(searching.home, "codex", is_agreed=True, now=NOON)
    configured = searching.model_copy(update={"model": "large"})
    with serve(SERVERS["Ollama"][0]) as port:
        listen_as("Ollama", port, monkeypatch)
        assert choose_model(configured).name == "large"
        assert choose_model(configured.model_copy(update={"extract_model": "gemini-cli"})).name == (
            "gemini-cli/gemini-2.5-flash"
        )
        assert choose_model(searching).name == "qwen3:8b"
    assert choose_model(searching).name == "codex/default"
    assert choose_model(searching.model_copy(update={"find_model": False})).source == "none"
