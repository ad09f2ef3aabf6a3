"""/metrics: what a Prometheus server scrapes. What this process did is counted as it happens; the rest is looked up.

Every label has few values: routes are templates, and of models and tools the first ones are told apart by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import psycopg
from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.api import problems
from consolidator.api.guard import Places
from consolidator.api.problems import Problem
from consolidator.errors import DatabaseError, DatabaseUnavailable
from consolidator.llm.prices import calculate_cost
from consolidator.models.viewer import OWNER
from consolidator.runtime.live.hub import FollowHub
from consolidator.service.database import Database
from consolidator.service.system import ServiceState, load_service_state
from consolidator.telemetry import Span, listen, open_span

PATH = "/metrics"
KEPT_SECONDS = 2.0  # what was looked up serves the scrapes that come so soon after it
_MAX_NAMES = 100  # models, and tools, that are told apart
_OTHER = "other"
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 10, 60)
_CALL_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600)
_COUNTS = ("seen", "learned", "nothing", "deferred", "dead", "events", "sessions")  # of a run's report
_STATUSES = ("running", "done", "failed", "interrupted")


class ProcessMetrics:
    """Counts what this process does, as a listener of its spans."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("consolidator", "The program.", registry=self.registry).info({"version": version("consolidator")})
        self._requests = self._histogram("http_request", "Requests of the API.", ("method", "route"), _REQUEST_BUCKETS)
        self._answers = self._counter("http_requests", "Requests of the API.", ("method", "route", "status"))
        self._models = self._histogram("model_call", "Calls of models.", ("model", "operation"), _CALL_BUCKETS)
        self._outcomes = self._counter("model_calls", "Calls of models.", ("model", "operation", "outcome"))
        self._tokens = self._counter(
            "model_tokens", "Tokens of calls of models, as servers report them.", ("model", "type")
        )
        self._cost = self._counter("model_cost_usd", "What calls of models cost, at list prices.", ("model",))
        self._tools = self._histogram("tool_call", "Calls of tools.", ("tool",), _CALL_BUCKETS)
        self._results = self._counter("tool_calls", "Calls of tools.", ("tool", "outcome"))
        self._names: dict[str, set[str]] = {"model": set(), "tool": set()}

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"consolidator_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        text = f"{text[:-1]}, in seconds."
        return Histogram(f"consolidator_{name}_duration_seconds", text, labels, registry=self.registry, buckets=buckets)

    def begin(self, span: Span) -> None:
        """Nothing is counted before it has ended."""

    def end(self, span: Span) -> None:
        """Count what has ended."""
        if span.kind == "request":
            self._end_request(span)
        elif span.kind == "model":
            self._end_model_call(span)
        elif span.kind == "tool":
            tool = self._name("tool", span.attributes.get("gen_ai.tool.name"))
            self._tools.labels(tool).observe(span.seconds)
            self._results.labels(tool, span.error or str(span.attributes.get("consolidator.outcome", "ok"))).inc()

    def _end_request(self, span: Span) -> None:
        method = str(span.attributes["http.request.method"])
        route = str(span.attributes.get("http.route") or "none")
        status = span.attributes.get("http.response.status_code", 0)
        self._answers.labels(method, route, str(status)).inc()
        if not span.attributes.get("consolidator.stream"):
            self._requests.labels(method, route).observe(span.seconds)

    def _end_model_call(self, span: Span) -> None:
        attributes = span.attributes
        named = str(attributes.get("gen_ai.request.model"))
        model, operation = self._name("model", named), str(attributes.get("gen_ai.operation.name"))
        self._models.labels(model, operation).observe(span.seconds)
        self._outcomes.labels(model, operation, span.error or "ok").inc()
        read, written = (int(attributes.get(f"gen_ai.usage.{side}_tokens") or 0) for side in ("input", "output"))
        cached = int(attributes.get("gen_ai.usage.cache_read.input_tokens") or 0)
        for kind, count in (("input", read), ("cached", cached), ("output", written)):
            self._tokens.labels(model, kind).inc(count)
        cost = calculate_cost(named, input_tokens=read, output_tokens=written, cached_tokens=cached)
        if cost:
            self._cost.labels(model).inc(float(cost))

    def _name(self, kind: str, name: Any) -> str:
        """Return a name as a label: itself, as long as there are few."""
        names, text = self._names[kind], str(name)[:100]
        if text not in names and len(names) >= _MAX_NAMES:
            return _OTHER
        names.add(text)
        return text


@contextmanager
def count_process() -> Iterator[ProcessMetrics]:
    """Yield what counts what this process does, while the block runs."""
    metrics = ProcessMetrics()
    stop = listen(metrics)
    try:
        yield metrics
    finally:
        stop()


@dataclass(slots=True, eq=False)  # the registry hashes it
class MetricsPage:
    """The ASGI application that answers a scrape; the guard before it says who asks."""

    database: Database
    process: ProcessMetrics
    streams: Places
    hub: FollowHub
    _state: ServiceState | None = None
    _looked_at: float = -KEPT_SECONDS  # time.monotonic()
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.process.registry.register(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a scrape. Raises Forbidden for a credential that does not read everything."""
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(problems.METHOD_NOT_ALLOWED, "metrics are read with GET", {"allow": "GET, HEAD"})
        viewer = scope.get("state", {}).get("viewer", OWNER)
        viewer.check_may("read")
        viewer.check_unnarrowed()
        async with self._looking:
            if time.monotonic() - self._looked_at >= KEPT_SECONDS:
                try:
                    self._state = await load_service_state(self.database, viewer=viewer)
                except (psycopg.Error, DatabaseError, DatabaseUnavailable):
                    self._state = None  # what the process counted is told all the same
                self._looked_at = time.monotonic()
        encode, media_type = choose_encoder(Headers(scope=scope).get("accept", ""))
        await Response(encode(self.process.registry), media_type=media_type)(scope, receive, send)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what is there is known at a scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield what was looked up, and what is open in this process."""
        yield _gauge("http_open_streams", "Streams of events that are open.", self.streams.count)
        yield _gauge("followed_sessions", "Sessions that streams follow.", self.hub.followed_sessions)
        state = self._state
        yield _gauge("database_up", "Whether the database answered this scrape.", int(state is not None))
        if state is None:
            return
        yield _gauge("sessions_pending", "Sessions that a driver has to look at.", state.queue.due)
        text = "Time since the last event of the pending session that was quiet for longest."
        yield _gauge("sessions_pending_oldest_seconds", text, state.queue_age_seconds)
        yield _gauge("sessions_failing", "Pending sessions whose last wakes failed.", state.queue.failing)
        yield _gauge("sessions_driven", "Pending sessions that a harness holds.", state.queue.driven)
        yield _gauge("sessions_awaiting_person", "Sessions with a call that waits for a person.", state.waiting.calls)
        yield _gauge("sessions_unread", "Sessions with events that no night has read.", state.waiting.sessions)
        yield _gauge("dead_letters", "Events that could not be learned from.", state.waiting.dead_letters)
        yield _gauge("model_calls_unsettled", "Calls of models with a reserve.", state.waiting.open_calls)
        yield from _run_metrics(state)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"consolidator_{name}", text, value=value)


def _run_metrics(state: ServiceState) -> Iterator[Metric]:
    """Yield what the latest run of each job did."""
    began = GaugeMetricFamily("consolidator_run_started_timestamp_seconds", "Start of the last run.", labels=["job"])
    took = GaugeMetricFamily("consolidator_run_duration_seconds", "Duration of the last run, ended.", labels=["job"])
    status = GaugeMetricFamily("consolidator_run_status", "Status of the last run.", labels=["job", "status"])
    counts = GaugeMetricFamily("consolidator_run_count", "What the last run counted.", labels=["job", "what"])
    for run in state.runs:
        began.add_metric([run.job], run.started_at.timestamp())
        if run.finished_at is not None:
            took.add_metric([run.job], (run.finished_at - run.started_at).total_seconds())
        for name in _STATUSES:
            status.add_metric([run.job, name], int(run.status == name))
        for name in _COUNTS:
            if isinstance(run.report.get(name), int):
                counts.add_metric([run.job, name], run.report[name])
    yield from (began, took, status, counts)


_METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")
_STREAM = b"text/event-stream"


@dataclass(slots=True)
class MeasuredApp:
    """An ASGI application whose requests are spans; the outermost one, so that refusals count, too."""

    app: ASGIApp
    prefix: str  # before the templates of its routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within a span."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        with open_span("request", method, {"http.request.method": method}) as span:

            async def note_start(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.attributes["http.response.status_code"] = message["status"]
                    kind = dict(message.get("headers", ())).get(b"content-type", b"")
                    if kind.startswith(_STREAM):
                        span.attributes["consolidator.stream"] = True
                await send(message)

            try:
                await self.app(scope, receive, note_start)
            finally:
                route = getattr(scope.get("route"), "path_format", None)
                if route is not None:
                    route = self.prefix + route
                    span.attributes["http.route"] = route
                    span.name = f"{method} {route}"
