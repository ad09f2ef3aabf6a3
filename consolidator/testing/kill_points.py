"""Kill points: dies, with SIGKILL, at the n-th boundary that the runtime passes; or tells which there are.

A test of an agent runs it once to learn its boundaries (`Recorder`), then once for each, dying there, and wakes it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from consolidator.runtime import boundaries


@dataclass
class Recorder:
    """Writes down the boundaries that are passed."""

    passed: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.passed.append(name)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Yield a list that fills with the boundaries as they are passed."""
    recorder = Recorder()
    with _listening(recorder):
        yield recorder.passed


@contextmanager
def killed_at(number: int, name: str | None = None) -> Iterator[None]:
    """Kill this process at the n-th boundary, or the n-th of a name, counted from 1; with 0 never."""
    with interrupted_at(number, lambda _: die(), name):
        yield


@contextmanager
def interrupted_at(number: int, do: Callable[[str], None], name: str | None = None) -> Iterator[None]:
    """Call a function at the n-th boundary, or the n-th of a name: to stop the process, to let another overtake it."""
    passed = 0

    def count(this: str) -> None:
        nonlocal passed
        passed += name is None or this == name
        if passed == number and (name is None or this == name):
            do(this)

    with _listening(count):
        yield


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _listening(hook: boundaries.Hook) -> Iterator[None]:
    boundaries.listen(hook)
    try:
        yield
    finally:
        boundaries.listen(None)
