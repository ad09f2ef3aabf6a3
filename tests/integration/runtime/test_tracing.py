"""Spans: what a turn and a night do, named as OpenTelemetry names it, without a word of what was said."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from consolidator import telemetry, tool
from consolidator.database import Database
from consolidator.service.tracing import export_spans
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, open_agent, send_and_collect
from tests.support import run_job

PRIVATE = "marker-of-mara"


@tool
async def look(what: str) -> str:
    """Look at something."""
    if what == "nowhere":
        raise LookupError(PRIVATE)
    return f"{what} is {PRIVATE}"


def by_name(spans: tuple[ReadableSpan, ...]) -> dict[str, ReadableSpan]:
    """Return spans by their names; of several with one name the last."""
    return {span.name: span for span in spans}


async def test_a_turn_is_a_span_with_its_model_and_tool_calls(database: Database) -> None:
    exporter = InMemorySpanExporter()
    replies = [ScriptedReply.calling(("look", {"what": PRIVATE})), ScriptedReply(text=f"It is {PRIVATE}.")]
    async with ModelServer(replies) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY, "gpt-4o-mini", system=PRIVATE)
        with export_spans(SimpleSpanProcessor(exporter)):
            await send_and_collect(session, PRIVATE)
    finished = exporter.get_finished_spans()
    spans = by_name(finished)
    turn, chat, call = spans["invoke_agent main"], spans["chat gpt-4o-mini"], spans["execute_tool look"]
    assert turn.attributes is not None
    assert chat.attributes is not None
    assert call.attributes is not None
    assert turn.attributes["gen_ai.conversation.id"] == session.id
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert int(str(chat.attributes["gen_ai.usage.output_tokens"])) > 0
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert (call.attributes["gen_ai.tool.name"], call.attributes["gen_ai.operation.name"]) == ("look", "execute_tool")
    assert {span.parent.span_id for span in (chat, call) if span.parent} == {turn.context.span_id}
    assert PRIVATE not in "".join(span.to_json() for span in finished)
    assert telemetry._listeners == []


async def test_what_fails_is_an_error_without_its_words(database: Database) -> None:
    exporter = InMemorySpanExporter()
    refused = ScriptedReply(status=400, body={"error": {"message": PRIVATE, "type": "invalid_request_error"}})
    replies = [ScriptedReply.calling(("look", {"what": "nowhere"})), refused]
    async with ModelServer(replies) as server, open_agent(database, server, [look]) as agent:
        session = await agent.open(KEY, "gpt-4o-mini")
        with export_spans(SimpleSpanProcessor(exporter)):
            await send_and_collect(session, "Hi")
    spans = by_name(exporter.get_finished_spans())
    chat, call = spans["chat gpt-4o-mini"], spans["execute_tool look"]
    assert chat.attributes is not None
    assert call.attributes is not None
    assert not chat.status.is_ok
    assert chat.attributes["error.type"] == "ModelRefused"
    assert call.attributes["consolidator.outcome"] == "error"
    assert PRIVATE not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_a_night_is_a_span_with_its_phases(database: Database, settings: Settings) -> None:
    exporter = InMemorySpanExporter()
    with export_spans(SimpleSpanProcessor(exporter)):
        await run_job(database, settings)
    spans = by_name(exporter.get_finished_spans())
    night = spans["run consolidation"]
    for name in ("phase sessions", "phase merge"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == night.context.span_id


async def test_without_an_exporter_nothing_listens_and_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with export_spans():
        assert telemetry._listeners == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with export_spans():
        assert telemetry._listeners == []


async def test_what_fails_in_a_listener_fails_nothing(tmp_path: Path) -> None:
    class Broken:
        def begin(self, span: telemetry.Span) -> None:
            raise RuntimeError(span.name)

        def end(self, span: telemetry.Span) -> None:
            raise RuntimeError(span.name)

    stop = telemetry.listen(Broken())
    try:
        with telemetry.open_span("run", "x") as span:
            pass
        assert span.seconds >= 0
    finally:
        stop()
