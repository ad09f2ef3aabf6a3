"""Tells listeners what this process does: requests, steps, calls of models and tools, runs and their phases.

Nobody listens by default, and then a span costs two readings of the clock. A span has names, numbers and sizes, and
never a text of a message, an argument or an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

log = logging.getLogger("consolidator.telemetry")
SpanKind = Literal["request", "agent", "model", "tool", "run", "phase"]


@dataclass(slots=True)
class Span:
    """Something that takes time; its attributes are called as in the semantic conventions of OpenTelemetry."""

    kind: SpanKind
    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # known at its end
    error: str | None = None  # the type of the error that it ended with


class Listener(Protocol):
    """Hears of spans as they begin and end, in the task that is in them."""

    def begin(self, span: Span) -> None:
        """Hear of a span that begins."""

    def end(self, span: Span) -> None:
        """Hear of a span that has ended."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Have a listener hear of all spans from now on; return what ends that."""
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop


@contextmanager
def open_span(kind: SpanKind, name: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Span]:
    """Yield a span that ends with the block; its attributes may be added to meanwhile."""
    span = Span(kind, name, dict(attributes or {}))
    hearing = tuple(_listeners)
    for listener in hearing:
        _tell(listener.begin, span)
    started = time.perf_counter()
    try:
        yield span
    except BaseException as error:
        span.error = type(error).__name__
        raise
    finally:
        span.seconds = time.perf_counter() - started
        for listener in reversed(hearing):
            _tell(listener.end, span)


def _tell(hear: Callable[[Span], None], span: Span) -> None:
    """Tell a listener; what fails in it must not fail what is measured."""
    try:
        hear(span)
    except Exception as error:  # noqa: BLE001 - the edge
        log.warning("a span of kind %s was not recorded: %s", span.kind, type(error).__name__)
