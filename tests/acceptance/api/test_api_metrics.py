"""/metrics: what a scrape finds is bounded, true, and told to whoever may read everything; spans go to a collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from prometheus_client.parser import text_string_to_metric_families

from consolidator.testing import ModelServer
from tests.acceptance.api.server import ApiServer, answer_models, serve, use_model, wait_for
from tests.support import PATIENCE

Sample = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with answer_models(lambda _: "Hello.") as server:
        yield server


class Collector(ThreadingHTTPServer):
    """A collector of spans that speaks OTLP over HTTP, on loopback; the first request of all is turned away."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorRequest)
        self.spans: list[tuple[str, dict[str, str]]] = []  # (name, attributes and "service.name")
        self.refused = 0


class _CollectorRequest(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        wanted = ("/v1/traces", "application/x-protobuf")
        if (self.path, self.headers["content-type"]) != wanted or not self.server.refused:
            self.server.refused += 1
            self.send_response(503)
            self.end_headers()
            return
        export = ExportTraceServiceRequest.FromString(body)
        for of_resource in export.resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            self.server.spans += [
                (span.name, resource | _attributes(span.attributes))
                for of_scope in of_resource.scope_spans
                for span in of_scope.spans
            ]
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _attributes(pairs: Any) -> dict[str, str]:
    return {pair.key: str(getattr(pair.value, pair.value.WhichOneof("value"))) for pair in pairs}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def api(
    module_dsn: str, model: ModelServer, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    traced = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_SERVICE_NAME": "memory-of-the-shop",
    }
    with serve(module_dsn, folder, **use_model(model), **traced) as server:
        yield server


def scrape(api: ApiServer, token: str | None = None) -> dict[Sample, float]:
    """Return the samples of a scrape, by name and labels."""
    headers = {"authorization": f"Bearer {token or api.owners_token}"}
    answer = httpx2.get(f"{api.address}/metrics", headers=headers, timeout=PATIENCE).raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def total(samples: dict[Sample, float], name: str, **labels: str) -> float:
    """Return the sum of the samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(value for (its, found), value in samples.items() if its == name and wanted <= set(found))


def test_requests_models_nights_and_the_queue_are_told(api: ApiServer) -> None:
    with api.client() as owner:
        session_id = api.open_session("metrics:web:mara")
        owner.post(f"/sessions/{session_id}/messages", json={"text": "Hi"}).raise_for_status()
        wait_for(owner, f"/sessions/{session_id}", lambda found: found["turns"] == 1)
        for number in range(5):
            assert owner.get(f"/sessions/01NOBODY{number}").status_code == 404
        assert owner.get(f"/nowhere/{session_id}").status_code == 404
        run = owner.post("/runs", json={"job": "import"}).raise_for_status().json()["run_id"]
        wait_for(owner, f"/runs/{run}", lambda found: found["status"] == "done")
    found = scrape(api)
    route = "/v1/sessions/{session_id}"
    assert total(found, "consolidator_http_requests_total", route=route, status="404") == 5
    assert total(found, "consolidator_http_request_duration_seconds_count", route=route, method="GET") >= 6
    assert total(found, "consolidator_http_requests_total", route="none", status="404") == 1
    assert total(found, "consolidator_model_calls_total", operation="chat", outcome="ok") == 1
    assert total(found, "consolidator_model_tokens_total", model="gpt-4o-mini", type="output") > 0
    assert total(found, "consolidator_model_cost_usd_total", model="gpt-4o-mini") > 0
    assert total(found, "consolidator_run_status", job="import", status="done") == 1
    assert total(found, "consolidator_run_started_timestamp_seconds", job="import") > 0
    assert total(found, "consolidator_database_up") == 1
    assert total(found, "consolidator_sessions_pending") == 0
    for name in ("sessions_unread", "sessions_awaiting_person", "dead_letters", "sessions_pending_oldest_seconds"):
        assert (f"consolidator_{name}", ()) in found
    assert not [name for name, labels in found if session_id in str(labels) or "01NOBODY" in str(labels)]


def test_spans_are_sent_to_a_collector_without_contents(api: ApiServer, collector: Collector) -> None:
    """Also after the collector turned one export away."""
    with api.client() as owner:
        session_id = api.open_session("traced:web:mara")
        owner.post(f"/sessions/{session_id}/messages", json={"text": "my secret plan"}).raise_for_status()
        wait_for(owner, f"/sessions/{session_id}", lambda found: found["turns"] == 1)
    wanted = {"POST /v1/sessions/{session_id}/messages", "invoke_agent traced", "chat gpt-4o-mini"}
    until = time.monotonic() + PATIENCE
    while not wanted <= {name for name, _ in collector.spans}:
        assert time.monotonic() < until, [name for name, _ in collector.spans]
        time.sleep(0.05)
    assert collector.refused == 1
    spans = dict(collector.spans)
    chat, turn = spans["chat gpt-4o-mini"], spans["invoke_agent traced"]
    request = spans["POST /v1/sessions/{session_id}/messages"]
    assert {span["service.name"] for _, span in collector.spans} == {"memory-of-the-shop"}
    assert (chat["gen_ai.request.model"], chat["gen_ai.operation.name"]) == ("gpt-4o-mini", "chat")
    assert int(chat["gen_ai.usage.output_tokens"]) > 0
    assert (turn["gen_ai.conversation.id"], turn["consolidator.outcome"]) == (session_id, "stop")
    assert (request["http.request.method"], request["http.response.status_code"]) == ("POST", "202")
    assert "secret plan" not in str(collector.spans)
    assert "Hello." not in str(collector.spans)


def test_an_open_stream_is_counted_while_it_is_open(api: ApiServer) -> None:
    session_id = api.open_session("metrics:web:stream")
    path = f"/sessions/{session_id}/events"
    with api.client(accept="text/event-stream") as client, client.stream("GET", path) as stream:
        lines = stream.iter_lines()  # kept: what nobody reads is closed
        next(lines)
        assert total(scrape(api), "consolidator_http_open_streams") == 1


def test_only_who_reads_everything_scrapes(api: ApiServer) -> None:
    address = f"{api.address}/metrics"
    assert httpx2.get(address).status_code == 401
    assert httpx2.get(address, headers={"authorization": "Bearer wrong"}).status_code == 401
    for name, scope, agent, status in (
        ("scraper", "read", None, 200),
        ("metrics-writer", "write", None, 403),
        ("metrics-main", "read", "main", 403),
    ):
        token = api.make_token(name, scope, agent=agent)
        answer = httpx2.get(address, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
        assert answer.status_code == status, name
    wrong = httpx2.post(address, headers={"authorization": f"Bearer {api.owners_token}"})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
