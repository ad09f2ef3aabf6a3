"""OpenTelemetry: where an exporter is set, what this process does is sent to it as spans. Else it costs nothing.

The variables are those of OpenTelemetry (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER` and
so on); the packages are the extra `otel`. Spans of models and tools have the attributes of its conventions for
generative AI, and no contents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from consolidator.errors import UsageError
from consolidator.telemetry import Span, listen

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_KINDS = {"request": "SERVER", "model": "CLIENT"}


@contextmanager
def export_spans(processor: SpanProcessor | None = None) -> Iterator[None]:
    """Send the spans of the block to the configured exporter; do nothing where there is none.

    `processor` takes the spans in place of the exporter. Raises UsageError where the packages are missing.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if processor is None and (is_off or not any(os.environ.get(name) for name in _ENDPOINTS)):
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UsageError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and the packages that send spans are missing: "
            "pip install 'consolidator[otel]', or unset it"
        ) from error
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "consolidator"}
    resource = Resource.create({**named, "service.version": version("consolidator")})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # In batches, from a thread of its own; where nobody takes spans, they are dropped.
    provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
    stop = listen(_Tracer(provider.get_tracer("consolidator", version("consolidator"))))
    try:
        yield
    finally:
        stop()
        provider.shutdown()


class _Tracer:
    """Makes a span of OpenTelemetry of each of ours; those that begin in it are its children."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._open: dict[int, tuple[Any, Any]] = {}  # id of our span -> theirs, and the token of its context

    def begin(self, span: Span) -> None:
        """Begin a span within the current one."""
        from opentelemetry import context, trace

        kind = getattr(trace.SpanKind, _KINDS.get(span.kind, "INTERNAL"))
        begun = self._tracer.start_span(span.name, kind=kind)
        self._open[id(span)] = begun, context.attach(trace.set_span_in_context(begun))

    def end(self, span: Span) -> None:
        """End it with all that is known by now."""
        from opentelemetry import context, trace

        if id(span) not in self._open:
            return
        begun, token = self._open.pop(id(span))
        context.detach(token)
        begun.update_name(span.name)
        begun.set_attributes({name: value for name, value in span.attributes.items() if value is not None})
        status = int(span.attributes.get("http.response.status_code") or 0)
        if span.error is not None or status >= 500:
            begun.set_attribute("error.type", span.error or str(status))
            begun.set_status(trace.Status(trace.StatusCode.ERROR))
        begun.end()
