"""Kill points: dies, with SIGKILL, at the n-th boundary that the runtime passes; or tells which there are.

A test of an agent runs it once to learn its boundaries (`Recorder`), then once for each, dying there, and wakes it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from consolidator.runtime import points


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
def killed_at(number: int) -> Iterator[None]:
    """Kill this process at the n-th boundary, counted from 1; with 0 never."""
    passed = 0

    def count(_: str) -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            die()

    with _listening(count):
        yield


@contextmanager
def interrupted_at(number: int, do: Callable[[str], None]) -> Iterator[None]:
    """Call a function at the n-th boundary: to stop the process, to let another overtake it."""
    passed = 0

    def count(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            do(name)

    with _listening(count):
        yield


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _listening(hook: points.Hook) -> Iterator[None]:
    points.listen(hook)
    try:
        yield
    finally:
        points.listen(None)
